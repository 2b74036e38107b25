//! The job in one group: who has it, and where it goes.

use super::{
    book::{Queue, Sub, integer, natural},
    record::{self, Ended, Record},
};
use crate::step::Moment;
use hapax_core::{
    Span, Timestamp,
    idempotency::{Receipt, Write},
    queue::{
        Consumer, Counts, Happening, Progress, Uid,
        history::{self, Event, What},
        machine::{Facts, Fate},
    },
};
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(super) const WAITING: i64 = 0;
pub(super) const RUNNING: i64 = 1;
pub(super) const DEAD: i64 = 2;

/// The columns of a [`JobCopy`], of the tables `c` and `j`.
macro_rules! columns {
    () => {
        concat!(
            "c.state, c.due, c.seq, c.delivery, c.consumer, c.fence, c.attempts, c.losses, c.snoozes, c.given_back, \
             c.redriven, c.snoozed_since, c.cancelled, c.lease, c.boot_id, c.history, ",
            record::columns!()
        )
    };
}
pub(super) use columns;
const OF_RECORD: usize = 16;
/// How many those are.
pub(super) const COLUMNS: usize = OF_RECORD + record::COLUMNS;

const OF_UID: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM hapax_job j CROSS JOIN hapax_job_copy c ON c.grp = ?1 AND c.job = j.id WHERE j.queue = ?2 AND j.uid = ?3"
);
const OF_RECORD_IN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM hapax_job j CROSS JOIN hapax_job_copy c ON c.grp = ?1 AND c.job = j.id WHERE j.id = ?2"
);
const DELETE: &str = "DELETE FROM hapax_job_copy WHERE grp = ?1 AND job = ?2";
const MOVE: &str = "UPDATE hapax_job_copy SET state = ?3, due = ?4, seq = ?5, attempts = ?6, losses = ?7, snoozes = ?8, \
                    given_back = ?9, redriven = ?10, snoozed_since = ?11, cancelled = ?12, consumer = NULL, \
                    boot_id = NULL, lease = NULL, fence = NULL, reason = ?13, died_at = ?14, \
                    error = CASE WHEN ?15 THEN ?16 ELSE error END, history = ?17 WHERE grp = ?1 AND job = ?2";
const CANCEL: &str = "UPDATE hapax_job_copy SET cancelled = 1, history = ?3 WHERE grp = ?1 AND job = ?2";
const EXTEND: &str = "UPDATE hapax_job_copy SET lease = ?3, boot_id = ?4, progress = ifnull(?5, progress) \
                      WHERE grp = ?1 AND job = ?2";

/// Its row in a group, with that of the job.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct JobCopy {
    pub(super) state: i64,
    pub(super) due: Timestamp,
    seq: i64,
    pub(super) delivery: u64,
    consumer: Option<String>,
    pub(super) fence: u64,
    pub(super) facts: Facts,
    lease: Option<u64>,
    boot_id: Option<String>,
    /// The bytes of a [`History`](hapax_core::queue::history::History).
    history: Option<Vec<u8>>,
    pub(super) record: Record,
}

