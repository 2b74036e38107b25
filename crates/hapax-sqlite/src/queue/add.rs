//! Adding jobs.

use super::{
    book::{Book, integer},
    copy::JobCopy,
    events,
    record::{self, Record},
    row, state,
};
use crate::step::{Moment, Step};
use hapax_core::{
    Fingerprint, Name, Timestamp,
    queue::{Added, Happening, NewJob, OnConflict, QueueId, history::What},
};
use rusqlite::{OptionalExtension, params};
use std::time::Duration;

const INSERT: &str = "INSERT INTO hapax_job (queue, uid, job_id, holds, fingerprint_version, fingerprint, priority, due, \
                      added_at, remember, alive, settings, payload) \
                      VALUES (?1, ?2, ?3, ?3 IS NOT NULL, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
                      ON CONFLICT DO NOTHING";
const COPY: &str =
    "INSERT INTO hapax_job_copy (grp, job, state, priority, due, seq) VALUES (?1, ?2, 0, ?3, ?4, ?5)";
const FIRST: &str = "SELECT due FROM hapax_job WHERE id = ?1";
const CONTENT: &str =
    "SELECT uid, fingerprint_version, fingerprint, codec, result FROM hapax_job WHERE id = ?1";
const DELIVERED: &str = "SELECT state <> 0 OR delivery > 0 FROM hapax_job_copy WHERE grp = ?1 AND job = ?2";
const REPLACE: &str = "UPDATE hapax_job SET fingerprint_version = ?2, fingerprint = ?3, priority = ?4, settings = ?5, \
                       payload = ?6 WHERE id = ?1";
const REPLACE_COPY: &str = "UPDATE hapax_job_copy SET priority = ?3, due = ?4, payload = NULL, history = ?5 WHERE grp = ?1 AND job = ?2";

/// Adds jobs to a queue.
#[derive(Clone)]
pub(super) struct Add {
    pub(super) queue: QueueId,
    pub(super) jobs: Vec<NewJob>,
}

impl Step for Add {
    type Answer = Vec<Added>;
    const OP: &'static str = "add jobs";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn rows(&self) -> usize {
        self.jobs.len()
    }
    fn bytes(&self) -> usize {
        self.jobs.iter().map(|job| job.payload.len() + job.settings.len()).sum()
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Vec<Added>> {
        let mut book = Book::open(tx, &self.queue)?;
        let added = self.jobs.iter().map(|job| add(tx, &mut book, job)).collect::<rusqlite::Result<_>>()?;
        book.save(tx)?;
        Ok(added)
    }
    fn wakes(&self, answer: &Vec<Added>) -> bool {
        answer.iter().any(|added| matches!(added, Added::New { .. } | Added::Replaced { .. }))
    }
}

fn add(tx: &Moment<'_>, book: &mut Book, new: &NewJob) -> rusqlite::Result<Added> {
    // A queue without a bound needs no look before: what is known is in the way of the new row.
    if book.queue.limits.max_len.is_none() && insert(tx, book, new)? {
        return Ok(Added::New { due: new.due.at(tx.now.wall) });
    }
    let now = tx.now.wall;
    if let Some(known) = Record::by_uid(tx.conn, book.queue.id, new.uid.as_bytes())? {
        if !known.is_forgotten(now) {
            let due = tx.conn.prepare_cached(FIRST)?.query_row([known.id], |row| row.get(0))?;
            return Ok(Added::New { due: Timestamp::from_millis(due) });
        }
        known.forget(tx)?;
    }
    if let Some(id) = &new.job_id
        && let Some(mut known) = Record::by_id(tx.conn, book.queue.id, id.as_str())?
    {
        if known.holds_id(now) {
            return again(tx, book, new, &known);
        }
        known.let_go();
        known.save(tx)?;
    }
    if let Some(full) = full(tx, book)? {
        return Ok(full);
    }
    insert(tx, book, new)?;
    Ok(Added::New { due: new.due.at(now) })
}

