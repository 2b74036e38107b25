//! How far jobs are, and when the next one can start.

use super::{
    book::{Book, natural},
    copy::{DEAD, RUNNING, WAITING},
    record::Record,
};
use crate::step::Moment;
use hapax_core::{
    Timestamp,
    queue::{JobState, Priority},
};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

const STATE: &str = "SELECT state, due FROM hapax_job_copy WHERE grp = ?1 AND job = ?2";
const FIRST: &str =
    "SELECT min(due) FROM hapax_job_copy WHERE grp = ?1 AND state = 0 AND priority = ?2 AND due > ?3";
const NEXT_HOLDER: &str = "SELECT consumer, lease, boot_id FROM hapax_job_copy \
                           WHERE grp = ?1 AND state = 1 AND consumer > ?2 ORDER BY consumer, lease";

/// How far a job is, over all groups.
pub(super) fn of(at: &Moment<'_>, book: &Book, record: &Record) -> rusqlite::Result<JobState> {
    let mut found = None;
    if record.alive > 0 {
        let mut statement = at.conn.prepare_cached(STATE)?;
        for sub in &book.subs {
            let state = statement.query_row([sub.id, record.id], |row| Ok((row.get(0)?, row.get(1)?)));
            let Some((state, due)) = state.optional()? else { continue };
            let state = match state {
                RUNNING => return Ok(JobState::Running),
                WAITING => waiting(Timestamp::from_millis(due), at.now.wall),
                _ => JobState::Dead,
            };
            found = Some(found.map_or(state, |before: JobState| before.min(state)));
        }
    }
    Ok(found.unwrap_or_else(|| record.end_state()))
}

/// Whether a waiting job may start.
pub(super) fn waiting(due: Timestamp, now: Timestamp) -> JobState {
    if due <= now { JobState::Ready } else { JobState::Delayed }
}

/// From a column.
pub(super) fn from_column(state: i64, due: Timestamp, now: Timestamp) -> JobState {
    match state {
        RUNNING => JobState::Running,
        DEAD => JobState::Dead,
        _ => waiting(due, now),
    }
}

/// The first instant after `after` at which a waiting job of the group is due.
pub(super) fn next_due(
    conn: &Connection,
    group: i64,
    after: Timestamp,
) -> rusqlite::Result<Option<Timestamp>> {
    let mut statement = conn.prepare_cached(FIRST)?;
    let mut first = None;
    for priority in Priority::ALL {
        let due = statement.query_row(params![group, priority.number(), after.as_millis()], |row| {
            Ok(row.get::<_, Option<i64>>(0)?.map(Timestamp::from_millis))
        })?;
        first = [first, due].into_iter().flatten().min();
    }
    Ok(first)
}

/// Since when the oldest ready job of the group has been so.
pub(super) fn oldest(at: &Moment<'_>, group: i64) -> rusqlite::Result<Option<Timestamp>> {
    let first = next_due(at.conn, group, Timestamp::from_millis(i64::MIN))?;
    Ok(first.filter(|due| *due <= at.now.wall))
}

/// Those who have jobs of the group, each with the time that the first of its leases has left.
pub(super) fn holders(at: &Moment<'_>, group: i64) -> rusqlite::Result<Vec<Holder>> {
    let mut statement = at.conn.prepare_cached(NEXT_HOLDER)?;
    let (mut holders, mut after) = (Vec::new(), String::new());
    // One look into the index for each: there are few, and each may have many jobs.
    loop {
        let next = statement.query_row(params![group, after], |row| {
            let is_this_life = row.get_ref(2)?.as_bytes_or_null()? == Some(at.boot_id.as_bytes());
            let left = natural(row.get(1)?).saturating_sub(at.now.boot.as_millis());
            let left = if is_this_life { Duration::from_millis(left) } else { Duration::ZERO };
            Ok(Holder { consumer: row.get(0)?, is_this_life, left })
        });
        let Some(holder) = next.optional()? else { return Ok(holders) };
        after.clone_from(&holder.consumer);
        holders.push(holder);
    }
}

/// Who has jobs.
pub(super) struct Holder {
    pub(super) consumer: String,
    /// Whether its leases are of this life of the machine; those of another are over.
    pub(super) is_this_life: bool,
    /// How long the first of its leases lasts.
    pub(super) left: Duration,
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[STATE, FIRST, NEXT_HOLDER];
