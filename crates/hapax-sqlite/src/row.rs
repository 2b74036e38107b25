//! From a row to what lies under a key, and back.

use bytes::Bytes;
use hapax_core::{
    BootTime, Fingerprint, Name, Timestamp, Token,
    idempotency::{Entry, Kind, Pending, Receipt, Settled, machine::Slot},
};
use rusqlite::{
    CachedStatement, Connection, OptionalExtension, Row,
    types::{Null, ValueRef},
};

/// The version of rows that this process writes, and the newest that it reads.
const FORMAT: i64 = 1;
const PENDING: i64 = 0;
const DONE: i64 = 1;
const UNKNOWN: i64 = 2;

/// The columns after the name that are read always. The last says whether there is a late result.
macro_rules! columns {
    () => {
        "format, boot_id, state, token, fingerprint_version, fingerprint, first_at, until, completed_at, codec, receipt, \
         late_state"
    };
}
pub(crate) use columns;
macro_rules! late_columns {
    () => {
        "late_state, late_token, late_fingerprint_version, late_fingerprint, late_first_at, late_until, \
         late_completed_at, late_codec, late_receipt"
    };
}

/// Where the columns of a result begin, in a row that begins with `format`.
const MAIN: usize = 2;
/// After the columns of the result.
const LATE: usize = 11;

const LOAD: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM hapax_idempotency WHERE namespace = ?1 AND scope = ?2 AND key = ?3"
);
const LOAD_LATE: &str = concat!(
    "SELECT ",
    late_columns!(),
    " FROM hapax_idempotency WHERE namespace = ?1 AND scope = ?2 AND key = ?3"
);
const INSERT: &str = concat!(
    "INSERT INTO hapax_idempotency (namespace, scope, key, format, boot_id, state, token, fingerprint_version, \
     fingerprint, first_at, until, completed_at, codec, receipt, ",
    late_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)"
);
const UPDATE: &str = concat!(
    "UPDATE hapax_idempotency SET (format, boot_id, state, token, fingerprint_version, fingerprint, first_at, until, \
     completed_at, codec, receipt, ",
    late_columns!(),
    ") = (?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23) \
     WHERE namespace = ?1 AND scope = ?2 AND key = ?3"
);
const DELETE: &str = "DELETE FROM hapax_idempotency WHERE namespace = ?1 AND scope = ?2 AND key = ?3";

/// What lies under a name. `boot_id` is the life of the machine in which leases count now.
pub(crate) fn load(conn: &Connection, name: &Name, boot_id: &str) -> rusqlite::Result<Slot> {
    let mut statement = conn.prepare_cached(LOAD)?;
    let name = [name.namespace(), name.scope(), name.key()];
    statement.query_row(name, |row| entry(conn, name, row, 0, boot_id)).optional()
}

/// Makes the row of a name say `after`, where it said `before`.
pub(crate) fn store(
    conn: &Connection,
    name: &Name,
    boot_id: &str,
    before: &Slot,
    after: &Slot,
) -> rusqlite::Result<()> {
    let statement = match (before, after) {
        (None, None) => return Ok(()),
        (Some(_), None) => DELETE,
        (None, Some(_)) => INSERT,
        (Some(_), Some(_)) => UPDATE,
    };
    let mut statement = conn.prepare_cached(statement)?;
    statement.raw_bind_parameter(1, name.namespace())?;
    statement.raw_bind_parameter(2, name.scope())?;
    statement.raw_bind_parameter(3, name.key())?;
    if let Some(entry) = after {
        bind(&mut statement, entry, boot_id)?;
    }
    statement.raw_execute().map(drop)
}

fn bind(statement: &mut CachedStatement<'_>, entry: &Entry, boot_id: &str) -> rusqlite::Result<()> {
    // Parameters count from 1, and three of them are the name.
    let at = |column: usize| column + 4;
    // A statement from the cache has no values bound, so what is not bound here is NULL.
    statement.raw_bind_parameter(at(0), FORMAT)?;
    match entry {
        Entry::Pending(p) => {
            statement.raw_bind_parameter(at(1), boot_id)?;
            bind_head(statement, at(MAIN), PENDING, &p.token, &p.fingerprint, p.first_at)?;
            statement
                .raw_bind_parameter(at(MAIN + 5), i64::try_from(p.until.as_millis()).unwrap_or(i64::MAX))?;
            match &p.late {
                Some(late) => bind_result(statement, at(LATE), late),
                None => Ok(()),
            }
        }
        Entry::Settled(s) => bind_result(statement, at(MAIN), s),
        // The rules leave such an entry as it is, so it is never written; and were it, the row would refuse.
        Entry::Unreadable => statement.raw_bind_parameter(at(0), Null),
    }
}

fn bind_result(statement: &mut CachedStatement<'_>, first: usize, s: &Settled) -> rusqlite::Result<()> {
    let state = match s.kind {
        Kind::Done => DONE,
        Kind::Unknown => UNKNOWN,
    };
    bind_head(statement, first, state, &s.token, &s.fingerprint, s.first_at)?;
    statement.raw_bind_parameter(first + 5, s.until.as_millis())?;
    statement.raw_bind_parameter(first + 6, s.completed_at.as_millis())?;
    statement.raw_bind_parameter(first + 7, &*s.receipt.codec)?;
    statement.raw_bind_parameter(first + 8, &*s.receipt.bytes)
}

