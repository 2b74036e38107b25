//! A worker lives, and has these jobs; or it gives them back.

use super::{
    book::Book,
    copy::{self, Desk, JobCopy},
    record, row,
};
use crate::step::{Moment, Step};
use hapax_core::{
    Name, Timestamp,
    idempotency::Write,
    queue::{Beat, Beaten, Consumer, GiveBack, Uid},
};
use rusqlite::params;
use std::collections::HashSet;

const OF_CONSUMER: &str = concat!(
    "SELECT ",
    copy::columns!(),
    ", j.uid FROM hapax_job_copy c CROSS JOIN hapax_job j ON j.id = c.job \
     WHERE c.grp = ?1 AND c.state = 1 AND c.consumer = ?2"
);

impl Step for Beat {
    type Answer = Beaten;
    const OP: &'static str = "beat";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn rows(&self) -> usize {
        self.held.len()
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Beaten> {
        let now = tx.now.wall;
        let all_lost = || self.held.iter().map(|(uid, _)| *uid).collect();
        let mut answer = Beaten { now, ..Beaten::default() };
        let Some(mut book) = Book::load(tx, &self.queue)? else {
            return Ok(Beaten { lost: all_lost(), ..answer });
        };
        let at = book.find(&self.group);
        let Book { queue, subs, .. } = &mut book;
        let Some(sub) = at.and_then(|at| subs.get_mut(at)) else {
            return Ok(Beaten { lost: all_lost(), ..answer });
        };
        sub.see(now);
        let mut desk = Desk { tx, queue, sub };
        let until = tx.now.boot.after(self.lease.get()).as_millis();
        for (uid, delivery) in &self.held {
            match desk.held((uid, *delivery), &self.consumer)? {
                Some(copy) => {
                    if copy.facts.cancelled {
                        answer.cancelled.push(*uid);
                    }
                    let said = self.progress.iter().find(|(of, _)| of == uid).map(|(_, said)| said);
                    desk.extend(&copy, until, said)?;
                }
                None => answer.lost.push(*uid),
            }
        }
        if let Some(since) = self.since {
            let held: HashSet<_> = self.held.iter().copied().collect();
            for (copy, uid) in of_consumer(&desk, &self.consumer)? {
                // By the fence, which no clock that is set back makes smaller.
                if copy.fence < fence_at(since) && !held.contains(&(uid, copy.delivery)) {
                    let _ = desk.give_back(copy)?;
                    answer.freed += 1;
                }
            }
        }
        // What is handed out after this answer has a fence above its time.
        desk.queue.fence = desk.queue.fence.max(fence_at(now));
        book.save(tx)?;
        Ok(answer)
    }
    fn wakes(&self, answer: &Beaten) -> bool {
        answer.freed > 0
    }
}

impl Step for GiveBack {
    type Answer = Vec<Write>;
    const OP: &'static str = "give jobs back";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn rows(&self) -> usize {
        self.jobs.len()
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Vec<Write>> {
        let fenced = || vec![Write::Fenced; self.jobs.len()];
        let Some(mut book) = Book::load(tx, &self.queue)? else { return Ok(fenced()) };
        let at = book.find(&self.group);
        let Book { queue, subs, .. } = &mut book;
        let Some(sub) = at.and_then(|at| subs.get_mut(at)) else { return Ok(fenced()) };
        let mut desk = Desk { tx, queue, sub };
        let mut answers = Vec::with_capacity(self.jobs.len());
        for (uid, delivery) in &self.jobs {
            answers.push(match desk.held((uid, *delivery), &self.consumer)? {
                Some(copy) => desk.give_back(copy)?,
                None => Write::Fenced,
            });
        }
        if self.leave {
            for (copy, _) in of_consumer(&desk, &self.consumer)? {
                let _ = desk.give_back(copy)?;
            }
        }
        book.save(tx)?;
        Ok(answers)
    }
    fn wakes(&self, _: &Vec<Write>) -> bool {
        true
    }
}

/// All that a consumer has.
fn of_consumer(desk: &Desk<'_>, consumer: &Consumer) -> rusqlite::Result<Vec<(JobCopy, Uid)>> {
    let mut statement = desk.tx.conn.prepare_cached(OF_CONSUMER)?;
    let held = statement.query_map(params![desk.sub.id, consumer.as_str()], |row| {
        Ok((JobCopy::read(row)?, row::uid(row, copy::COLUMNS)?))
    })?;
    held.collect()
}

/// The smallest fence of a step at that time.
fn fence_at(time: Timestamp) -> u64 {
    hapax_core::queue::machine::fence(0, time)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[OF_CONSUMER];
