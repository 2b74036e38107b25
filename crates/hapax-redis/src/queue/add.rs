//! Adding jobs; with those of other callers that are ready too.

use super::{
    Queues,
    call::{self, Args, Op},
    form,
    keys::{Place, UNNAMED},
    script,
};
use crate::error::Failure;
use hapax_core::{
    Timestamp,
    queue::{Added, MOST, NewJob, OnConflict, QueueId, Uid},
};
use redis::Value;
use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::{Handle, Id},
    sync::oneshot,
};

/// So many bits are one number, which a script can hold exactly.
const RUN: u64 = 32;
/// So many bytes go into one script.
const MOST_BYTES: usize = 1024 * 1024;
/// A larger job goes alone: small ones need not wait for it.
const LARGE: usize = 16 * 1024;

/// A job as it is sent.
struct Parcel {
    uid: Uid,
    field: Vec<u8>,
    body: Vec<u8>,
    /// What to do on a conflict, class, and when it is due.
    rest: String,
    /// Where the bit of its uid lies.
    producer: (String, u64),
}

impl Parcel {
    fn new(place: &Place, job: &NewJob) -> Self {
        let field = job.job_id.as_ref().map(form::field).unwrap_or_default();
        let conflict = match job.on_conflict {
            OnConflict::Refuse => 'r',
            OnConflict::Keep => 'k',
            OnConflict::Replace => 'p',
        };
        Self {
            uid: job.uid,
            body: form::body(job, &field),
            field,
            rest: format!("{conflict}{}{}", job.priority.number(), form::due(job.due)),
            producer: place.producer(&job.uid),
        }
    }

    fn size(&self) -> usize {
        self.body.len() + 128
    }
}

type Tell = oneshot::Sender<Result<Vec<Added>, Failure>>;

/// Of the calls that are under way, so great a part leaves at once: callers whose answers come together call together
/// again, and then either they wait for the server or it for them. With several parts both are busy.
const PARTS: usize = 2;
/// So many leave together in any case.
const LEAST: usize = 8;

/// Calls that are about to leave, by the runtime of their callers and by queue.
#[derive(Default)]
pub(super) struct Gathered {
    groups: Mutex<Vec<Group>>,
    /// Calls that have no answer yet.
    calls: AtomicUsize,
}

struct Group {
    runtime: Id,
    queue: Arc<Place>,
    calls: VecDeque<(Vec<Parcel>, Tell)>,
}

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").finish_non_exhaustive()
    }
}

impl Gathered {
    /// Answers whether it is the first of its group.
    fn put(&self, runtime: Id, queue: &Arc<Place>, call: (Vec<Parcel>, Tell)) -> bool {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            groups.iter_mut().find(|group| group.runtime == runtime && Arc::ptr_eq(&group.queue, queue));
        if let Some(group) = known {
            group.calls.push_back(call);
            return false;
        }
        groups.push(Group { runtime, queue: Arc::clone(queue), calls: VecDeque::from([call]) });
        true
    }

    /// Those that leave next; none: the group is gone.
    fn take(&self, runtime: Id, queue: &Arc<Place>) -> Vec<(Vec<Parcel>, Tell)> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let at = groups.iter().position(|group| group.runtime == runtime && Arc::ptr_eq(&group.queue, queue));
        let Some(group) = at.and_then(|at| groups.get_mut(at)) else { return Vec::new() };
        // Whoever has gone meanwhile is left out.
        group.calls.retain(|(_, tell)| !tell.is_closed());
        let most = (self.calls.load(Ordering::Relaxed) / PARTS).max(LEAST);
        let (mut taken, mut jobs, mut bytes) = (Vec::new(), 0, 0);
        while let Some((parcels, _)) = group.calls.front() {
            jobs += parcels.len();
            bytes += parcels.iter().map(Parcel::size).sum::<usize>();
            if !taken.is_empty() && (taken.len() == most || jobs > MOST || bytes > MOST_BYTES) {
                break;
            }
            taken.extend(group.calls.pop_front());
        }
        if taken.is_empty() {
            at.map(|at| groups.swap_remove(at));
        }
        taken
    }
}

/// Counts a call for as long as it lives.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Ordering::Relaxed);
        Self(calls)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queues {
    pub(super) async fn added(
        self: &Arc<Self>,
        queue: &QueueId,
        jobs: &[NewJob],
    ) -> Result<Vec<Added>, Failure> {
        let place = self.place(queue);
        if !place.groups().is_there() {
            self.noted(&place).await?;
        }
        let mut answers = Vec::with_capacity(jobs.len());
        let mut parcels = Vec::with_capacity(jobs.len().min(MOST));
        let mut size = 0;
        for job in jobs {
            let parcel = Parcel::new(&place, job);
            size += parcel.size();
            if parcels.len() == MOST || (size > MOST_BYTES && !parcels.is_empty()) {
                answers.extend(self.leave(&place, mem::take(&mut parcels)).await?);
                size = parcel.size();
            }
            parcels.push(parcel);
        }
        if !parcels.is_empty() {
            answers.extend(self.leave(&place, parcels).await?);
        }
        Ok(answers)
    }

    /// Who calls while other calls are under way lets every other task that is ready have its turn first, and what those
    /// bring along leaves with it. Who calls alone waits for nobody.
    async fn leave(
        self: &Arc<Self>,
        place: &Arc<Place>,
        parcels: Vec<Parcel>,
    ) -> Result<Vec<Added>, Failure> {
        let _under_way = UnderWay::new(&self.gathered.calls);
        let others = self.gathered.calls.load(Ordering::Relaxed) > 1;
        let size: usize = parcels.iter().map(Parcel::size).sum();
        if !others || size > LARGE {
            return self.send(place, &parcels).await;
        }
        let (tell, answer) = oneshot::channel();
        let runtime = Handle::try_current().map_err(|_| Failure::no_runtime())?.id();
        if self.gathered.put(runtime, place, (parcels, tell)) {
            let (queues, place) = (Arc::clone(self), Arc::clone(place));
            tokio::spawn(async move { queues.leave_soon(runtime, &place).await });
        }
        answer.await.unwrap_or_else(|_| Err(Failure::gone()))
    }
}

