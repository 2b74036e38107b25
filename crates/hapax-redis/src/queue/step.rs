//! What workers do: steps, beats, giving back.

use super::{
    Queues,
    call::{self, Args, Op, Said},
    form,
    keys::{Groups, Place, Prepared},
    script,
};
use crate::{error::Failure, step::Outgoing};
use hapax_core::{
    StoreErrorKind, Timestamp,
    idempotency::{Complete, Completed, Kind, Write},
    queue::{
        Beat, Beaten, End, Finish, Finished, GiveBack, Group, MOST, Progress, Step, Stepped, Subscribed,
        Taken, Uid, machine,
    },
};
use redis::Value;
use std::sync::Arc;

impl Queues {
    pub(super) async fn subscribed(&self, place: &Place, group: &Group) -> Result<Subscribed, Failure> {
        self.noted(place).await?;
        loop {
            self.refresh(place).await?;
            let groups = place.groups();
            let Some((text, is_first)) = groups.with(group) else { return Ok(Subscribed::Known) };
            let make = |now: &Groups| {
                (now.text == groups.text).then(|| Some((now.all()?, Args::new().arg(&text)))).flatten()
            };
            // Whoever was quicker may have named the same.
            if self.call(place, Op::again(&script::SUBSCRIBE), make).await?.is_some() {
                place.set_groups(text);
                return Ok(if is_first { Subscribed::First } else { Subscribed::Another });
            }
        }
    }

    /// A script of one group, which the queue may have forgotten with the server's memory.
    async fn on_group(
        &self,
        place: &Place,
        group: &Group,
        op: Op,
        args: impl Fn() -> Args,
    ) -> Result<Option<Said>, Failure> {
        let known = |groups: &Groups| -> Option<Arc<Prepared>> { groups.own(group) };
        if place.groups().own(group).is_none() {
            self.refresh(place).await?;
        }
        self.call(place, op, |groups| Some((known(groups)?, args()))).await
    }

    pub(super) async fn stepped(&self, req: &Step) -> Result<Stepped, Failure> {
        let place = self.place(&req.queue);
        if req.finishes.len() > MOST {
            let reason = format!("a step has {} finishes, and {MOST} are the most", req.finishes.len());
            return Err(Failure::new(StoreErrorKind::Unsupported, reason));
        }
        let keys: Vec<&Complete> = req.finishes.iter().filter_map(|finish| finish.key.as_deref()).collect();
        if !keys.is_empty() && self.lines().connector.is_cluster() {
            let reason = "keys and queues lie apart in a Cluster: complete the key first";
            return Err(Failure::new(StoreErrorKind::Unsupported, reason));
        }
        self.store.note_unknowns(keys.iter().copied().filter(|key| key.kind == Kind::Unknown)).await;
        let script = if keys.is_empty() { &script::STEP } else { &script::JOINT };
        // Never sent again from here: the second answer would show what the first one ended as lost, and hide what it
        // handed out. The worker knows what it has heard of.
        let op = if keys.is_empty() { Op::new(script) } else { Op::new(script).kept() };
        loop {
            match self.on_group(&place, &req.group, op, || self.step_args(req, &keys)).await? {
                Some(said) => return self.read_step(req, &keys, said),
                None => drop(self.subscribed(&place, &req.group).await?),
            }
        }
    }