impl JobCopy {
    /// From a row that begins with its columns.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            state: row.get(0)?,
            due: Timestamp::from_millis(row.get(1)?),
            seq: row.get(2)?,
            delivery: natural(row.get(3)?),
            consumer: row.get(4)?,
            fence: row.get::<_, Option<i64>>(5)?.map(natural).unwrap_or_default(),
            facts: Facts {
                counts: Counts {
                    attempts: row.get(6)?,
                    losses: row.get(7)?,
                    snoozes: row.get(8)?,
                    given_back: row.get(9)?,
                    redriven: row.get(10)?,
                },
                snoozed_since: row.get::<_, Option<i64>>(11)?.map(Timestamp::from_millis),
                cancelled: row.get(12)?,
            },
            lease: row.get::<_, Option<i64>>(13)?.map(natural),
            boot_id: row.get(14)?,
            history: row.get(15)?,
            record: Record::read(row, OF_RECORD)?,
        })
    }

    /// The job's row in a group, where that has it.
    pub(super) fn of(conn: &Connection, group: i64, record: i64) -> rusqlite::Result<Option<Self>> {
        conn.prepare_cached(OF_RECORD_IN)?.query_row([group, record], Self::read).optional()
    }

    /// Puts an event behind what is told of it.
    fn tell(&mut self, event: &Event) {
        history::append(self.history.get_or_insert_default(), event);
    }

    /// Something that people did to it.
    pub(super) fn tells(mut self, now: Timestamp, what: What, due: Option<Timestamp>) -> Self {
        let consumer = self.holder();
        self.tell(&Event { consumer, due, ..Event::new(now, what, self.facts.counts.attempts) });
        self
    }

    pub(super) fn history(&self) -> Option<&[u8]> {
        self.history.as_deref()
    }

    /// Who has it, while it runs.
    fn holder(&self) -> Option<Consumer> {
        self.consumer.as_deref().and_then(|name| Consumer::new(name).ok())
    }

    /// When its lease ends, in this life of the machine.
    pub(super) fn lease_at(&self, boot_id: &str) -> u64 {
        self.lease.filter(|_| self.boot_id.as_deref() == Some(boot_id)).unwrap_or_default()
    }

    /// Whether this hand-out of it is the consumer's.
    pub(super) fn is_held(&self, consumer: &Consumer, delivery: u64) -> bool {
        self.state == RUNNING
            && self.delivery == delivery
            && self.consumer.as_deref() == Some(consumer.as_str())
    }
}

/// One group's part of a step.
pub(super) struct Desk<'a> {
    pub(super) tx: &'a Moment<'a>,
    pub(super) queue: &'a mut Queue,
    pub(super) sub: &'a mut Sub,
}

