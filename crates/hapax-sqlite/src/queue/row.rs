//! Values in rows. What hapax did not write so is an error: nothing here is guessed.

use bytes::Bytes;
use hapax_core::{Fingerprint, Key, idempotency::Receipt, queue::Uid};
use rusqlite::{
    Row,
    types::{FromSqlError, FromSqlResult, ValueRef},
};

pub(super) fn uid(row: &Row<'_>, at: usize) -> rusqlite::Result<Uid> {
    row.get(at).map(Uid::from_bytes)
}

pub(super) fn job_id(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Key>> {
    let text = row.get_ref(at)?.as_str_or_null()?;
    text.map(|text| of(Key::from_shown(text))).transpose().map_err(Into::into)
}

/// Any that has a name in Rust.
pub(super) fn of<T, E: std::error::Error + Send + Sync + 'static>(read: Result<T, E>) -> FromSqlResult<T> {
    read.map_err(|error| FromSqlError::Other(Box::new(error)))
}

pub(super) fn bytes(row: &Row<'_>, at: usize) -> rusqlite::Result<Bytes> {
    Ok(row.get_ref(at)?.as_blob_or_null()?.map(Bytes::copy_from_slice).unwrap_or_default())
}

/// From two columns.
pub(super) fn fingerprint(row: &Row<'_>, at: usize) -> rusqlite::Result<Fingerprint> {
    match row.get(at)? {
        0 => Ok(Fingerprint::ANY),
        version => Ok(Fingerprint::from_digest(version, row.get(at + 1)?)),
    }
}

/// From two columns.
pub(super) fn receipt(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Receipt>> {
    match (row.get_ref(at)?, row.get_ref(at + 1)?) {
        (ValueRef::Null, _) => Ok(None),
        (codec, bytes) => {
            Ok(Some(Receipt::stored(codec.as_str()?, Bytes::copy_from_slice(bytes.as_blob()?))))
        }
    }
}
