//! What is known of a job over all groups.

use super::book::integer;
use crate::step::Moment;
use hapax_core::{Span, Timestamp, idempotency::Receipt, queue::JobState};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;

/// How long a job without an id of its own is known after its end: an `add` that is sent again finds it.
const RESENDS: Duration = Duration::from_mins(10);

/// The columns of a [`Record`], of the table `j`.
macro_rules! columns {
    () => {
        "j.id, j.job_id IS NOT NULL, j.holds, j.remember, j.alive, j.dead, j.ended, j.ended_at, j.id_until, j.until, \
         j.result_until"
    };
}
pub(super) use columns;
/// How many those are.
pub(super) const COLUMNS: usize = 11;

const BY_UID: &str = concat!("SELECT ", columns!(), " FROM hapax_job j WHERE j.queue = ?1 AND j.uid = ?2");
const BY_ID: &str =
    concat!("SELECT ", columns!(), " FROM hapax_job j WHERE j.queue = ?1 AND j.job_id = ?2 AND j.holds = 1");
const DEAD_BY_ID: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM hapax_job j WHERE j.queue = ?1 AND j.job_id = ?2 AND j.holds = 0 AND j.dead > 0"
);
/// The usual end. It names no column of an index but one, so that no other is written.
const END: &str = "UPDATE hapax_job SET alive = ?2, ended = ?3, ended_at = ?4, id_until = ?5, until = ?6, \
                   result_until = ?7, payload = CASE WHEN ?8 THEN NULL ELSE payload END WHERE id = ?1";
const SAVE: &str = "UPDATE hapax_job SET alive = ?2, ended = ?3, ended_at = ?4, id_until = ?5, until = ?6, \
                    result_until = ?7, payload = CASE WHEN ?8 THEN NULL ELSE payload END, holds = ?9, dead = ?10 \
                    WHERE id = ?1";
const RESULT: &str = "UPDATE hapax_job SET codec = ?2, result = ?3 WHERE id = ?1";
const OVER: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM hapax_job j WHERE j.until IS NOT NULL AND j.until <= ?1 ORDER BY j.until"
);
const DELETE: &str = "DELETE FROM hapax_job WHERE id = ?1";

/// How a job ended, where it is no dead letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Ended {
    Not = 0,
    Cancelled = 1,
    Done = 2,
}

/// The row, without its bytes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Record {
    pub(super) id: i64,
    has_id: bool,
    holds: bool,
    remember: i64,
    pub(super) alive: i64,
    pub(super) dead: i64,
    ended: Ended,
    pub(super) ended_at: Option<Timestamp>,
    id_until: Option<Timestamp>,
    until: Option<Timestamp>,
    result_until: Option<Timestamp>,
    before: (bool, i64),
}

