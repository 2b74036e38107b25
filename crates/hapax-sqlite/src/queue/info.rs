//! What is told of a job.

use super::{
    book::{Book, natural},
    record::Record,
    row, state,
};
use crate::step::Moment;
use bytes::Bytes;
use hapax_core::{
    BootTime, Timestamp,
    queue::{
        Consumer, Counts, DeadReason, Group, JobInfo, JobRef, JobState, Priority, Progress, history::History,
    },
};
use rusqlite::{Row, types::FromSqlError};

/// The columns of a [`JobInfo`], of the tables `c` and `j`; after them `c.job` and `c.seq`.
macro_rules! columns {
    () => {
        "j.uid, j.job_id, c.state, c.priority, c.due, c.attempts, c.losses, c.snoozes, c.given_back, c.redriven, \
         j.added_at, c.consumer, c.lease, c.boot_id, c.reason, c.died_at, c.error, ifnull(c.payload, j.payload), \
         j.settings, c.job, c.seq, c.fence"
    };
}
pub(super) use columns;
pub(super) const JOB: usize = 19;
pub(super) const SEQ: usize = 20;
const FENCE: usize = 21;
const HISTORY: usize = 22;
const PROGRESS: usize = 23;

const OF_GROUP: &str = concat!(
    "SELECT ",
    columns!(),
    ", c.history, c.progress FROM hapax_job j CROSS JOIN hapax_job_copy c ON c.grp = ?1 AND c.job = j.id WHERE j.id = ?2"
);
const OVER: &str =
    "SELECT uid, job_id, priority, added_at, settings, codec, result FROM hapax_job WHERE id = ?1";

/// The job that is meant, where it is known.
pub(super) fn meant(at: &Moment<'_>, book: &Book, job: &JobRef) -> rusqlite::Result<Option<Record>> {
    let now = at.now.wall;
    match job {
        JobRef::Uid(uid) => {
            let record = Record::by_uid(at.conn, book.queue.id, uid.as_bytes())?;
            Ok(record.filter(|record| !record.is_forgotten(now)))
        }
        JobRef::JobId(id) => {
            let record = Record::by_id(at.conn, book.queue.id, id.as_str())?;
            // A dead letter is found by its id also when that is free again.
            match record.filter(|record| record.holds_id(now) || record.dead > 0) {
                Some(record) => Ok(Some(record)),
                None => Record::dead_by_id(at.conn, book.queue.id, id.as_str()),
            }
        }
    }
}

/// One answer for each group that has the job, or one for a job that is over.
pub(super) fn find(at: &Moment<'_>, book: &Book, job: &JobRef) -> rusqlite::Result<Vec<JobInfo>> {
    let Some(record) = meant(at, book, job)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for sub in &book.subs {
        let mut statement = at.conn.prepare_cached(OF_GROUP)?;
        let mut rows = statement.query([sub.id, record.id])?;
        if let Some(row) = rows.next()? {
            let history = row.get_ref(HISTORY)?.as_blob_or_null()?.map(History::read).unwrap_or_default();
            let info = read(at, row, sub.group.as_ref())?;
            // What was said of an earlier hand-out stays in the row until the next.
            let progress = row.get_ref(PROGRESS)?.as_blob_or_null()?.and_then(Progress::read);
            let progress = progress.filter(|_| info.state == JobState::Running);
            found.push(JobInfo { history, progress, ..info });
        }
    }
    if found.is_empty() {
        found.push(over(at, &record)?);
    }
    Ok(found)
}

fn over(at: &Moment<'_>, record: &Record) -> rusqlite::Result<JobInfo> {
    at.conn.prepare_cached(OVER)?.query_row([record.id], |row| {
        Ok(JobInfo {
            uid: row::uid(row, 0)?,
            job_id: row::job_id(row, 1)?,
            group: None,
            state: record.end_state(),
            priority: priority(row, 2)?,
            counts: Counts::default(),
            added_at: instant(row, 3)?,
            at: record.ended_at.unwrap_or_default(),
            consumer: None,
            taken_at: None,
            progress: None,
            reason: None,
            error: None,
            payload: Bytes::new(),
            settings: row::bytes(row, 4)?,
            result: row::receipt(row, 5)?.filter(|_| record.has_result(at.now.wall)),
            history: History::default(),
        })
    })
}

/// From a row that begins with the columns.
pub(super) fn read(at: &Moment<'_>, row: &Row<'_>, group: Option<&Group>) -> rusqlite::Result<JobInfo> {
    let due = instant(row, 4)?;
    let state = state::from_column(row.get(2)?, due, at.now.wall);
    Ok(JobInfo {
        uid: row::uid(row, 0)?,
        job_id: row::job_id(row, 1)?,
        group: group.cloned(),
        state,
        priority: priority(row, 3)?,
        counts: Counts {
            attempts: row.get(5)?,
            losses: row.get(6)?,
            snoozes: row.get(7)?,
            given_back: row.get(8)?,
            redriven: row.get(9)?,
        },
        added_at: instant(row, 10)?,
        at: match state {
            JobState::Running => at.now.wall_of(lease(at, row)?),
            JobState::Dead => instant(row, 15)?,
            _ => due,
        },
        consumer: row.get_ref(11)?.as_str_or_null()?.map(|name| row::of(Consumer::new(name))).transpose()?,
        // The fence of a step is its time, or barely above.
        taken_at: row.get::<_, Option<i64>>(FENCE)?.map(|fence| Timestamp::from_millis(fence / 1000)),
        progress: None,
        reason: row.get_ref(14)?.as_str_or_null()?.and_then(DeadReason::parse),
        error: row.get(16)?,
        payload: row::bytes(row, 17)?,
        settings: row::bytes(row, 18)?,
        result: None,
        history: History::default(),
    })
}

/// When the lease of a running job ends; one of another life of the machine has.
pub(super) fn lease(at: &Moment<'_>, row: &Row<'_>) -> rusqlite::Result<BootTime> {
    let is_this_life = row.get_ref(13)?.as_bytes_or_null()? == Some(at.boot_id.as_bytes());
    let lease = row.get::<_, Option<i64>>(12)?.filter(|_| is_this_life);
    Ok(BootTime::from_millis(lease.map(natural).unwrap_or_default()))
}

pub(super) fn instant(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    row.get(at).map(Timestamp::from_millis)
}

fn priority(row: &Row<'_>, at: usize) -> rusqlite::Result<Priority> {
    let number = row.get(at)?;
    Ok(Priority::from_number(number).ok_or(FromSqlError::OutOfRange(i64::from(number)))?)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[OF_GROUP, OVER];
