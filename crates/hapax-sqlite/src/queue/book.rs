//! The rows of a queue and of its groups: read when a step begins, written back when they changed.

use super::events;
pub(super) use crate::number::{integer, natural};
use crate::step::Moment;
use hapax_core::{
    Span, Timestamp,
    queue::{Group, Limits, PerRate, QueueId, Subscribed, machine::Bucket},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;

const QUEUE: &str = "SELECT id, concurrency, rate, rate_window, max_len, seq, fence, events, event, per FROM hapax_queue \
                     WHERE namespace = ?1 AND name = ?2";
const NEW_QUEUE: &str = "INSERT INTO hapax_queue (namespace, name) VALUES (?1, ?2)";
const SAVE_QUEUE: &str = "UPDATE hapax_queue SET concurrency = ?2, rate = ?3, rate_window = ?4, max_len = ?5, \
                          seq = ?6, fence = ?7, events = ?8, event = ?9, per = ?10 WHERE id = ?1";
const GROUPS: &str = "SELECT id, name, paused, waiting, running, dead, added, done, cancelled, lost, bucket_used, \
                      bucket_at, seen FROM hapax_queue_group WHERE queue = ?1";
const NEW_GROUP: &str = "INSERT INTO hapax_queue_group (queue, name) VALUES (?1, ?2)";
const DROP_GROUP: &str = "DELETE FROM hapax_queue_group WHERE id = ?1";
const SAVE_GROUP: &str = "UPDATE hapax_queue_group SET paused = ?2, waiting = ?3, running = ?4, dead = ?5, added = ?6, \
                          done = ?7, cancelled = ?8, lost = ?9, bucket_used = ?10, bucket_at = ?11, seen = ?12 \
                          WHERE id = ?1";
const NAME_GROUP: &str = "UPDATE hapax_queue_group SET name = ?2 WHERE id = ?1";
/// When a worker was seen last is kept this exactly: an idle one does not write with each look.
const SEEN: Duration = Duration::from_secs(1);

/// A queue with its groups.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) queue: Queue,
    /// In the order in which they began.
    pub(super) subs: Vec<Sub>,
    before: (Queue, Vec<Sub>),
}

/// The row of a queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) limits: Limits,
    seq: i64,
    pub(super) fence: u64,
    /// The number of the last event.
    pub(super) event: u64,
}

impl Queue {
    /// The next place among jobs that are due at the same instant.
    pub(super) fn seq(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }
}

/// The row of a group.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Sub {
    pub(super) id: i64,
    pub(super) group: Option<Group>,
    pub(super) paused: bool,
    pub(super) waiting: i64,
    pub(super) running: i64,
    pub(super) dead: i64,
    pub(super) added: i64,
    pub(super) done: i64,
    pub(super) cancelled: i64,
    pub(super) lost: i64,
    pub(super) bucket: Bucket,
    pub(super) seen: Option<Timestamp>,
}

impl Sub {
    /// A worker of the group was here.
    pub(super) fn see(&mut self, now: Timestamp) {
        let is_recent = |seen: Timestamp| seen <= now && now.since(seen) < SEEN;
        if !self.seen.is_some_and(is_recent) {
            self.seen = Some(now);
        }
    }
}

impl Book {
    /// The queue, where it is there.
    pub(super) fn load(at: &Moment<'_>, id: &QueueId) -> rusqlite::Result<Option<Self>> {
        let mut statement = at.conn.prepare_cached(QUEUE)?;
        let queue = statement.query_row([id.namespace.as_str(), id.name.as_str()], queue).optional()?;
        queue.map(|queue| Self::of(at.conn, queue)).transpose()
    }

    /// The queue, which comes into being where it is not there.
    pub(super) fn open(tx: &Moment<'_>, id: &QueueId) -> rusqlite::Result<Self> {
        if let Some(book) = Self::load(tx, id)? {
            return Ok(book);
        }
        tx.conn.prepare_cached(NEW_QUEUE)?.execute([id.namespace.as_str(), id.name.as_str()])?;
        let queue = Queue { id: tx.conn.last_insert_rowid(), ..Queue::default() };
        let mut book = Self::of(tx.conn, queue)?;
        book.begin(tx.conn, None)?;
        Ok(book)
    }

    fn of(conn: &Connection, queue: Queue) -> rusqlite::Result<Self> {
        let mut statement = conn.prepare_cached(GROUPS)?;
        let mut subs = statement.query_map([queue.id], sub)?.collect::<rusqlite::Result<Vec<_>>>()?;
        subs.sort_by_key(|sub| sub.id);
        Ok(Self { before: (queue.clone(), subs.clone()), queue, subs })
    }

