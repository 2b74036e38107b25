//! From a row to what was counted, and back. What hapax did not write so is an error: nothing here is guessed.

use super::log;
use crate::number::{integer, natural};
use hapax_core::{
    BoxError, Namespace,
    limit::{
        Algorithm, Check, Quota, State,
        machine::{FixedWindow, Kept, SlidingCounter, SlidingWindow, Slot, TokenBucket, ends},
    },
};
use rusqlite::{Connection, OptionalExtension, Row, params, types::FromSqlError};
use std::time::Duration;

/// Which one it is.
macro_rules! at {
    () => {
        " WHERE namespace = ?1 AND key = ?2 AND algorithm = ?3 AND shadow = ?4"
    };
}
pub(super) const LOAD: &str =
    concat!("SELECT most, window, at, count, previous, log FROM hapax_limit", at!());
const INSERT: &str = "INSERT INTO hapax_limit (namespace, key, algorithm, shadow, most, window, until, at, count, \
                      previous, log) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
pub(super) const UPDATE: &str = concat!(
    "UPDATE hapax_limit SET (most, window, until, at, count, previous, log) = (?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    at!()
);
pub(super) const DELETE: &str = concat!("DELETE FROM hapax_limit", at!());

fn number(algorithm: Algorithm) -> i64 {
    match algorithm {
        Algorithm::FixedWindow => 0,
        Algorithm::SlidingWindow => 1,
        Algorithm::SlidingCounter => 2,
        Algorithm::TokenBucket => 3,
    }
}

/// What was counted for a check.
pub(super) fn load(conn: &Connection, namespace: &Namespace, check: &Check) -> rusqlite::Result<Slot> {
    let algorithm = check.quota.algorithm();
    let id = params![namespace.as_str(), check.key.as_str(), number(algorithm), check.shadow];
    conn.prepare_cached(LOAD)?.query_row(id, |row| read(row, algorithm)).optional()
}

fn read(row: &Row<'_>, algorithm: Algorithm) -> rusqlite::Result<Kept> {
    let natural = |at: usize| row.get(at).map(natural);
    let state = match algorithm {
        Algorithm::FixedWindow => State::FixedWindow(FixedWindow { start: natural(2)?, count: natural(3)? }),
        Algorithm::SlidingWindow => {
            let entries = log::decode(row.get_ref(5)?.as_blob()?);
            let entries = entries.ok_or_else(|| wrong("the log of a sliding window cannot be read"))?;
            State::SlidingWindow(SlidingWindow::new(entries))
        }
        Algorithm::SlidingCounter => State::SlidingCounter(SlidingCounter {
            start: natural(2)?,
            current: natural(3)?,
            previous: natural(4)?,
        }),
        Algorithm::TokenBucket => State::TokenBucket(TokenBucket { at: natural(2)?, credits: natural(3)? }),
    };
    let quota = Quota::new(algorithm, row.get(0)?, Duration::from_millis(natural(1)?)).map_err(wrong)?;
    Ok(Kept { quota, state })
}

fn wrong(error: impl Into<BoxError>) -> rusqlite::Error {
    FromSqlError::Other(error.into()).into()
}

/// Makes the row of a check say `after`, where it said `before`.
pub(super) fn store(
    conn: &Connection,
    (namespace, check): (&Namespace, &Check),
    (before, after): (&Slot, &Slot),
    now: u64,
) -> rusqlite::Result<()> {
    let Some(kept) = after else { return Ok(()) };
    let (at, count, previous, log) = match &kept.state {
        State::FixedWindow(s) => (Some(s.start), Some(s.count), None, None),
        State::SlidingWindow(s) => (None, None, None, Some(log::encode(s.entries()))),
        State::SlidingCounter(s) => (Some(s.start), Some(s.current), Some(s.previous), None),
        State::TokenBucket(s) => (Some(s.at), Some(s.credits), None, None),
    };
    let mut statement = conn.prepare_cached(if before.is_some() { UPDATE } else { INSERT })?;
    let values = params![
        namespace.as_str(),
        check.key.as_str(),
        number(check.quota.algorithm()),
        check.shadow,
        kept.quota.limit(),
        integer(kept.quota.window_ms()),
        integer(ends(kept, now)),
        at.map(integer),
        count.map(integer),
        previous.map(integer),
        log,
    ];
    statement.execute(values).map(drop)
}
