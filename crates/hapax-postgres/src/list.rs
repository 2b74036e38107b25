//! Pages of records: a range of the table, in its order.

use crate::{answer, call::Call, error::Failure, store::PostgresStore, value::Value};
use hapax_core::{
    Key, Name, Scope, StoreResult,
    idempotency::{List, Page, StateFilter},
};
use sqlx::{Error, Row as _, postgres::PgRow};

const OP: &str = "list keys";

impl PostgresStore {
    /// The page that was asked for.
    pub(crate) async fn page(&self, req: &List) -> StoreResult<Page> {
        let Some((scope, key)) = start(req) else { return Ok(Page::default()) };
        let state = req.state.map(|state| match state {
            StateFilter::Pending => 0,
            StateFilter::Done => 1,
            StateFilter::Unknown => 2,
        });
        // One more than asked for tells whether there are more.
        let limit = i64::try_from(req.limit).unwrap_or(i64::MAX).saturating_add(1);
        let values = [
            Value::bytes(req.namespace.as_str().as_bytes()),
            Value::Bytes(Some(scope)),
            Value::Bytes(Some(key)),
            Value::Bytes(req.scope.as_ref().map(|scope| scope.as_str().as_bytes().to_vec())),
            Value::bytes(req.prefix.as_bytes()),
            Value::Bytes(end(req.prefix.as_bytes())),
            Value::Small(state),
            Value::Big(limit),
        ];
        let call = Call::one(self.schema(), "list", &values);
        let rows = self.sessions.call_within_limit(&call).await.map_err(|failure| failure.error(OP))?;
        let failed = |error| Failure::of(&self.sessions.place, error).undone().error(OP);
        let mut page = Page { more: rows.len() > req.limit, ..Page::default() };
        for row in rows.iter().take(req.limit) {
            let record = answer::record(row).map_err(failed)?;
            // A name that hapax did not write is passed over.
            page.records.extend(name(row, req).map_err(failed)?.zip(record));
        }
        Ok(page)
    }
}

fn name(row: &PgRow, req: &List) -> Result<Option<Name>, Error> {
    let text = |name: &str| -> Result<_, Error> {
        let bytes: Vec<u8> = row.try_get(name)?;
        Ok(String::from_utf8(bytes).unwrap_or_default())
    };
    let (scope, key) = (Scope::from_shown(&text("scope")?), Key::from_shown(&text("key")?));
    Ok(scope.ok().zip(key.ok()).map(|(scope, key)| Name::new(&req.namespace, &scope, &key)))
}

/// Scope and key from which on to look; none where there is nothing.
fn start(req: &List) -> Option<(Vec<u8>, Vec<u8>)> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let prefix = bytes(&req.prefix);
    // The next key in the order of bytes.
    let next = |key: &Key| [key.as_str().as_bytes(), &[0]].concat();
    match (&req.scope, &req.after) {
        (Some(scope), Some((after, _))) if after > scope => None,
        (Some(scope), Some((after, key))) if after == scope => {
            Some((bytes(scope.as_str()), next(key).max(prefix)))
        }
        (Some(scope), _) => Some((bytes(scope.as_str()), prefix)),
        (None, Some((after, key))) => Some((bytes(after.as_str()), next(key))),
        (None, None) => Some((Vec::new(), Vec::new())),
    }
}

/// The first key after all that start with a prefix; none where every key does.
fn end(prefix: &[u8]) -> Option<Vec<u8>> {
    let (last, rest) = prefix.split_last()?;
    // UTF-8 has no byte 255.
    Some([rest, &[last.saturating_add(1)]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_an_end() {
        assert_eq!(end(b""), None);
        assert_eq!(end(b"ab").as_deref(), Some(b"ac".as_slice()));
        assert!(end("é".as_bytes()).as_deref() > Some("é\u{10ffff}".as_bytes()));
    }
}
