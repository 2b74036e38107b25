//! What a function of the server answers.

use bytes::Bytes;
use hapax_core::{
    BootTime, Fingerprint, Now, Timestamp, Token,
    idempotency::{Entry, Kind, Pending, Receipt, Record, Settled},
};
use sqlx::{Error, Row as _, postgres::PgRow};

/// A word, and the record that it speaks of.
#[derive(Debug)]
pub(crate) struct Answer<'r> {
    pub(crate) said: &'r str,
    pub(crate) until: Option<Timestamp>,
    pub(crate) first_at: Option<Timestamp>,
    pub(crate) record: Option<Record>,
}

impl<'r> Answer<'r> {
    pub(crate) fn read(row: &'r PgRow) -> Result<Self, Error> {
        let instant = |name: &str| -> Result<_, Error> {
            Ok(row.try_get::<Option<i64>, _>(name)?.map(Timestamp::from_millis))
        };
        Ok(Self {
            said: row.try_get::<Option<&str>, _>("said")?.unwrap_or_default(),
            until: instant("until")?,
            first_at: instant("first_at")?,
            record: record(row)?,
        })
    }

    /// Both instants of a reservation.
    pub(crate) fn lease(&self) -> Option<(Timestamp, Timestamp)> {
        self.until.zip(self.first_at)
    }
}

/// The record in a row; none where the row has no state.
pub(crate) fn record(row: &PgRow) -> Result<Option<Record>, Error> {
    let Some(state) = row.try_get::<Option<i16>, _>("state")? else { return Ok(None) };
    let entry = entry(row, state)?.unwrap_or(Entry::Unreadable);
    // Leases are on the same clock as everything else: from zero, every instant is as far as it says.
    let zero = Now { wall: Timestamp::from_millis(0), boot: BootTime::from_millis(0) };
    Ok(Some(Record::of(&entry, &zero)))
}

/// `None` where a column does not hold what this version writes.
fn entry(row: &PgRow, state: i16) -> Result<Option<Entry>, Error> {
    let bytes = |name: &str| row.try_get::<Option<Vec<u8>>, _>(name);
    let instant = |name: &str| row.try_get::<Option<i64>, _>(name);
    let kind = match state {
        0 => None,
        1 => Some(Kind::Done),
        2 => Some(Kind::Unknown),
        _ => return Ok(None),
    };
    let token = bytes("token")?.and_then(|token| <[u8; 16]>::try_from(token).ok());
    let version = row.try_get::<Option<i32>, _>("fingerprint_version")?;
    let fingerprint = fingerprint(version, bytes("fingerprint")?);
    let (first_at, until) = (instant("first_at")?, instant("until")?);
    let (Some(token), Some(fingerprint), Some(first_at), Some(until)) = (token, fingerprint, first_at, until)
    else {
        return Ok(None);
    };
    let (token, first_at) = (Token::from_bytes(token), Timestamp::from_millis(first_at));
    let Some(kind) = kind else {
        let until = BootTime::from_millis(u64::try_from(until).unwrap_or(0));
        return Ok(Some(Entry::Pending(Pending { token, fingerprint, until, first_at, late: None })));
    };
    let codec = bytes("codec")?.and_then(|codec| String::from_utf8(codec).ok());
    let (Some(codec), Some(receipt), Some(completed_at)) =
        (codec, bytes("receipt")?, instant("completed_at")?)
    else {
        return Ok(None);
    };
    Ok(Some(Entry::Settled(Settled {
        token,
        fingerprint,
        kind,
        receipt: Receipt::new(codec, Bytes::from(receipt)),
        first_at,
        completed_at: Timestamp::from_millis(completed_at),
        until: Timestamp::from_millis(until),
    })))
}

fn fingerprint(version: Option<i32>, digest: Option<Vec<u8>>) -> Option<Fingerprint> {
    match (u16::try_from(version?).ok()?, digest) {
        (0, _) => Some(Fingerprint::ANY),
        (version, digest) => Some(Fingerprint::from_digest(version, digest?.try_into().ok()?)),
    }
}
