//! Pages of locks that are held: a range of the table, in its order.

use super::row;
use crate::step::Moment;
use hapax_core::{
    Key, Name, Scope,
    lock::{ListLocks, LockPage, SCOPE, machine},
};
use rusqlite::params;

pub(super) const PAGE: &str = concat!(
    "SELECT key, ",
    row::columns!(),
    " FROM hapax_lock WHERE namespace = ?1 AND key >= ?2 ORDER BY key"
);

/// The page that was asked for.
pub(super) fn page(at: &Moment<'_>, req: &ListLocks) -> rusqlite::Result<LockPage> {
    let mut page = LockPage::default();
    // It always is one.
    let Ok(scope) = Scope::new(SCOPE) else { return Ok(page) };
    let after = req.after.as_ref().map(Key::as_str);
    let from = after.unwrap_or_default().max(&req.prefix);
    let mut statement = at.conn.prepare_cached(PAGE)?;
    let mut rows = statement.query(params![req.namespace.as_str(), from])?;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_str()?;
        if !key.starts_with(&req.prefix) {
            break;
        }
        if after.is_some_and(|after| key <= after) {
            continue;
        }
        let lock = row::read(row, 1, at.boot_id)?;
        let Some(holder) = machine::holder(&lock, &at.now) else { continue };
        // Written by another program than hapax.
        let Ok(key) = Key::from_shown(key) else { continue };
        if page.locks.len() == req.limit {
            page.more = true;
            break;
        }
        page.locks.push((Name::new(&req.namespace, &scope, &key), holder));
    }
    Ok(page)
}
