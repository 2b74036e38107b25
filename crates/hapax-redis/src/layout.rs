//! Which versions of hapax can work with a store.

use crate::error::Failure;
use hapax_core::{StoreErrorKind, error::needs_newer};
use redis::Value;

/// The layout that this version makes, and the least that a process must know to read and to write it.
pub(crate) const OURS: &str = "1 1 1";
const READS: u32 = 1;
const WRITES: u32 = 1;

/// Whether this version can work with what it found. Nothing is there after a flush, or where it was evicted.
pub(crate) fn check(place: &str, found: &Value) -> Result<(), Failure> {
    let text: Option<String> = redis::from_redis_value_ref(found).unwrap_or_default();
    let Some(text) = text else { return Ok(()) };
    let numbers: Vec<u32> = text.split(' ').filter_map(|part| part.parse().ok()).collect();
    match numbers.as_slice() {
        [_, min_reader, min_writer] if *min_reader <= READS && *min_writer <= WRITES => Ok(()),
        [layout, needed @ ..] => {
            let needed = needed.iter().max().unwrap_or(layout);
            let reason = needs_newer(
                &format!("the store on {place}"),
                (*layout).into(),
                (*needed).into(),
                WRITES.into(),
            );
            Err(Failure::new(StoreErrorKind::Version, reason))
        }
        [] => {
            let reason = format!(
                "what should name the store's layout on {place} does not: is the prefix another program's?"
            );
            Err(Failure::new(StoreErrorKind::Corrupt, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<(), StoreErrorKind> {
        check("here", &Value::BulkString(text.into())).map_err(|failure| failure.kind)
    }

    #[test]
    fn a_newer_store_is_refused_by_what_it_asks_for() {
        assert_eq!(check("here", &Value::Nil).map_err(|failure| failure.kind), Ok(()));
        assert_eq!(found(OURS), Ok(()));
        assert_eq!(found("7 1 1"), Ok(()));
        assert_eq!(found("7 2 1"), Err(StoreErrorKind::Version));
        assert_eq!(found("7 1 2"), Err(StoreErrorKind::Version));
        assert_eq!(found("7"), Err(StoreErrorKind::Version));
        assert_eq!(found("hello"), Err(StoreErrorKind::Corrupt));
    }
}
