//! What people do with jobs and queues, by hand and seldom.

use super::{
    book::Book,
    copy::{self, DEAD, Desk, JobCopy, RUNNING, WAITING},
    info, record,
    record::Record,
    row, state,
};
use crate::step::{Moment, Step};
use hapax_core::{
    Name,
    queue::{
        Cancelled, Due, Edit, Group, JobRef, MAX_REDRIVES, QueueId, Redrive, Redriven, Uid, history::What,
    },
};
use rusqlite::params;

const JOB_ID: &str = "SELECT job_id FROM hapax_job WHERE id = ?1";
const UID: &str = "SELECT uid FROM hapax_job WHERE id = ?1";
const EDIT: &str = "UPDATE hapax_job_copy SET payload = ?3, history = ?4 WHERE grp = ?1 AND job = ?2";
const EDITED: &str = "UPDATE hapax_job SET fingerprint_version = ?2, fingerprint = ?3 WHERE id = ?1";
const NEWEST: &str = "SELECT max(id) FROM hapax_job";
const ALL: &str = concat!(
    "SELECT ",
    copy::columns!(),
    " FROM hapax_job_copy c CROSS JOIN hapax_job j ON j.id = c.job WHERE c.grp = ?1 AND c.job <= ?2 ORDER BY c.job"
);
/// So many jobs are removed in one transaction: others have their turn between.
const PART: usize = 512;

/// A step that is rare enough to be a function.
pub(super) struct Manage<F>(pub(super) F);

impl<A, F> Step for Manage<F>
where
    A: Send + 'static,
    F: Fn(&Moment<'_>) -> rusqlite::Result<A> + Send + 'static,
{
    type Answer = A;
    const OP: &'static str = "manage a queue";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<A> {
        self.0(tx)
    }
    fn wakes(&self, _: &A) -> bool {
        true
    }
}

