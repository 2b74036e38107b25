//! What people do with queues.

use super::{
    Queues,
    call::{self, Args, Op},
    form,
    keys::{Groups, Place, Prepared, UNNAMED},
    script,
    show::meant,
};
use crate::error::Failure;
use hapax_core::{
    Span,
    queue::{
        Cancelled, Due, Edit, Group, JobRef, Limits, MAX_REDRIVES, MOST, PerRate, QueueId, Redrive, Redriven,
        Uid, events::MOST_KEPT,
    },
};
use std::{sync::Arc, time::Duration};

/// The bounds of a queue, as they lie in its hash.
type Bounds = (Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<String>);

impl Queues {
    pub(super) async fn cancelled(&self, queue: &QueueId, job: &JobRef) -> Result<Cancelled, Failure> {
        let place = self.place(queue);
        let Some(mut said) = self.on_all(&place, Op::new(&script::CANCEL), || meant(job)).await? else {
            return Ok(Cancelled::default());
        };
        let read = (|| {
            Some(Cancelled { removed: said.count()?, told: said.count()?, over: form::state(said.number()?) })
        })();
        read.ok_or_else(|| self.nonsense())
    }

    pub(super) async fn rescheduled(&self, queue: &QueueId, job: &JobRef, due: Due) -> Result<u64, Failure> {
        let place = self.place(queue);
        let args = || meant(job).arg(form::due(due));
        match self.on_all(&place, Op::again(&script::RESCHEDULE), args).await? {
            Some(mut said) => said.count().ok_or_else(|| self.nonsense()),
            None => Ok(0),
        }
    }

    pub(super) async fn paused(
        &self,
        queue: &QueueId,
        group: Option<&Group>,
        paused: bool,
    ) -> Result<u64, Failure> {
        let place = self.place(queue);
        self.refresh(&place).await?;
        let numbers = |groups: &Groups| -> Vec<u32> {
            match group {
                Some(group) => groups.number(group).into_iter().collect(),
                None => groups.list.iter().map(|(number, _)| *number).collect(),
            }
        };
        let make = |groups: &Groups| {
            let numbers = numbers(groups);
            let is_some = groups.is_there() && !numbers.is_empty();
            is_some.then(|| (place.keys(&numbers), Args::new().arg(u8::from(paused))))
        };
        let said = self.call(&place, Op::again(&script::PAUSE), make).await?;
        Ok(said.map_or(0, |_| u64::try_from(numbers(&place.groups()).len()).unwrap_or(u64::MAX)))
    }

    pub(super) async fn redriven(&self, req: &Redrive) -> Result<Vec<Redriven>, Failure> {
        let place = self.place(&req.queue);
        self.refresh(&place).await?;
        let mut answers = Vec::with_capacity(req.uids.len());
        for uids in req.uids.chunks(MOST) {
            let make = |groups: &Groups| {
                let keys = groups.is_there().then(|| groups.only(req.group.as_ref())).flatten()?;
                let mut args = Args::new().arg(u8::from(req.force)).arg(MAX_REDRIVES);
                for uid in uids {
                    args.push(uid.as_bytes());
                }
                Some((keys, args))
            };
            let Some(mut said) = self.call(&place, Op::new(&script::REDRIVE), make).await? else {
                answers.extend(uids.iter().map(|_| Redriven::NotDead));
                continue;
            };
            let said = said.list().filter(|said| said.len() == uids.len());
            for answer in said.ok_or_else(|| self.nonsense())? {
                let word = call::bytes(answer).ok_or_else(|| self.nonsense())?;
                answers.push(match word.as_slice() {
                    b"r" => Redriven::Ready,
                    b"n" => Redriven::NotDead,
                    b"t" => Redriven::TooOften,
                    uid => Redriven::Duplicate { uid: form::uid(uid).ok_or_else(|| self.nonsense())? },
                });
            }
        }
        Ok(answers)
    }

    pub(super) async fn edited(&self, req: &Edit) -> Result<bool, Failure> {
        let place = self.place(&req.queue);
        self.refresh(&place).await?;
        let make = |groups: &Groups| {
            let keys = groups.is_there().then(|| groups.only(req.group.as_ref())).flatten()?;
            let print = crate::value::print(&req.fingerprint);
            Some((keys, Args::new().arg(req.uid.as_bytes()).arg(&print[..]).arg(&req.payload[..])))
        };
        match self.call(&place, Op::again(&script::EDIT), make).await? {
            Some(mut said) => said.number().map(|was| was == 1).ok_or_else(|| self.nonsense()),
            None => Ok(false),
        }
    }

    pub(super) async fn dropped(
        &self,
        queue: &QueueId,
        group: Option<&Group>,
        uids: &[Uid],
    ) -> Result<u64, Failure> {
        let place = self.place(queue);
        self.refresh(&place).await?;
        let mut dropped = 0;
        for uids in uids.chunks(MOST) {
            let make = |groups: &Groups| {
                let (keys, are_meant) = match group {
                    Some(group) => (groups.own(group)?, 1),
                    None => (groups.all()?, groups.list.len()),
                };
                let mut args = Args::new().arg(are_meant);
                for uid in uids {
                    args.push(uid.as_bytes());
                }
                groups.is_there().then_some((keys, args))
            };
            if let Some(mut said) = self.call(&place, Op::new(&script::DROP_DEAD), make).await? {
                dropped += said.count().ok_or_else(|| self.nonsense())?;
            }
        }
        Ok(dropped)
    }

