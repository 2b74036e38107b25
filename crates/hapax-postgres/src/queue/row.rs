//! Values in rows and in calls. What hapax did not write so is an error: nothing here is guessed.

use crate::value::Value;
use bytes::Bytes;
use hapax_core::{
    Fingerprint, Key, Span, Timestamp,
    idempotency::Receipt,
    queue::{Due, QueueId, Uid},
};
use sqlx::{Error, Row as _, postgres::PgRow};

/// The parts of a queue's name.
pub(super) fn queue(queue: &QueueId) -> [Value; 2] {
    [text(queue.namespace.as_str()), text(queue.name.as_str())]
}

pub(super) fn text(text: &str) -> Value {
    Value::bytes(text.as_bytes())
}

pub(super) fn maybe_text(text: Option<&str>) -> Value {
    Value::Bytes(text.map(|text| text.as_bytes().to_vec()))
}

/// Ids, in their order.
pub(super) fn uids(uids: impl Iterator<Item = Uid>) -> Value {
    Value::ManyBytes(uids.map(|uid| Some(uid.as_bytes().to_vec())).collect())
}

/// As PostgreSQL keeps it.
pub(super) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn span(span: Span) -> i64 {
    integer(span.as_millis())
}

pub(super) fn size(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A number that may be none.
pub(super) fn maybe(n: Option<i64>) -> Value {
    Value::ManyBig(vec![n])
}

/// After how long, and at which instant.
pub(super) fn due(due: Due) -> (i64, Option<i64>) {
    match due {
        Due::Now => (0, None),
        Due::After(after) => (span(after), None),
        Due::At(at) => (0, Some(at.as_millis())),
    }
}

/// The version of a fingerprint, and its bytes where it has any.
pub(super) fn digest(fingerprint: &Fingerprint) -> (i64, Option<Vec<u8>>) {
    let digest = (*fingerprint != Fingerprint::ANY).then(|| fingerprint.digest().to_vec());
    (i64::from(fingerprint.version()), digest)
}

/// As the driver says of a column that cannot be read.
pub(super) fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Decode(error.into())
}

/// As PostgreSQL kept it.
pub(super) fn natural<T: TryFrom<i64>>(row: &PgRow, name: &str) -> Result<T, Error> {
    T::try_from(row.try_get(name)?).map_err(|_| unreadable(format!("`{name}` is out of its range")))
}

pub(super) fn instant(row: &PgRow, name: &str) -> Result<Timestamp, Error> {
    row.try_get(name).map(Timestamp::from_millis)
}

pub(super) fn maybe_instant(row: &PgRow, name: &str) -> Result<Option<Timestamp>, Error> {
    Ok(row.try_get::<Option<i64>, _>(name)?.map(Timestamp::from_millis))
}

pub(super) fn bytes(row: &PgRow, name: &str) -> Result<Bytes, Error> {
    Ok(row.try_get::<Option<Vec<u8>>, _>(name)?.unwrap_or_default().into())
}

pub(super) fn uid(row: &PgRow, name: &str) -> Result<Uid, Error> {
    let bytes: Vec<u8> = row.try_get(name)?;
    bytes.try_into().map(Uid::from_bytes).map_err(|_| unreadable(format!("`{name}` is no id of a job")))
}

/// A text that may be none.
pub(super) fn string(row: &PgRow, name: &str) -> Result<Option<String>, Error> {
    row.try_get::<Option<Vec<u8>>, _>(name)?.map(String::from_utf8).transpose().map_err(unreadable)
}

/// A name that may be none.
pub(super) fn named<T, E>(
    row: &PgRow,
    name: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Error>
where
    E: std::error::Error + Send + Sync + 'static,
{
    string(row, name)?.map(|text| read(&text)).transpose().map_err(unreadable)
}

/// A name.
pub(super) fn name<T, E>(row: &PgRow, name: &str, read: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Error>
where
    E: std::error::Error + Send + Sync + 'static,
{
    named(row, name, read)?.ok_or_else(|| unreadable(format!("`{name}` is none")))
}

pub(super) fn job_id(row: &PgRow) -> Result<Option<Key>, Error> {
    named(row, "job_id", Key::from_shown)
}

pub(super) fn fingerprint(row: &PgRow) -> Result<Fingerprint, Error> {
    match u16::try_from(row.try_get::<i32, _>("fingerprint_version")?) {
        Ok(0) => Ok(Fingerprint::ANY),
        Ok(version) => {
            let digest = bytes(row, "fingerprint")?.as_ref().try_into().map_err(unreadable)?;
            Ok(Fingerprint::from_digest(version, digest))
        }
        Err(error) => Err(unreadable(error)),
    }
}

pub(super) fn receipt(row: &PgRow) -> Result<Option<Receipt>, Error> {
    Ok(match string(row, "codec")? {
        Some(codec) => Some(Receipt::new(codec, bytes(row, "result")?)),
        None => None,
    })
}