/// Does something with each group that is meant, where the queue is there.
fn each<A: Default>(
    tx: &Moment<'_>,
    id: &QueueId,
    group: Option<&Group>,
    mut act: impl FnMut(&mut Desk<'_>, &mut A) -> rusqlite::Result<()>,
) -> rusqlite::Result<A> {
    let mut answer = A::default();
    let Some(mut book) = Book::load(tx, id)? else { return Ok(answer) };
    for at in book.meant(group) {
        let Book { queue, subs, .. } = &mut book;
        let Some(sub) = subs.get_mut(at) else { continue };
        act(&mut Desk { tx, queue, sub }, &mut answer)?;
    }
    book.save(tx)?;
    Ok(answer)
}

/// The one group that is meant; none where there are several.
fn only(tx: &Moment<'_>, id: &QueueId, group: Option<&Group>) -> rusqlite::Result<Option<(Book, usize)>> {
    let Some(book) = Book::load(tx, id)? else { return Ok(None) };
    let meant = book.meant(group);
    Ok(if let [at] = meant[..] { Some((book, at)) } else { None })
}

pub(super) fn pause(
    tx: &Moment<'_>,
    id: &QueueId,
    group: Option<&Group>,
    paused: bool,
) -> rusqlite::Result<u64> {
    each(tx, id, group, |desk, count| {
        desk.sub.paused = paused;
        *count += 1;
        Ok(())
    })
}

pub(super) fn cancel(tx: &Moment<'_>, id: &QueueId, job: &JobRef) -> rusqlite::Result<Cancelled> {
    let Some(book) = Book::load(tx, id)? else { return Ok(Cancelled::default()) };
    let Some(known) = info::meant(tx, &book, job)? else { return Ok(Cancelled::default()) };
    let over = Some(state::of(tx, &book, &known)?).filter(|state| state.is_end());
    let answer = each(tx, id, None, |desk, answer: &mut Cancelled| {
        match JobCopy::of(tx.conn, desk.sub.id, known.id)? {
            Some(copy) if copy.state == WAITING => {
                answer.removed += 1;
                desk.remove(copy)
            }
            Some(copy) if copy.state == RUNNING => {
                answer.told += 1;
                desk.tell(copy)
            }
            _ => Ok(()),
        }
    })?;
    Ok(Cancelled { over, ..answer })
}

pub(super) fn reschedule(tx: &Moment<'_>, id: &QueueId, job: &JobRef, due: Due) -> rusqlite::Result<u64> {
    let Some(book) = Book::load(tx, id)? else { return Ok(0) };
    let Some(known) = info::meant(tx, &book, job)? else { return Ok(0) };
    let due = due.at(tx.now.wall);
    each(tx, id, None, |desk, moved| match JobCopy::of(tx.conn, desk.sub.id, known.id)? {
        Some(copy) if copy.state == WAITING => {
            *moved += 1;
            desk.postpone(copy, due)
        }
        _ => Ok(()),
    })
}

pub(super) fn redrive(tx: &Moment<'_>, req: &Redrive) -> rusqlite::Result<Vec<Redriven>> {
    let Some((mut book, at)) = only(tx, &req.queue, req.group.as_ref())? else {
        return Ok(vec![Redriven::NotDead; req.uids.len()]);
    };
    let Book { queue, subs, .. } = &mut book;
    let Some(sub) = subs.get_mut(at) else { return Ok(Vec::new()) };
    let mut desk = Desk { tx, queue, sub };
    let answers =
        req.uids.iter().map(|uid| redrive_one(&mut desk, uid, req.force)).collect::<rusqlite::Result<_>>()?;
    book.save(tx)?;
    Ok(answers)
}

fn redrive_one(desk: &mut Desk<'_>, uid: &Uid, force: bool) -> rusqlite::Result<Redriven> {
    let Some(copy) = desk.copy(uid)?.filter(|copy| copy.state == DEAD) else { return Ok(Redriven::NotDead) };
    if copy.facts.counts.redriven >= MAX_REDRIVES && !force {
        return Ok(Redriven::TooOften);
    }
    let conn = desk.tx.conn;
    let id =
        conn.prepare_cached(JOB_ID)?.query_row([copy.record.id], |row| row.get::<_, Option<String>>(0))?;
    let holder = id.map(|id| Record::by_id(conn, desk.queue.id, &id)).transpose()?.flatten();
    if let Some(mut holder) = holder.filter(|holder| holder.id != copy.record.id) {
        if holder.holds_id(desk.tx.now.wall) {
            let uid = conn.prepare_cached(UID)?.query_row([holder.id], |row| row::uid(row, 0))?;
            return Ok(Redriven::Duplicate { uid });
        }
        holder.let_go();
        holder.save(desk.tx)?;
    }
    desk.revive(copy)?;
    Ok(Redriven::Ready)
}

pub(super) fn edit(tx: &Moment<'_>, req: &Edit) -> rusqlite::Result<bool> {
    let Some((mut book, at)) = only(tx, &req.queue, req.group.as_ref())? else { return Ok(false) };
    let Book { queue, subs, .. } = &mut book;
    let Some(sub) = subs.get_mut(at) else { return Ok(false) };
    let desk = Desk { tx, queue, sub };
    let Some(copy) = desk.copy(&req.uid)?.filter(|copy| copy.state == DEAD) else { return Ok(false) };
    let job = copy.record.id;
    let copy = copy.tells(tx.now.wall, What::Edited, None);
    tx.conn.prepare_cached(EDIT)?.execute(params![desk.sub.id, job, &*req.payload, copy.history()])?;
    let fingerprint = &req.fingerprint;
    let digest = super::add::digest(fingerprint);
    tx.conn.prepare_cached(EDITED)?.execute(params![job, fingerprint.version(), digest])?;
    Ok(true)
}

pub(super) fn drop_dead(
    tx: &Moment<'_>,
    id: &QueueId,
    group: Option<&Group>,
    uids: &[Uid],
) -> rusqlite::Result<u64> {
    each(tx, id, group, |desk, dropped| {
        for uid in uids {
            if let Some(copy) = desk.copy(uid)?.filter(|copy| copy.state == DEAD) {
                desk.remove(copy)?;
                *dropped += 1;
            }
        }
        Ok(())
    })
}

/// What one transaction of a long removal did.
pub(super) struct Part {
    pub(super) removed: u64,
    pub(super) is_last: bool,
}

/// The number of the newest job: a purge takes no later ones.
pub(super) fn newest(tx: &Moment<'_>) -> rusqlite::Result<i64> {
    Ok(tx.conn.prepare_cached(NEWEST)?.query_row([], |row| row.get::<_, Option<i64>>(0))?.unwrap_or_default())
}

/// Removes jobs of all groups, up to a number.
pub(super) fn purge(tx: &Moment<'_>, id: &QueueId, newest: i64) -> rusqlite::Result<Part> {
    let removed = each(tx, id, None, |desk, removed: &mut usize| {
        *removed += clear(desk, newest, PART.saturating_sub(*removed))?;
        Ok(())
    })?;
    Ok(Part { removed: u64::try_from(removed).unwrap_or(u64::MAX), is_last: removed < PART })
}

/// Removes jobs of a group, and with the last one the group; `None`: no such group.
pub(super) fn unsubscribe(tx: &Moment<'_>, id: &QueueId, group: &Group) -> rusqlite::Result<Option<Part>> {
    let Some((mut book, at)) = only(tx, id, Some(group))? else { return Ok(None) };
    let Book { queue, subs, .. } = &mut book;
    let Some(sub) = subs.get_mut(at) else { return Ok(None) };
    let removed = clear(&mut Desk { tx, queue, sub }, i64::MAX, PART)?;
    let is_last = removed < PART;
    if is_last {
        book.forget(tx, at)?;
    }
    book.save(tx)?;
    Ok(Some(Part { removed: u64::try_from(removed).unwrap_or(u64::MAX), is_last }))
}

fn clear(desk: &mut Desk<'_>, newest: i64, most: usize) -> rusqlite::Result<usize> {
    let mut found = Vec::new();
    let mut statement = desk.tx.conn.prepare_cached(ALL)?;
    let mut rows = statement.query([desk.sub.id, newest])?;
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        found.push(JobCopy::read(row)?);
    }
    drop(rows);
    let removed = found.len();
    found.into_iter().try_for_each(|copy| desk.remove(copy))?;
    Ok(removed)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[JOB_ID, UID, EDIT, EDITED, NEWEST, ALL];
