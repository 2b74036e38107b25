//! Pages of records: a range of the table, in its order.

use crate::{row, step::Moment};
use hapax_core::{
    Key, Name, Scope,
    idempotency::{List, Page, machine},
};
use rusqlite::{Row, params};

const OF_SCOPE: &str = concat!(
    "SELECT scope, key, ",
    row::columns!(),
    " FROM hapax_idempotency WHERE namespace = ?1 AND scope = ?2 AND key >= ?3 ORDER BY key"
);
const OF_ALL: &str = concat!(
    "SELECT scope, key, ",
    row::columns!(),
    " FROM hapax_idempotency WHERE namespace = ?1 AND (scope, key) >= (?2, ?3) ORDER BY scope, key"
);

/// The page that was asked for.
pub(crate) fn page(at: &Moment<'_>, req: &List) -> rusqlite::Result<Page> {
    let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
    let (sql, scope, key) = match (&req.scope, after) {
        (Some(scope), Some((after_scope, _))) if after_scope > scope.as_str() => return Ok(Page::default()),
        (Some(scope), Some((after_scope, key))) if after_scope == scope.as_str() => {
            (OF_SCOPE, scope.as_str(), key.max(&req.prefix))
        }
        (Some(scope), _) => (OF_SCOPE, scope.as_str(), req.prefix.as_str()),
        (None, Some((scope, key))) => (OF_ALL, scope, key),
        (None, None) => (OF_ALL, "", ""),
    };
    let mut statement = at.conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![req.namespace.as_str(), scope, key])?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        let (scope, key) = (text(row, 0)?, text(row, 1)?);
        if !key.starts_with(&req.prefix) {
            // In one scope, keys with the prefix lie together, and the first came first.
            if req.scope.is_some() {
                break;
            }
            continue;
        }
        if after.is_some_and(|after| (scope, key) <= after) {
            continue;
        }
        let name = [req.namespace.as_str(), scope, key];
        let slot = Some(row::entry(at.conn, name, row, 2, at.boot_id)?);
        let Some(record) = machine::into_record(slot, &at.now)
            .filter(|record| req.state.is_none_or(|state| record.is(state)))
        else {
            continue;
        };
        // Written by another program than hapax.
        let (Ok(scope), Ok(key)) = (Scope::from_shown(scope), Key::from_shown(key)) else { continue };
        if page.records.len() == req.limit {
            page.more = true;
            break;
        }
        page.records.push((Name::new(&req.namespace, &scope, &key), record));
    }
    Ok(page)
}

fn text<'r>(row: &'r Row<'_>, at: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(at)?.as_str()?)
}