fn bind_head(
    statement: &mut CachedStatement<'_>,
    first: usize,
    state: i64,
    token: &Token,
    fingerprint: &Fingerprint,
    first_at: Timestamp,
) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(first, state)?;
    statement.raw_bind_parameter(first + 1, token.as_bytes())?;
    statement.raw_bind_parameter(first + 2, fingerprint.version())?;
    if *fingerprint != Fingerprint::ANY {
        statement.raw_bind_parameter(first + 3, fingerprint.digest())?;
    }
    statement.raw_bind_parameter(first + 4, first_at.as_millis())
}

/// The entry in a row whose columns begin at `first`. What cannot be read is held as it is.
pub(crate) fn entry(
    conn: &Connection,
    name: [&str; 3],
    row: &Row<'_>,
    first: usize,
    boot_id: &str,
) -> rusqlite::Result<Entry> {
    let columns = Columns { row, first };
    Ok(match columns.entry(boot_id)? {
        Some(Entry::Pending(pending)) if columns.value(LATE)? != ValueRef::Null => {
            // Seldom; the row is still being read, so both see the same moment.
            let mut statement = conn.prepare_cached(LOAD_LATE)?;
            let late = statement.query_row(name, |row| {
                let late = Columns { row, first: 0 };
                late.settled(0, late.integer(0)?)
            })?;
            late.map_or(Entry::Unreadable, |late| {
                Entry::Pending(Pending { late: Some(Box::new(late)), ..pending })
            })
        }
        found => found.unwrap_or(Entry::Unreadable),
    })
}

/// Reads columns; `None` where one does not hold what this version writes.
struct Columns<'r> {
    row: &'r Row<'r>,
    first: usize,
}

impl Columns<'_> {
    /// The entry without its late result.
    fn entry(&self, boot_id: &str) -> rusqlite::Result<Option<Entry>> {
        if self.integer(0)? != Some(FORMAT) {
            return Ok(None);
        }
        let state = self.integer(MAIN)?;
        if state != Some(PENDING) {
            return Ok(self.settled(MAIN, state)?.map(Entry::Settled));
        }
        let Some((token, fingerprint, first_at)) = self.head(MAIN)? else { return Ok(None) };
        let until = match (self.value(1)?, self.integer(MAIN + 5)?) {
            (ValueRef::Text(id), Some(until)) if id == boot_id.as_bytes() => u64::try_from(until).ok(),
            // The machine started anew since: whoever held the key is dead.
            (ValueRef::Text(_), Some(_)) => Some(0),
            _ => None,
        };
        let until = until.map(BootTime::from_millis);
        Ok(until.map(|until| Entry::Pending(Pending { token, fingerprint, until, first_at, late: None })))
    }

    fn settled(&self, at: usize, state: Option<i64>) -> rusqlite::Result<Option<Settled>> {
        let kind = match state {
            Some(DONE) => Kind::Done,
            Some(UNKNOWN) => Kind::Unknown,
            _ => return Ok(None),
        };
        let Some((token, fingerprint, first_at)) = self.head(at)? else { return Ok(None) };
        let (Some(until), Some(completed_at)) = (self.integer(at + 5)?, self.integer(at + 6)?) else {
            return Ok(None);
        };
        let (ValueRef::Text(codec), ValueRef::Blob(bytes)) = (self.value(at + 7)?, self.value(at + 8)?)
        else {
            return Ok(None);
        };
        let Ok(codec) = std::str::from_utf8(codec) else { return Ok(None) };
        Ok(Some(Settled {
            token,
            fingerprint,
            kind,
            receipt: Receipt::stored(codec, Bytes::copy_from_slice(bytes)),
            first_at,
            completed_at: Timestamp::from_millis(completed_at),
            until: Timestamp::from_millis(until),
        }))
    }

    fn head(&self, at: usize) -> rusqlite::Result<Option<(Token, Fingerprint, Timestamp)>> {
        let ValueRef::Blob(token) = self.value(at + 1)? else { return Ok(None) };
        let Ok(token) = <[u8; 16]>::try_from(token) else { return Ok(None) };
        let Some(version) = self.integer(at + 2)?.and_then(|version| u16::try_from(version).ok()) else {
            return Ok(None);
        };
        let fingerprint = match self.value(at + 3)? {
            ValueRef::Null if version == 0 => Fingerprint::ANY,
            ValueRef::Blob(digest) => match <[u8; 32]>::try_from(digest) {
                Ok(digest) => Fingerprint::from_digest(version, digest),
                Err(_) => return Ok(None),
            },
            _ => return Ok(None),
        };
        let first_at = self.integer(at + 4)?;
        Ok(first_at.map(|first_at| (Token::from_bytes(token), fingerprint, Timestamp::from_millis(first_at))))
    }

    fn integer(&self, at: usize) -> rusqlite::Result<Option<i64>> {
        Ok(match self.value(at)? {
            ValueRef::Integer(number) => Some(number),
            _ => None,
        })
    }

    fn value(&self, at: usize) -> rusqlite::Result<ValueRef<'_>> {
        self.row.get_ref(self.first + at)
    }
}