impl Queues {
    /// A task does it, and not the first caller: that one may be left alone by whoever polls it, and the others with it.
    async fn leave_soon(self: Arc<Self>, runtime: Id, place: &Arc<Place>) {
        loop {
            tokio::task::yield_now().await;
            let calls = self.gathered.take(runtime, place);
            if calls.is_empty() {
                return;
            }
            let queues = Arc::clone(&self);
            let place = Arc::clone(place);
            tokio::spawn(async move { queues.leave_now(&place, calls).await });
        }
    }

    async fn leave_now(&self, place: &Place, calls: Vec<(Vec<Parcel>, Tell)>) {
        let (parcels, tell): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        let counts: Vec<_> = parcels.iter().map(Vec::len).collect();
        let parcels: Vec<_> = parcels.into_iter().flatten().collect();
        let sent = self.send(place, &parcels).await;
        let mut answers = sent.map(Vec::into_iter);
        for (count, tell) in counts.into_iter().zip(tell) {
            let part = match &mut answers {
                Ok(answers) => Ok(answers.by_ref().take(count).collect()),
                Err(failure) => Err(failure.clone()),
            };
            // Who went away meanwhile hears nothing.
            let _ = tell.send(part);
        }
    }

    async fn send(&self, place: &Place, parcels: &[Parcel]) -> Result<Vec<Added>, Failure> {
        let op = Op::again(&script::ADD).kept();
        let said = self.call(place, op, |groups| Some((groups.all()?, args(parcels)))).await?;
        let mut said = said.ok_or_else(|| self.nonsense())?;
        let answers = said.list().filter(|answers| answers.len() == parcels.len());
        let answers: Option<Vec<_>> = answers.and_then(|answers| answers.into_iter().map(read).collect());
        let answers = answers.ok_or_else(|| self.nonsense())?;
        if said.number() == Some(1) {
            // It was not there, or was forgotten with the server's memory.
            self.noted(place).await?;
            if !place.groups().is_there() {
                place.set_groups(UNNAMED.to_owned());
            }
        }
        Ok(answers)
    }
}

fn args(parcels: &[Parcel]) -> Args {
    // Those of one producer mostly come one after the other: one look at their bits is enough.
    let mut runs: Vec<(&str, u64, u64)> = Vec::new();
    for Parcel { producer: (key, bit), .. } in parcels {
        match runs.last_mut() {
            Some((last, first, length)) if *last == key && *first + *length == *bit && *length < RUN => {
                *length += 1;
            }
            _ => runs.push((key, *bit, 1)),
        }
    }
    let bytes: usize = parcels.iter().map(Parcel::size).sum();
    let args = Args::with_capacity(8 + 5 * parcels.len(), bytes);
    let mut args = args.arg(UNNAMED).arg(parcels.len()).arg(runs.len());
    for (_, first, length) in &runs {
        args.push(first);
        args.push(length);
    }
    for parcel in parcels {
        args.push(parcel.uid.as_bytes());
    }
    for parcel in parcels {
        args.push(&parcel.field);
    }
    for parcel in parcels {
        args.push(&parcel.body);
    }
    // Mostly it is that of all.
    let alike = parcels.iter().all(|parcel| parcels.first().is_some_and(|first| first.rest == parcel.rest));
    for parcel in parcels.iter().take(if alike { 1 } else { parcels.len() }) {
        args.push(&parcel.rest);
    }
    args.more_keys = runs.into_iter().map(|(key, ..)| key.to_owned()).collect();
    args
}

fn read(answer: Value) -> Option<Added> {
    if let Value::Int(due) = answer {
        return Some(Added::New { due: Timestamp::from_millis(due) });
    }
    let mut parts = call::list(answer)?.into_iter();
    let word = call::bytes(parts.next()?)?;
    let first = parts.next()?;
    let second = parts.next()?;
    Some(match word.as_slice() {
        b"p" => Added::Replaced {
            uid: form::uid(&call::bytes(first)?)?,
            due: Timestamp::from_millis(call::number(&second)?),
        },
        b"d" => Added::Duplicate {
            uid: form::uid(&call::bytes(first)?)?,
            state: form::state(call::number(&second)?)?,
            result: match parts.next() {
                Some(Value::BulkString(bytes)) => Some(form::receipt(bytes)?),
                _ => None,
            },
        },
        b"r" => Added::Reused {
            uid: form::uid(&call::bytes(first)?)?,
            fingerprint: form::fingerprint(&call::bytes(second)?)?,
        },
        b"f" => Added::Full {
            depth: u64::try_from(call::number(&first)?).ok()?,
            oldest: Duration::from_millis(u64::try_from(call::number(&second)?).ok()?),
        },
        _ => return None,
    })
}
