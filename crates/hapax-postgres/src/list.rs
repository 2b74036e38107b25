//! Pages of records: a range of the table, in its order.

use crate::{answer, call::Call, error::Failure, named, store::PostgresStore, value::Value};
use hapax_core::{
    Key, Name, Scope, StoreResult,
    idempotency::{List, Page, StateFilter},
};
use sqlx::{Error, Row as _, postgres::PgRow};

const OP: &str = "list keys";

impl PostgresStore {
    /// The page that was asked for.
    pub(crate) async fn page(&self, req: &List) -> StoreResult<Page> {
        let Some((from, end)) = range(req) else { return Ok(Page::default()) };
        // In one scope, all keys between the two begin with it.
        let prefix = if req.scope.is_some() { "" } else { req.prefix.as_str() };
        let state = req.state.map(|state| match state {
            StateFilter::Pending => 0,
            StateFilter::Done => 1,
            StateFilter::Unknown => 2,
        });
        // One more than asked for tells whether there are more.
        let limit = i64::try_from(req.limit).unwrap_or(i64::MAX).saturating_add(1);
        let values = [
            Value::Bytes(Some(from)),
            Value::Bytes(Some(end)),
            Value::bytes(prefix.as_bytes()),
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
    let bytes: Vec<u8> = row.try_get("name")?;
    let Some((scope, key)) = named::split(&bytes, &req.namespace) else { return Ok(None) };
    let (scope, key) = (Scope::from_shown(&scope), Key::from_shown(&key));
    Ok(scope.ok().zip(key.ok()).map(|(scope, key)| Name::new(&req.namespace, &scope, &key)))
}

/// The first name to look at, and one after the last; none where there is nothing.
fn range(req: &List) -> Option<(Vec<u8>, Vec<u8>)> {
    let prefix = req.prefix.as_bytes();
    let place = |scope: Option<&Scope>| named::place(req.namespace.as_str(), scope.map(Scope::as_str));
    // The next key in the order of bytes.
    let after = req.after.as_ref().map(|(scope, key)| (scope, [key.as_str().as_bytes(), &[0]].concat()));
    let at = |scope: &Scope, key: &[u8]| [place(Some(scope)).as_slice(), key].concat();
    let from = match (&req.scope, after) {
        (Some(scope), Some((after, _))) if after > scope => return None,
        (Some(scope), Some((after, key))) if after == scope => at(scope, &key).max(at(scope, prefix)),
        (Some(scope), _) => at(scope, prefix),
        (None, Some((after, key))) => at(after, &key),
        (None, None) => place(None),
    };
    let end = match (&req.scope, end(prefix)) {
        (Some(scope), Some(end)) => at(scope, &end),
        (scope, _) => named::behind(place(scope.as_ref())),
    };
    Some((from, end))
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
