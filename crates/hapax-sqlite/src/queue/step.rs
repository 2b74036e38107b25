//! A worker's step: ends, takes over, hands out.

use super::{
    book::{Book, integer, natural},
    copy::{self, Desk, JobCopy},
    record, row, state,
};
use crate::step::{Moment, Step as Task};
use hapax_core::{
    Name, Timestamp,
    idempotency::Write,
    queue::{
        Counts, End, Finish, Finished, Happening, MOST, Priority, Step, Stepped, Taken,
        history::What,
        machine::{self, Fate},
    },
};
use rusqlite::{Row, params};

pub(super) const LOST: &str = concat!(
    "SELECT ",
    copy::columns!(),
    ", j.uid FROM hapax_job_copy c CROSS JOIN hapax_job j ON j.id = c.job \
     WHERE c.grp = ?1 AND c.state = 1 AND c.consumer = ?2 AND c.lease <= ?3 ORDER BY c.lease, j.uid"
);
const READY: &str = "SELECT c.job, c.delivery, c.attempts, c.losses, c.snoozes, c.given_back, c.redriven, \
                     c.snoozed_since, j.uid, j.job_id, j.settings, j.added_at, ifnull(c.payload, j.payload) \
                     FROM hapax_job_copy c CROSS JOIN hapax_job j ON j.id = c.job \
                     WHERE c.grp = ?1 AND c.state = 0 AND c.priority = ?2 AND c.due <= ?3 ORDER BY c.due, c.seq";
const TAKE: &str = "UPDATE hapax_job_copy SET state = 1, delivery = ?3, consumer = ?4, boot_id = ?5, lease = ?6, \
                    fence = ?7, progress = NULL WHERE grp = ?1 AND job = ?2";

impl Task for Step {
    type Answer = Stepped;
    const OP: &'static str = "take jobs";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn rows(&self) -> usize {
        self.finishes.len() + self.want.min(MOST)
    }
    fn bytes(&self) -> usize {
        let receipts = self.finishes.iter().map(|finish| {
            let result = match &finish.end {
                End::Done { result: Some((result, _)) } => result.bytes.len(),
                _ => 0,
            };
            result + finish.key.as_ref().map_or(0, |key| key.bytes())
        });
        receipts.sum()
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Stepped> {
        let mut book = Book::open(tx, &self.queue)?;
        let (at, _) = book.subscribe(tx, &self.group)?;
        let Book { queue, subs, .. } = &mut book;
        let Some(sub) = subs.get_mut(at) else { return Err(rusqlite::Error::QueryReturnedNoRows) };
        sub.see(tx.now.wall);
        let mut desk = Desk { tx, queue, sub };
        let mut finished = Vec::with_capacity(self.finishes.len());
        for finish in &self.finishes {
            // Apart from the job: a receipt is kept whoever has the job by now.
            let key = finish.key.as_ref().map(|key| key.take(tx)).transpose()?;
            finished.push(Finished { job: end(&mut desk, self, finish)?, key });
        }
        take_over(&mut desk, self)?;
        let (jobs, later) = hand_out(&mut desk, self)?;
        let now = tx.now.wall;
        let due = if desk.sub.waiting > 0 { state::next_due(tx.conn, desk.sub.id, now)? } else { None };
        let next_due = [due, later].into_iter().flatten().min();
        let paused = desk.sub.paused;
        book.save(tx)?;
        Ok(Stepped { finished, jobs, next_due, paused, now })
    }
    fn wakes(&self, answer: &Stepped) -> bool {
        // A place may be free, and a job due again.
        answer.finished.iter().any(|finished| finished.job == Write::Applied)
    }
}

fn end(desk: &mut Desk<'_>, step: &Step, finish: &Finish) -> rusqlite::Result<Write> {
    let Some(mut copy) = desk.held((&finish.uid, finish.delivery), &step.consumer)? else {
        return Ok(Write::Fenced);
    };
    let fate = machine::finish(&mut copy.facts, &finish.end, desk.tx.now.wall);
    let (what, error, result) = match &finish.end {
        End::Done { result } => (What::Retried, None, result.as_ref()),
        End::Retry { error, .. } => (What::Retried, Some(machine::cut(error)), None),
        End::Snooze { .. } => (What::Snoozed, None, None),
        End::Dead { .. } => (What::Dead, None, None),
    };
    desk.settle(copy, (what, fate), error, result).map(|()| Write::Applied)
}

