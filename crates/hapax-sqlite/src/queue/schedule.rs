//! Schedules, which the engine reads and stores do not.

use super::{
    book::{integer, natural},
    info::instant,
    row,
};
use crate::step::Moment;
use hapax_core::{
    Namespace, Timestamp,
    queue::{Put, QueueName, Schedule, ScheduleName, Schedules},
};
use rusqlite::{OptionalExtension, params};

const THERE: &str = "SELECT owner, revision FROM hapax_schedule WHERE namespace = ?1 AND name = ?2";
const PUT: &str = "INSERT INTO hapax_schedule (namespace, name, queue, owner, revision, what, next) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (namespace, name) DO UPDATE SET \
                   queue = excluded.queue, revision = excluded.revision, what = excluded.what, next = excluded.next";
const LIST: &str = "SELECT name, queue, owner, revision, what, next FROM hapax_schedule \
                    WHERE namespace = ?1 AND next <= ?2 ORDER BY name";
const REMOVE: &str = "DELETE FROM hapax_schedule WHERE namespace = ?1 AND name = ?2 \
                      AND (NOT ?3 OR (owner IS ?4 AND revision = ?5))";
const ADVANCE: &str = "UPDATE hapax_schedule SET next = ?4 WHERE namespace = ?1 AND name = ?2 AND next = ?3";

pub(super) fn put(tx: &Moment<'_>, namespace: &Namespace, new: &Schedule) -> rusqlite::Result<Put> {
    let (namespace, name, revision) = (namespace.as_str(), new.name.as_str(), integer(new.revision));
    let there = tx
        .conn
        .prepare_cached(THERE)?
        .query_row([namespace, name], |row| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, i64>(1)?)));
    if there.optional()?.is_some_and(|(owner, newest)| owner != new.owner || newest > revision) {
        return Ok(Put::Refused);
    }
    let (queue, what, next) = (new.queue.as_str(), &*new.what, new.next.as_millis());
    tx.conn.prepare_cached(PUT)?.execute(params![namespace, name, queue, new.owner, revision, what, next])?;
    Ok(Put::Stored)
}

pub(super) fn list(at: &Moment<'_>, req: &Schedules) -> rusqlite::Result<Vec<Schedule>> {
    let by = req.by.map_or(i64::MAX, Timestamp::as_millis);
    let mut statement = at.conn.prepare_cached(LIST)?;
    let found = statement.query_map(params![req.namespace.as_str(), by], |row| {
        Ok(Schedule {
            name: row::of(ScheduleName::new(row.get_ref(0)?.as_str()?))?,
            queue: row::of(QueueName::new(row.get_ref(1)?.as_str()?))?,
            owner: row.get(2)?,
            revision: natural(row.get(3)?),
            what: row::bytes(row, 4)?,
            next: instant(row, 5)?,
        })
    })?;
    found.collect()
}

/// `seen`: only while owner and revision are still those.
pub(super) fn remove(
    tx: &Moment<'_>,
    namespace: &Namespace,
    name: &ScheduleName,
    seen: Option<&Schedule>,
) -> rusqlite::Result<bool> {
    let (owner, revision) =
        seen.map(|seen| (seen.owner.as_deref(), integer(seen.revision))).unwrap_or_default();
    let mut statement = tx.conn.prepare_cached(REMOVE)?;
    Ok(statement.execute(params![namespace.as_str(), name.as_str(), seen.is_some(), owner, revision])? > 0)
}

pub(super) fn advance(
    tx: &Moment<'_>,
    namespace: &Namespace,
    name: &ScheduleName,
    (from, to): (Timestamp, Timestamp),
) -> rusqlite::Result<bool> {
    let mut statement = tx.conn.prepare_cached(ADVANCE)?;
    let moved =
        statement.execute(params![namespace.as_str(), name.as_str(), from.as_millis(), to.as_millis()])?;
    Ok(moved > 0)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[THERE, PUT, LIST, REMOVE, ADVANCE];