    /// Writes back what changed.
    pub(super) fn save(&self, tx: &Moment<'_>) -> rusqlite::Result<()> {
        let (queue, subs) = &self.before;
        if *queue != self.queue {
            let Queue { id, limits, seq, fence, event } = &self.queue;
            let rate = limits.rate.map(|(count, window)| (count, integer(window.as_millis())));
            tx.conn.prepare_cached(SAVE_QUEUE)?.execute(params![
                id,
                limits.concurrency,
                rate.map(|(count, _)| count),
                rate.map(|(_, window)| window),
                limits.max_len.map(integer),
                seq,
                integer(*fence),
                limits.events,
                integer(*event),
                limits.per.as_ref().map(PerRate::to_text)
            ])?;
            if (*event, limits.events) != (queue.event, queue.limits.events) {
                events::trim(tx, &self.queue)?;
            }
        }
        for (sub, before) in self.subs.iter().zip(subs) {
            if sub != before {
                tx.conn.prepare_cached(SAVE_GROUP)?.execute(params![
                    sub.id,
                    sub.paused,
                    sub.waiting,
                    sub.running,
                    sub.dead,
                    sub.added,
                    sub.done,
                    sub.cancelled,
                    sub.lost,
                    integer(sub.bucket.used),
                    sub.bucket.at.as_millis(),
                    sub.seen.map(Timestamp::as_millis)
                ])?;
            }
        }
        Ok(())
    }

    /// Where a group is.
    pub(super) fn find(&self, group: &Group) -> Option<usize> {
        self.subs.iter().position(|sub| sub.group.as_ref() == Some(group))
    }

    /// The groups that are meant.
    pub(super) fn meant(&self, group: Option<&Group>) -> Vec<usize> {
        match group {
            Some(group) => self.find(group).into_iter().collect(),
            None => (0..self.subs.len()).collect(),
        }
    }

    /// Makes the group known; answers where it is.
    pub(super) fn subscribe(
        &mut self,
        tx: &Moment<'_>,
        group: &Group,
    ) -> rusqlite::Result<(usize, Subscribed)> {
        if let Some(at) = self.find(group) {
            return Ok((at, Subscribed::Known));
        }
        let base = self.subs.iter_mut().enumerate().find(|(_, sub)| sub.group.is_none());
        if let Some((at, base)) = base {
            tx.conn.prepare_cached(NAME_GROUP)?.execute(params![base.id, group.as_str()])?;
            base.group = Some(group.clone());
            return Ok((at, Subscribed::First));
        }
        self.begin(tx.conn, Some(group))?;
        Ok((self.subs.len() - 1, Subscribed::Another))
    }

    /// Forgets a group, whose jobs are gone. The last leaves one without a name, so that nothing that is added later
    /// gets lost.
    pub(super) fn forget(&mut self, tx: &Moment<'_>, at: usize) -> rusqlite::Result<()> {
        let sub = self.subs.remove(at);
        self.before.1.remove(at);
        tx.conn.prepare_cached(DROP_GROUP)?.execute([sub.id])?;
        if self.subs.is_empty() {
            self.begin(tx.conn, None)?;
        }
        Ok(())
    }

    fn begin(&mut self, conn: &Connection, group: Option<&Group>) -> rusqlite::Result<()> {
        conn.prepare_cached(NEW_GROUP)?.execute(params![self.queue.id, group.map(Group::as_str)])?;
        let sub = Sub { id: conn.last_insert_rowid(), group: group.cloned(), ..Sub::default() };
        self.before.1.push(sub.clone());
        self.subs.push(sub);
        Ok(())
    }
}

fn queue(row: &Row<'_>) -> rusqlite::Result<Queue> {
    let window = row.get::<_, Option<i64>>(3)?.and_then(|ms| Span::new(millis(ms)).ok());
    Ok(Queue {
        id: row.get(0)?,
        limits: Limits {
            concurrency: row.get(1)?,
            rate: row.get::<_, Option<u32>>(2)?.zip(window),
            max_len: row.get::<_, Option<i64>>(4)?.map(natural),
            events: row.get(7)?,
            per: row.get_ref(9)?.as_str_or_null()?.and_then(PerRate::read),
        },
        seq: row.get(5)?,
        fence: natural(row.get(6)?),
        event: natural(row.get(8)?),
    })
}

fn sub(row: &Row<'_>) -> rusqlite::Result<Sub> {
    Ok(Sub {
        id: row.get(0)?,
        // Written by hapax, so it is a name.
        group: row.get_ref(1)?.as_str_or_null()?.and_then(|name| Group::new(name).ok()),
        paused: row.get(2)?,
        waiting: row.get(3)?,
        running: row.get(4)?,
        dead: row.get(5)?,
        added: row.get(6)?,
        done: row.get(7)?,
        cancelled: row.get(8)?,
        lost: row.get(9)?,
        bucket: Bucket { used: natural(row.get(10)?), at: Timestamp::from_millis(row.get(11)?) },
        seen: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_millis),
    })
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(natural(ms))
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[QUEUE, NEW_QUEUE, SAVE_QUEUE, GROUPS, NEW_GROUP, DROP_GROUP, SAVE_GROUP, NAME_GROUP];
