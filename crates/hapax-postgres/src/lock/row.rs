//! Values in rows and in calls. What hapax did not write so is an error: nothing here is guessed.

use crate::value::Value;
use hapax_core::{
    Key, Name, Namespace, Scope, Timestamp,
    lock::{Fence, Holder, HolderInfo, LockInfo},
};
use sqlx::{Error, Row as _, postgres::PgRow};
use std::time::Duration;

/// The parts of a name.
pub(super) fn name(name: &Name) -> Vec<Value> {
    [name.namespace(), name.scope(), name.key()].map(|part| Value::bytes(part.as_bytes())).into()
}

pub(super) fn first(rows: &[PgRow]) -> Result<&PgRow, Error> {
    rows.first().ok_or(Error::RowNotFound)
}

/// As the driver says of a column that cannot be read.
pub(super) fn unreadable(what: &'static str) -> Error {
    Error::Decode(what.into())
}

pub(super) fn fence(row: &PgRow, column: &str) -> Result<Fence, Error> {
    let number = u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default();
    Fence::new(number).map_err(|error| Error::Decode(error.into()))
}

pub(super) fn instant(row: &PgRow, column: &str) -> Result<Timestamp, Error> {
    row.try_get(column).map(Timestamp::from_millis)
}

pub(super) fn duration(row: &PgRow, column: &str) -> Result<Duration, Error> {
    Ok(Duration::from_millis(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default()))
}

/// Who holds the lock of a row that says so.
pub(super) fn holder(row: &PgRow) -> Result<HolderInfo, Error> {
    let says: Option<Vec<u8>> = row.try_get("holder")?;
    Ok(HolderInfo {
        holder: Holder::new(&String::from_utf8_lossy(&says.unwrap_or_default())),
        fence: fence(row, "fence")?,
        since: instant(row, "since")?,
        until: instant(row, "until")?,
    })
}

pub(super) fn info(row: &PgRow) -> Result<LockInfo, Error> {
    let is_held = row.try_get::<&str, _>("said")? == "held";
    let last: Option<i64> = row.try_get("last")?;
    Ok(LockInfo {
        held: is_held.then(|| holder(row)).transpose()?,
        fence: last.map(|_| fence(row, "last")).transpose()?,
    })
}

/// The name of a row; none where hapax has no such name.
pub(super) fn named(row: &PgRow, namespace: &Namespace) -> Result<Option<Name>, Error> {
    let text = |column: &str| -> Result<_, Error> {
        Ok(String::from_utf8(row.try_get::<Vec<u8>, _>(column)?).unwrap_or_default())
    };
    let (scope, key) = (Scope::from_shown(&text("scope")?), Key::from_shown(&text("key")?));
    Ok(scope.ok().zip(key.ok()).map(|(scope, key)| Name::new(namespace, &scope, &key)))
}