    pub(super) async fn purged(&self, queue: &QueueId) -> Result<u64, Failure> {
        let place = self.place(queue);
        self.refresh(&place).await?;
        let mut purged = 0;
        if place.groups().is_there() {
            for (number, _) in place.groups().list.clone() {
                purged += self.cleared(&place, number).await?;
            }
        }
        Ok(purged)
    }

    /// Removes the jobs that a group has at this time, some at a time.
    async fn cleared(&self, place: &Place, number: u32) -> Result<u64, Failure> {
        let (mut removed, mut before) = (0, u64::MAX);
        while removed < before {
            let own = |groups: &Groups| -> Option<Arc<Prepared>> {
                let others = groups.list.iter().map(|(known, _)| *known).filter(|known| *known != number);
                let is_there = groups.list.iter().any(|(known, _)| *known == number);
                is_there.then(|| place.keys(&std::iter::once(number).chain(others).collect::<Vec<_>>()))
            };
            let make = |groups: &Groups| Some((own(groups)?, Args::new()));
            let Some(mut said) = self.call(place, Op::new(&script::CLEAR), make).await? else { break };
            let read = (|| Some((said.count()?, said.count()?)))();
            let (part, there) = read.ok_or_else(|| self.nonsense())?;
            if part == 0 {
                break;
            }
            before = before.min(removed + there);
            removed += part;
        }
        Ok(removed)
    }

    pub(super) async fn unsubscribed(&self, queue: &QueueId, group: &Group) -> Result<Option<u64>, Failure> {
        let place = self.place(queue);
        self.refresh(&place).await?;
        let Some(number) = place.groups().number(group) else { return Ok(None) };
        let removed = self.cleared(&place, number).await?;
        let make = |groups: &Groups| {
            let number = groups.number(group)?;
            Some((place.keys(&[number]), Args::new().arg(groups.without(number))))
        };
        let left = place.groups().without(number);
        if self.call(&place, Op::new(&script::UNSUBSCRIBE), make).await?.is_some() {
            place.set_groups(left);
        }
        Ok(Some(removed))
    }

    pub(super) async fn bounded(&self, queue: &QueueId, limits: &Limits) -> Result<(), Failure> {
        let place = self.place(queue);
        self.noted(&place).await?;
        let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
        let rate = limits.rate.map(|(count, window)| (u64::from(count), window.as_millis()));
        let args = || {
            Args::new()
                .arg(UNNAMED)
                .arg(number(limits.max_len))
                .arg(number(limits.concurrency.map(u64::from)))
                .arg(number(rate.map(|(count, _)| count)))
                .arg(number(rate.map(|(_, window)| window)))
                .arg(number(
                    Some(limits.events).filter(|most| *most > 0).map(|most| most.min(MOST_KEPT).into()),
                ))
                .arg(limits.per.as_ref().map(PerRate::to_text).unwrap_or_default())
        };
        self.call(&place, Op::again(&script::LIMITS), |groups| Some((groups.all()?, args()))).await?;
        self.refresh(&place).await
    }

    pub(super) async fn bounds(&self, queue: &QueueId) -> Result<Limits, Failure> {
        let key = self.place(queue).keys(&[]).keys.first().cloned().unwrap_or_default();
        let mut get = redis::cmd("HMGET");
        get.arg(&key).arg(&["max", "most", "rate", "window", "ev", "per"]);
        let reply = self.lines().call_one(&crate::ask::Ask::Plain(key, get), true).await?;
        let read = redis::from_redis_value::<Bounds>(reply).map_err(|_| self.nonsense())?;
        let (max_len, concurrency, count, window, events, per) = read;
        let small = |n: Option<u64>| n.and_then(|n| u32::try_from(n).ok());
        let window = window.and_then(|ms| Span::new(Duration::from_millis(ms)).ok());
        let (concurrency, rate) = (small(concurrency), small(count).zip(window));
        let per = per.as_deref().and_then(PerRate::read);
        Ok(Limits { concurrency, rate, per, max_len, events: small(events).unwrap_or_default() })
    }

    pub(super) async fn pruned(&self, limit: usize) -> Result<usize, Failure> {
        let mut pruned = 0;
        for queue in self.queues(None).await? {
            let place = self.place(&queue);
            while pruned < limit {
                let args = || Args::new().arg((limit - pruned).min(MOST));
                let make = |_: &Groups| Some((place.keys(&[]), args()));
                let Some(mut said) = self.call(&place, Op::new(&script::PRUNE), make).await? else { break };
                let part = said.count().and_then(|n| usize::try_from(n).ok());
                let part = part.ok_or_else(|| self.nonsense())?;
                pruned += part;
                if part < MOST {
                    break;
                }
            }
        }
        Ok(pruned)
    }
}