/// What other workers lost is ready again, before all that became ready later.
fn take_over(desk: &mut Desk<'_>, step: &Step) -> rusqlite::Result<()> {
    let most = machine::take_overs(step.want);
    if most == 0 || desk.sub.running == 0 {
        return Ok(());
    }
    let mut lost = Vec::new();
    for holder in state::holders(desk.tx, desk.sub.id)?.into_iter().filter(|holder| holder.left.is_zero()) {
        let by = if holder.is_this_life { integer(desk.tx.now.boot.as_millis()) } else { i64::MAX };
        let mut statement = desk.tx.conn.prepare_cached(LOST)?;
        let mut rows = statement.query(params![desk.sub.id, holder.consumer, by])?;
        let mut found = 0;
        while found < most
            && let Some(row) = rows.next()?
        {
            let copy = JobCopy::read(row)?;
            lost.push((copy.lease_at(desk.tx.boot_id), row::uid(row, copy::COLUMNS)?, copy));
            found += 1;
        }
    }
    // Over all who are lost, those first that were lost first.
    lost.sort_by_key(|(lease, uid, _)| (*lease, *uid));
    lost.truncate(most);
    for (.., mut copy) in lost {
        let fate = machine::lose(&mut copy.facts, step.max_losses);
        desk.sub.lost += i64::from(fate != Fate::Cancelled);
        desk.settle(copy, (What::Lost, fate), None, None)?;
    }
    Ok(())
}

/// What the limits allow, and when they would allow more.
fn hand_out(desk: &mut Desk<'_>, step: &Step) -> rusqlite::Result<(Vec<Taken>, Option<Timestamp>)> {
    let now = desk.tx.now.wall;
    if desk.sub.paused || desk.sub.waiting == 0 {
        return Ok((Vec::new(), None));
    }
    let mut want = step.want.min(MOST);
    if let Some(most) = desk.queue.limits.concurrency {
        let running = usize::try_from(desk.sub.running).unwrap_or_default();
        want = want.min(usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(running));
    }
    let wanted = want;
    if let Some(rate) = desk.queue.limits.rate {
        want = desk.sub.bucket.admits(rate, now, want);
    }
    let fence = machine::fence(desk.queue.fence, now);
    let jobs = take(desk, step, want, fence)?;
    if !jobs.is_empty() {
        desk.queue.fence = fence;
        let taken = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
        desk.sub.waiting -= taken;
        desk.sub.running += taken;
    }
    let mut later = None;
    if let Some(rate) = desk.queue.limits.rate {
        desk.sub.bucket.take(rate, jobs.len());
        // The rate alone kept some back: were there fewer, it would not matter.
        if want < wanted && jobs.len() == want && state::oldest(desk.tx, desk.sub.id)?.is_some() {
            later = Some(now.after(desk.sub.bucket.next(rate)));
        }
    }
    Ok((jobs, later))
}

fn take(desk: &mut Desk<'_>, step: &Step, want: usize, fence: u64) -> rusqlite::Result<Vec<Taken>> {
    let (conn, now) = (desk.tx.conn, desk.tx.now);
    let mut found = Vec::new();
    for priority in Priority::ALL {
        if found.len() >= want {
            break;
        }
        let mut statement = conn.prepare_cached(READY)?;
        let mut rows = statement.query(params![desk.sub.id, priority.number(), now.wall.as_millis()])?;
        while found.len() < want
            && let Some(row) = rows.next()?
        {
            found.push((row.get::<_, i64>(0)?, taken(row, fence)?));
        }
    }
    let lease = integer(now.boot.after(step.lease.get()).as_millis());
    let mut statement = conn.prepare_cached(TAKE)?;
    for (job, taken) in &found {
        statement.execute(params![
            desk.sub.id,
            job,
            integer(taken.delivery),
            step.consumer.as_str(),
            desk.tx.boot_id,
            lease,
            integer(fence)
        ])?;
    }
    drop(statement);
    for (job, taken) in &found {
        desk.pass(Happening::Started, *job, taken.counts.attempts)?;
    }
    Ok(found.into_iter().map(|(_, taken)| taken).collect())
}

fn taken(row: &Row<'_>, fence: u64) -> rusqlite::Result<Taken> {
    Ok(Taken {
        uid: row::uid(row, 8)?,
        job_id: row::job_id(row, 9)?,
        delivery: natural(row.get(1)?) + 1,
        fence,
        counts: Counts {
            attempts: row.get(2)?,
            losses: row.get(3)?,
            snoozes: row.get(4)?,
            given_back: row.get(5)?,
            redriven: row.get(6)?,
        },
        snoozed_since: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
        payload: row::bytes(row, 12)?,
        settings: row::bytes(row, 10)?,
        added_at: Timestamp::from_millis(row.get(11)?),
    })
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOST, READY, TAKE];
