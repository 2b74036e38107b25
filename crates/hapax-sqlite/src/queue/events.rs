//! What passed in a queue, where it keeps events.

use super::{
    book::{Book, Queue, integer, natural},
    copy::Desk,
    info::instant,
    row,
};
use crate::step::Moment;
use hapax_core::queue::{
    EventPage, Happening, QueueEvent, ReadEvents,
    events::{self, MOST_KEPT},
};
use rusqlite::{Row, params};

/// The job's own row has its id, which most of the steps do not read.
const PASS: &str = "INSERT INTO hapax_queue_event (queue, number, at, what, uid, grp, attempts) \
                    SELECT ?1, ?2, ?3, ?4, uid, ?5, ?6 FROM hapax_job WHERE id = ?7";
const TRIM: &str = "DELETE FROM hapax_queue_event WHERE queue = ?1 AND number <= ?2";
const FIRST: &str = "SELECT min(number) FROM hapax_queue_event WHERE queue = ?1";
const PAGE: &str = "SELECT number, at, what, uid, grp, attempts FROM hapax_queue_event \
                    WHERE queue = ?1 AND number > ?2 ORDER BY number LIMIT ?3";

/// Tells of a job, by its row. `group`: in one group.
pub(super) fn pass(
    tx: &Moment<'_>,
    queue: &mut Queue,
    group: Option<i64>,
    what: Happening,
    job: i64,
    attempts: u32,
) -> rusqlite::Result<()> {
    if queue.limits.events == 0 {
        return Ok(());
    }
    queue.event = events::number(queue.event, tx.now.wall);
    let (number, now) = (integer(queue.event), tx.now.wall.as_millis());
    let mut statement = tx.conn.prepare_cached(PASS)?;
    statement.execute(params![queue.id, number, now, what.number(), group, attempts, job]).map(drop)
}

impl Desk<'_> {
    /// Tells of a job of the group.
    pub(super) fn pass(&mut self, what: Happening, job: i64, attempts: u32) -> rusqlite::Result<()> {
        pass(self.tx, self.queue, Some(self.sub.id), what, job, attempts)
    }
}

/// Forgets those that are too many: numbers have no gaps.
pub(super) fn trim(tx: &Moment<'_>, queue: &Queue) -> rusqlite::Result<()> {
    let most = u64::from(queue.limits.events.min(MOST_KEPT));
    let up_to = integer(queue.event.saturating_sub(most));
    tx.conn.prepare_cached(TRIM)?.execute(params![queue.id, up_to]).map(drop)
}

pub(super) fn page(at: &Moment<'_>, book: &Book, req: &ReadEvents) -> rusqlite::Result<EventPage> {
    let last = book.queue.event;
    let first = at
        .conn
        .prepare_cached(FIRST)?
        .query_row([book.queue.id], |row| Ok(row.get::<_, Option<i64>>(0)?.map(natural)))?;
    let first = first.unwrap_or_else(|| last.saturating_add(1));
    let mut statement = at.conn.prepare_cached(PAGE)?;
    let limit = i64::try_from(req.limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![book.queue.id, integer(req.after), limit])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        // A newer version may know others.
        if let Some(what) = Happening::from_number(row.get(2)?) {
            events.push(event(book, row, what)?);
        }
    }
    Ok(EventPage { events, last, missed: EventPage::is_gap(req.after, first) })
}

fn event(book: &Book, row: &Row<'_>, what: Happening) -> rusqlite::Result<QueueEvent> {
    let group = row.get::<_, Option<i64>>(4)?;
    let group = group.and_then(|id| book.subs.iter().find(|sub| sub.id == id)?.group.clone());
    let (number, at) = (natural(row.get(0)?), instant(row, 1)?);
    Ok(QueueEvent { number, at, what, uid: row::uid(row, 3)?, group, attempts: row.get(5)? })
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[PASS, TRIM, FIRST, PAGE];