    fn step_args(&self, req: &Step, keys: &[&Complete]) -> Args {
        let consumer = form::filled(&req.consumer);
        let mut args = Args::new()
            .arg(&consumer)
            .arg(req.want.min(MOST))
            .arg(req.lease.as_millis())
            .arg(req.max_losses)
            .arg(req.finishes.len());
        let letters: Vec<u8> = req.finishes.iter().map(|finish| letter(&finish.end)).collect();
        args.push(&letters[..]);
        for finish in &req.finishes {
            args.push(form::name(&finish.uid, finish.delivery, &consumer));
        }
        for Finish { end, .. } in &req.finishes {
            match end {
                End::Done { result: None } => {}
                End::Done { result: Some((receipt, keep)) } => {
                    args.push(keep.as_millis());
                    args.push(crate::value::receipt(receipt).unwrap_or_default());
                }
                End::Retry { after, error } => {
                    args.push(after.as_millis());
                    args.push(machine::cut(error));
                }
                End::Snooze { after } => args.push(after.as_millis()),
                End::Dead { reason, error } => {
                    args.push(form::reason_number(*reason));
                    args.push(machine::cut(error));
                    args.push(u8::from(machine::is_attempt(*reason)));
                }
            }
        }
        for key in keys {
            let outgoing = Outgoing::of(*key, self.store.connector());
            for arg in outgoing.args.args_iter() {
                if let redis::Arg::Simple(bytes) = arg {
                    args.push(bytes);
                }
            }
            args.more_keys.push(outgoing.key);
        }
        args
    }

    fn read_step(&self, req: &Step, keys: &[&Complete], mut said: Said) -> Result<Stepped, Failure> {
        let now = said.now;
        let mut read = || {
            let fence = said.count()?;
            let paused = said.number()? == 1;
            let next = said.number()?;
            let marks = said.bytes()?;
            let jobs = self.read_jobs(req, fence, (said.list()?, said.list()?, said.list()?))?;
            let next_due = (next >= 0).then(|| Timestamp::from_millis(next));
            let answers = match said.next()? {
                // All of them alike.
                Value::Int(usual) => vec![Value::Int(usual); keys.len()],
                answers => call::list(answers)?,
            };
            Some((marks, answers, Stepped { finished: Vec::new(), jobs, next_due, paused, now }))
        };
        let (marks, answers, mut stepped) = read().ok_or_else(|| self.nonsense())?;
        if marks.len() != req.finishes.len() || answers.len() != keys.len() {
            return Err(self.nonsense());
        }
        let mut completed = keys.iter().zip(answers).map(|(key, answer)| self.completed(key, answer));
        for (finish, mark) in req.finishes.iter().zip(marks) {
            let key = match &finish.key {
                Some(_) => completed.next().transpose()?,
                None => None,
            };
            stepped.finished.push(Finished { job: write(mark), key });
        }
        Ok(stepped)
    }

    /// What cannot be read was not handed out: its lease passes, and after some losses it is a dead letter.
    fn read_jobs(
        &self,
        req: &Step,
        fence: u64,
        (uids, bodies, facts): (Vec<Value>, Vec<Value>, Vec<Value>),
    ) -> Option<Vec<Taken>> {
        let mut facts = facts.into_iter();
        let mut jobs = Vec::with_capacity(uids.len());
        for (uid, body) in uids.into_iter().zip(bodies) {
            let facts = facts.next().map_or(Some(Vec::new()), call::bytes)?;
            let uid = form::uid(&call::bytes(uid)?)?;
            match form::taken(uid, fence, call::bytes(body)?, facts) {
                Some(job) => jobs.push(job),
                None => tracing::warn!(
                    queue = req.queue.name.as_str(),
                    %uid,
                    place = self.lines().connector.place,
                    "a job has a form that this version of hapax does not know"
                ),
            }
        }
        Some(jobs)
    }

    fn completed(&self, key: &Complete, answer: Value) -> Result<Completed, Failure> {
        self.store.read(key, answer)
    }