impl Desk<'_> {
    /// The job of that id in the group.
    pub(super) fn copy(&self, uid: &Uid) -> rusqlite::Result<Option<JobCopy>> {
        let mut statement = self.tx.conn.prepare_cached(OF_UID)?;
        statement.query_row(params![self.sub.id, self.queue.id, uid.as_bytes()], JobCopy::read).optional()
    }

    /// The job, when this hand-out of it is the consumer's.
    pub(super) fn held(
        &self,
        (uid, delivery): (&Uid, u64),
        consumer: &Consumer,
    ) -> rusqlite::Result<Option<JobCopy>> {
        Ok(self.copy(uid)?.filter(|copy| copy.is_held(consumer, delivery)))
    }

    /// Puts a running job where its fate says. `error` is what its handler said.
    pub(super) fn settle(
        &mut self,
        mut copy: JobCopy,
        (what, fate): (What, Fate),
        error: Option<&str>,
        result: Option<&(Receipt, Span)>,
    ) -> rusqlite::Result<()> {
        let now = self.tx.now.wall;
        self.sub.running -= 1;
        self.pass(Happening::settled(what, &fate), copy.record.id, copy.facts.counts.attempts)?;
        if !matches!(fate, Fate::Done | Fate::Cancelled) {
            let (attempts, holder) = (copy.facts.counts.attempts, copy.holder());
            if let Some(event) = Event::settled(now, what, attempts, holder.as_ref(), &fate, error) {
                copy.tell(&event);
            }
        }
        match fate {
            Fate::Done => {
                self.sub.done += 1;
                if let Some((receipt, _)) = result {
                    copy.record.keep_result(self.tx, receipt)?;
                }
                self.end(copy, Ended::Done, result.map(|(_, keep)| *keep))
            }
            Fate::Cancelled => {
                self.sub.cancelled += 1;
                self.end(copy, Ended::Cancelled, None)
            }
            Fate::Ready => {
                self.sub.waiting += 1;
                self.put(&copy, WAITING, None, error)
            }
            Fate::Due(due) => {
                self.sub.waiting += 1;
                let seq = self.queue.seq();
                self.put(&JobCopy { due, seq, ..copy }, WAITING, None, error)
            }
            Fate::Dead(reason, text) => {
                self.sub.dead += 1;
                let mut copy = JobCopy { seq: self.queue.seq(), ..copy };
                copy.record.end(None, None, now);
                copy.record.save(self.tx)?;
                self.put(&copy, DEAD, Some(reason.as_str()), Some(&text))
            }
        }
    }

    fn end(&self, mut copy: JobCopy, how: Ended, keep: Option<Span>) -> rusqlite::Result<()> {
        self.delete(&copy)?;
        copy.record.end(Some(how), keep, self.tx.now.wall);
        copy.record.save(self.tx)
    }

    fn delete(&self, copy: &JobCopy) -> rusqlite::Result<()> {
        self.tx.conn.prepare_cached(DELETE)?.execute([self.sub.id, copy.record.id]).map(drop)
    }

    fn put(
        &self,
        copy: &JobCopy,
        state: i64,
        reason: Option<&str>,
        error: Option<&str>,
    ) -> rusqlite::Result<()> {
        let Facts { counts, snoozed_since, cancelled } = copy.facts;
        // A job that lives again says nothing of its death.
        let is_new_error = error.is_some() || copy.state == DEAD;
        let died_at = (state == DEAD).then_some(self.tx.now.wall.as_millis());
        let mut statement = self.tx.conn.prepare_cached(MOVE)?;
        let moved = statement.execute(params![
            self.sub.id,
            copy.record.id,
            state,
            copy.due.as_millis(),
            copy.seq,
            counts.attempts,
            counts.losses,
            counts.snoozes,
            counts.given_back,
            counts.redriven,
            snoozed_since.map(Timestamp::as_millis),
            cancelled,
            reason,
            died_at,
            is_new_error,
            error,
            copy.history
        ]);
        moved.map(drop)
    }

    /// The consumer gives it back.
    pub(super) fn give_back(&mut self, mut copy: JobCopy) -> rusqlite::Result<Write> {
        let fate = hapax_core::queue::machine::give_back(&mut copy.facts);
        self.settle(copy, (What::GivenBack, fate), None, None).map(|()| Write::Applied)
    }

    /// Its lease ends no earlier than `until` on the clock of leases; `said`: how far it is.
    pub(super) fn extend(&self, copy: &JobCopy, until: u64, said: Option<&Progress>) -> rusqlite::Result<()> {
        let until = copy.lease_at(self.tx.boot_id).max(until);
        let mut statement = self.tx.conn.prepare_cached(EXTEND)?;
        let extended = statement.execute(params![
            self.sub.id,
            copy.record.id,
            integer(until),
            self.tx.boot_id,
            said.map(Progress::to_bytes)
        ]);
        extended.map(drop)
    }

    /// Takes a job out of the group before its end.
    pub(super) fn remove(&mut self, mut copy: JobCopy) -> rusqlite::Result<()> {
        *match copy.state {
            WAITING => &mut self.sub.waiting,
            RUNNING => &mut self.sub.running,
            _ => &mut self.sub.dead,
        } -= 1;
        self.sub.cancelled += 1;
        self.pass(Happening::Cancelled, copy.record.id, copy.facts.counts.attempts)?;
        self.delete(&copy)?;
        copy.record.remove(copy.state == DEAD, self.tx.now.wall);
        copy.record.save(self.tx)
    }

    /// Tells the one who has it that it is cancelled.
    pub(super) fn tell(&self, copy: JobCopy) -> rusqlite::Result<()> {
        let copy = copy.tells(self.tx.now.wall, What::Cancelled, None);
        let mut statement = self.tx.conn.prepare_cached(CANCEL)?;
        statement.execute(params![self.sub.id, copy.record.id, copy.history]).map(drop)
    }

    /// Gives a waiting job another time.
    pub(super) fn postpone(&mut self, copy: JobCopy, due: Timestamp) -> rusqlite::Result<()> {
        let copy = copy.tells(self.tx.now.wall, What::Rescheduled, Some(due));
        self.wait(copy, due)
    }

    fn wait(&mut self, copy: JobCopy, due: Timestamp) -> rusqlite::Result<()> {
        let seq = self.queue.seq();
        self.put(&JobCopy { due, seq, ..copy }, WAITING, None, None)
    }

    /// Makes a dead letter a job again.
    pub(super) fn revive(&mut self, mut copy: JobCopy) -> rusqlite::Result<()> {
        self.sub.dead -= 1;
        self.sub.waiting += 1;
        hapax_core::queue::machine::redrive(&mut copy.facts);
        self.pass(Happening::Redriven, copy.record.id, 0)?;
        copy.record.revive();
        copy.record.save(self.tx)?;
        let now = self.tx.now.wall;
        self.wait(copy.tells(now, What::Redriven, None), now)
    }
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[OF_UID, OF_RECORD_IN, DELETE, MOVE, CANCEL, EXTEND];