impl Record {
    /// From a row whose columns begin at `at`.
    pub(super) fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self> {
        let instant = |column: usize| {
            Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at + column)?.map(Timestamp::from_millis))
        };
        let (holds, dead) = (row.get(at + 2)?, row.get(at + 5)?);
        Ok(Self {
            id: row.get(at)?,
            has_id: row.get(at + 1)?,
            holds,
            remember: row.get(at + 3)?,
            alive: row.get(at + 4)?,
            dead,
            ended: match row.get(at + 6)? {
                0 => Ended::Not,
                1 => Ended::Cancelled,
                _ => Ended::Done,
            },
            ended_at: instant(7)?,
            id_until: instant(8)?,
            until: instant(9)?,
            result_until: instant(10)?,
            before: (holds, dead),
        })
    }

    /// By the id that hapax gave, also when it is over.
    pub(super) fn by_uid(conn: &Connection, queue: i64, uid: &[u8]) -> rusqlite::Result<Option<Self>> {
        conn.prepare_cached(BY_UID)?.query_row(params![queue, uid], |row| Self::read(row, 0)).optional()
    }

    /// The job that has the caller's id, or had it until it was over.
    pub(super) fn by_id(conn: &Connection, queue: i64, id: &str) -> rusqlite::Result<Option<Self>> {
        conn.prepare_cached(BY_ID)?.query_row(params![queue, id], |row| Self::read(row, 0)).optional()
    }

    /// A dead letter whose id is free again.
    pub(super) fn dead_by_id(conn: &Connection, queue: i64, id: &str) -> rusqlite::Result<Option<Self>> {
        conn.prepare_cached(DEAD_BY_ID)?.query_row(params![queue, id], |row| Self::read(row, 0)).optional()
    }

    /// Whether no group has it.
    fn is_gone(&self) -> bool {
        self.alive == 0 && self.dead == 0
    }

    /// Whether it counts as unknown.
    pub(super) fn is_forgotten(&self, now: Timestamp) -> bool {
        self.is_gone() && self.until.is_some_and(|until| until <= now)
    }

    /// Whether the caller's id is its own.
    pub(super) fn holds_id(&self, now: Timestamp) -> bool {
        self.holds && (self.alive > 0 || self.id_until.is_none_or(|until| until > now))
    }

    pub(super) fn has_result(&self, now: Timestamp) -> bool {
        self.result_until.is_some_and(|until| until > now)
    }

    /// How it ended, once it has in all groups.
    pub(super) fn end_state(&self) -> JobState {
        match self.ended {
            _ if self.dead > 0 => JobState::Dead,
            Ended::Done => JobState::Done,
            Ended::Not | Ended::Cancelled => JobState::Cancelled,
        }
    }

    /// It is over in a group where it was alive; `None`: as a dead letter.
    pub(super) fn end(&mut self, how: Option<Ended>, keep: Option<Span>, now: Timestamp) {
        self.alive -= 1;
        match how {
            Some(how) => self.ended = self.ended.max(how),
            None => self.dead += 1,
        }
        self.ended_at = Some(now);
        if let Some(keep) = keep {
            self.result_until = Some(now.after(keep.get()));
        }
        if self.alive > 0 {
            return;
        }
        let is_free = self.end_state() == JobState::Cancelled;
        self.holds &= !is_free;
        let known = if self.holds {
            let id_until = Timestamp::from_millis(now.as_millis().saturating_add(self.remember));
            self.id_until = Some(id_until);
            id_until
        } else {
            now.after(RESENDS)
        };
        self.until = Some(self.result_until.map_or(known, |until| until.max(known)));
    }

    /// Somebody took it out of a group. Where that was the last one, its id is free.
    pub(super) fn remove(&mut self, was_dead: bool, now: Timestamp) {
        if was_dead {
            self.dead -= 1;
        } else {
            self.end(Some(Ended::Cancelled), None, now);
        }
        if self.is_gone() {
            (self.ended, self.ended_at) = (Ended::Cancelled, Some(now));
            self.let_go();
            self.until = Some(now.after(RESENDS));
        }
    }

    /// It is a dead letter no more, and alive.
    pub(super) fn revive(&mut self) {
        self.dead -= 1;
        self.alive += 1;
        self.holds = self.has_id;
        (self.id_until, self.until) = (None, None);
    }

    /// The id is free for another job.
    pub(super) fn let_go(&mut self) {
        (self.holds, self.id_until) = (false, None);
    }

    pub(super) fn save(&self, tx: &Moment<'_>) -> rusqlite::Result<()> {
        let millis = |instant: Option<Timestamp>| instant.map(Timestamp::as_millis);
        let is_end = self.before == (self.holds, self.dead);
        let mut statement = tx.conn.prepare_cached(if is_end { END } else { SAVE })?;
        statement.raw_bind_parameter(1, self.id)?;
        statement.raw_bind_parameter(2, self.alive)?;
        statement.raw_bind_parameter(3, self.ended as i64)?;
        statement.raw_bind_parameter(4, millis(self.ended_at))?;
        statement.raw_bind_parameter(5, millis(self.id_until))?;
        statement.raw_bind_parameter(6, millis(self.until))?;
        statement.raw_bind_parameter(7, millis(self.result_until))?;
        statement.raw_bind_parameter(8, self.is_gone())?;
        if !is_end {
            statement.raw_bind_parameter(9, self.holds)?;
            statement.raw_bind_parameter(10, self.dead)?;
        }
        statement.raw_execute().map(drop)
    }

    pub(super) fn keep_result(&self, tx: &Moment<'_>, result: &Receipt) -> rusqlite::Result<()> {
        let mut statement = tx.conn.prepare_cached(RESULT)?;
        statement.execute(params![self.id, &*result.codec, &*result.bytes]).map(drop)
    }

    /// Removes it; one that is still a dead letter stays and loses its id.
    pub(super) fn forget(mut self, tx: &Moment<'_>) -> rusqlite::Result<()> {
        if self.is_gone() {
            return tx.conn.prepare_cached(DELETE)?.execute([self.id]).map(drop);
        }
        self.let_go();
        self.until = None;
        self.save(tx)
    }
}

/// Forgets up to so many jobs whose time is over; answers how many.
pub(crate) fn forget(tx: &Moment<'_>, limit: usize) -> rusqlite::Result<usize> {
    let mut over = Vec::new();
    let mut statement = tx.conn.prepare_cached(OVER)?;
    let mut rows = statement.query([tx.now.wall.as_millis()])?;
    while over.len() < limit
        && let Some(row) = rows.next()?
    {
        over.push(Record::read(row, 0)?);
    }
    drop(rows);
    let count = over.len();
    over.into_iter().try_for_each(|record| record.forget(tx))?;
    Ok(count)
}

/// As a column says for how long.
pub(super) fn span(span: Span) -> i64 {
    integer(span.as_millis())
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[BY_UID, BY_ID, DEAD_BY_ID, END, SAVE, RESULT, OVER, DELETE];