    pub(super) async fn beaten(&self, req: &Beat) -> Result<Beaten, Failure> {
        let place = self.place(&req.queue);
        let mut all = Beaten { now: self.now(), ..Beaten::default() };
        if req.held.len() > MOST {
            // What is not in the part that is sent is known all the same: nothing of it may be given back.
            for part in req.held.chunks(MOST) {
                let of_part = |(uid, _): &&(Uid, Progress)| part.iter().any(|(held, _)| held == uid);
                let progress = req.progress.iter().filter(of_part).cloned().collect();
                let part = Beat { held: part.to_vec(), since: None, progress, ..req.clone() };
                let beaten = Box::pin(self.beaten(&part)).await?;
                all.lost.extend(beaten.lost);
                all.cancelled.extend(beaten.cancelled);
                all.now = beaten.now;
            }
            return Ok(all);
        }
        let since = req.since.map_or(-1, |since| since.as_millis().max(0));
        let args = || {
            let consumer = form::filled(&req.consumer);
            let mut args =
                Args::new().arg(&consumer).arg(req.lease.as_millis()).arg(since).arg(req.held.len());
            for (uid, delivery) in &req.held {
                args.push(form::name(uid, *delivery, &consumer));
            }
            for (uid, progress) in &req.progress {
                if let Some(at) = req.held.iter().position(|(held, _)| held == uid) {
                    args.push(at + 1);
                    args.push(progress.to_bytes());
                }
            }
            args
        };
        let Some(mut said) = self.on_group(&place, &req.group, Op::again(&script::BEAT), args).await? else {
            all.lost = req.held.iter().map(|(uid, _)| *uid).collect();
            return Ok(all);
        };
        all.now = said.now;
        let read = (|| Some((said.bytes()?, said.bytes()?, said.count()?)))();
        let (own, cancelled, freed) = read.ok_or_else(|| self.nonsense())?;
        let which = |marks: Vec<u8>, mark: u8| -> Vec<Uid> {
            let held = req.held.iter().zip(marks);
            held.filter(|(_, is)| *is == mark).map(|((uid, _), _)| *uid).collect()
        };
        (all.lost, all.cancelled, all.freed) = (which(own, b'0'), which(cancelled, b'1'), freed);
        Ok(all)
    }

    pub(super) async fn given_back(&self, req: &GiveBack) -> Result<Vec<Write>, Failure> {
        let place = self.place(&req.queue);
        let mut answers = Vec::with_capacity(req.jobs.len());
        let mut parts: Vec<&[(Uid, u64)]> = req.jobs.chunks(MOST).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        for (n, part) in parts.into_iter().enumerate() {
            let leave = req.leave && n == last;
            let (marks, mut left) = match self.give_back_some(&place, req, part, leave).await? {
                Some(said) => said,
                None => (vec![b'0'; part.len()], 0),
            };
            answers.extend(marks.into_iter().map(write));
            while leave && left > 0 {
                let before = left;
                left = self.give_back_some(&place, req, &[], true).await?.map_or(0, |(_, left)| left);
                if left >= before {
                    // They lie behind those of many others, and are taken over when their lease has passed.
                    break;
                }
            }
        }
        Ok(answers)
    }

    async fn give_back_some(
        &self,
        place: &Place,
        req: &GiveBack,
        jobs: &[(Uid, u64)],
        leave: bool,
    ) -> Result<Option<(Vec<u8>, u64)>, Failure> {
        let args = || {
            let consumer = form::filled(&req.consumer);
            let mut args = Args::new().arg(&consumer).arg(u8::from(leave)).arg(jobs.len());
            for (uid, delivery) in jobs {
                args.push(form::name(uid, *delivery, &consumer));
            }
            args
        };
        let said = self.on_group(place, &req.group, Op::again(&script::GIVE_BACK), args).await?;
        let Some(mut said) = said else { return Ok(None) };
        let read = (|| Some((said.bytes()?, said.count()?)))().filter(|(marks, _)| marks.len() == jobs.len());
        read.map(Some).ok_or_else(|| self.nonsense())
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.lines().connector.clock.millis())
    }
}

fn letter(end: &End) -> u8 {
    match end {
        End::Done { result: None } => b'd',
        End::Done { result: Some(_) } => b'D',
        End::Retry { .. } => b'r',
        End::Snooze { .. } => b's',
        End::Dead { .. } => b'x',
    }
}

fn write(mark: u8) -> Write {
    if mark == b'1' { Write::Applied } else { Write::Fenced }
}