fn insert(tx: &Moment<'_>, book: &mut Book, new: &NewJob) -> rusqlite::Result<bool> {
    let (now, due) = (tx.now.wall, new.due.at(tx.now.wall).as_millis());
    let inserted = tx.conn.prepare_cached(INSERT)?.execute(params![
        book.queue.id,
        new.uid.as_bytes(),
        new.job_id.as_ref().map(hapax_core::Key::as_str),
        new.fingerprint.version(),
        digest(&new.fingerprint),
        new.priority.number(),
        due,
        now.as_millis(),
        record::span(new.remember),
        i64::try_from(book.subs.len()).unwrap_or(i64::MAX),
        &*new.settings,
        &*new.payload
    ])?;
    if inserted == 0 {
        return Ok(false);
    }
    let (job, seq) = (tx.conn.last_insert_rowid(), book.queue.seq());
    let mut statement = tx.conn.prepare_cached(COPY)?;
    for sub in &mut book.subs {
        statement.execute(params![sub.id, job, new.priority.number(), due, seq])?;
        sub.waiting += 1;
        sub.added += 1;
    }
    events::pass(tx, &mut book.queue, None, Happening::Added, job, 0)?;
    Ok(true)
}

/// The job id is that of a job that is known.
fn again(tx: &Moment<'_>, book: &mut Book, new: &NewJob, known: &Record) -> rusqlite::Result<Added> {
    let mut statement = tx.conn.prepare_cached(CONTENT)?;
    let (uid, fingerprint, result) = statement.query_row([known.id], |row| {
        Ok((row::uid(row, 0)?, row::fingerprint(row, 1)?, row::receipt(row, 3)?))
    })?;
    if fingerprint != new.fingerprint {
        match new.on_conflict {
            OnConflict::Keep => {}
            OnConflict::Replace if is_untaken(tx, book, known)? => {
                return replace(tx, book, new, known).map(|due| Added::Replaced { uid, due });
            }
            OnConflict::Refuse | OnConflict::Replace => return Ok(Added::Reused { uid, fingerprint }),
        }
    }
    let result = result.filter(|_| known.has_result(tx.now.wall));
    Ok(Added::Duplicate { uid, state: state::of(tx, book, known)?, result })
}

fn is_untaken(tx: &Moment<'_>, book: &Book, known: &Record) -> rusqlite::Result<bool> {
    let mut statement = tx.conn.prepare_cached(DELIVERED)?;
    for sub in &book.subs {
        if statement.query_row([sub.id, known.id], |row| row.get(0)).optional()?.unwrap_or(false) {
            return Ok(false);
        }
    }
    Ok(known.alive > 0)
}

fn replace(tx: &Moment<'_>, book: &Book, new: &NewJob, known: &Record) -> rusqlite::Result<Timestamp> {
    let (due, priority) = (new.due.at(tx.now.wall), new.priority.number());
    tx.conn.prepare_cached(REPLACE)?.execute(params![
        known.id,
        new.fingerprint.version(),
        digest(&new.fingerprint),
        priority,
        &*new.settings,
        &*new.payload
    ])?;
    let mut statement = tx.conn.prepare_cached(REPLACE_COPY)?;
    for sub in &book.subs {
        if let Some(copy) = JobCopy::of(tx.conn, sub.id, known.id)? {
            let copy = copy.tells(tx.now.wall, What::Replaced, Some(due));
            statement.execute(params![sub.id, known.id, priority, due.as_millis(), copy.history()])?;
        }
    }
    Ok(due)
}

fn full(tx: &Moment<'_>, book: &Book) -> rusqlite::Result<Option<Added>> {
    let Some(longest) = book.subs.iter().max_by_key(|sub| sub.waiting) else { return Ok(None) };
    if book.queue.limits.max_len.is_none_or(|most| longest.waiting < integer(most)) {
        return Ok(None);
    }
    let oldest = state::oldest(tx, longest.id)?;
    let oldest = oldest.map_or(Duration::ZERO, |since| tx.now.wall.since(since));
    Ok(Some(Added::Full { depth: super::book::natural(longest.waiting), oldest }))
}

/// As the column keeps it.
pub(super) fn digest(fingerprint: &Fingerprint) -> Option<&[u8; 32]> {
    (*fingerprint != Fingerprint::ANY).then(|| fingerprint.digest())
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, COPY, FIRST, CONTENT, DELIVERED, REPLACE, REPLACE_COPY];
