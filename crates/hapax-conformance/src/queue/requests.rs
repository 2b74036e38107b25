//! The requests that cases send, with defaults for what a case is not about.

use crate::requests::{print, span};
use hapax_core::{
    Key,
    queue::{
        Beat, Consumer, DeadReason, Due, End, Finish, GiveBack, Group, JobRef, JobState, ListJobs, NewJob,
        OnConflict, Priority, QueueId, QueueName, Redrive, Step, Taken, Uid,
    },
};
use std::time::Duration;

/// Of every hand-out, unless a case says otherwise.
pub(crate) const LEASE: Duration = Duration::from_mins(1);
/// How long a job id is remembered, unless a case says otherwise.
pub(crate) const REMEMBER: Duration = Duration::from_hours(1);
/// After this many losses a job is dead.
pub(crate) const LOSSES: u32 = 3;

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
pub(crate) fn queue(name: &str) -> QueueId {
    let namespace = hapax_core::Namespace::new("suite").expect("a namespace");
    QueueId::new(&namespace, &QueueName::new(name).expect("a name"))
}

/// The queue of most cases.
pub(crate) fn jobs() -> QueueId {
    queue("jobs")
}

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
pub(crate) fn group(name: &str) -> Group {
    Group::new(name).expect("a group")
}

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
pub(crate) fn worker(name: &str) -> Consumer {
    Consumer::new(name).expect("a consumer")
}

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
pub(crate) fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

/// The id of the job with this text.
pub(crate) fn uid(text: &str) -> Uid {
    let mut bytes = [b'.'; 16];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    Uid::from_bytes(bytes)
}

/// A job whose payload and id are this text.
pub(crate) fn job(text: &str) -> NewJob {
    NewJob {
        uid: uid(text),
        job_id: None,
        fingerprint: print(text),
        payload: text.to_owned().into(),
        due: Due::Now,
        priority: Priority::Normal,
        settings: "settings".into(),
        remember: span(REMEMBER),
        on_conflict: OnConflict::Refuse,
    }
}

/// The same with a job id.
pub(crate) fn named(text: &str, id: &str) -> NewJob {
    NewJob { job_id: Some(key(id)), ..job(text) }
}

/// The same, later.
pub(crate) fn later(text: &str, after: Duration) -> NewJob {
    NewJob { due: Due::After(span(after)), ..job(text) }
}

pub(crate) fn step(who: &str, want: usize) -> Step {
    Step {
        queue: jobs(),
        group: Group::main(),
        consumer: worker(who),
        finishes: Vec::new(),
        want,
        lease: span(LEASE),
        max_losses: LOSSES,
    }
}

pub(crate) fn finish(job: &Taken, end: End) -> Finish {
    Finish { uid: job.uid, delivery: job.delivery, end, key: None }
}

pub(crate) fn done() -> End {
    End::Done { result: None }
}

pub(crate) fn retry(after: Duration) -> End {
    End::Retry { after: span(after), error: "it failed".into() }
}

pub(crate) fn snooze(after: Duration) -> End {
    End::Snooze { after: span(after) }
}

pub(crate) fn dead(reason: DeadReason) -> End {
    End::Dead { reason, error: "no more".into() }
}

pub(crate) fn beat(who: &str, held: &[&Taken]) -> Beat {
    Beat {
        queue: jobs(),
        group: Group::main(),
        consumer: worker(who),
        held: held.iter().map(|job| (job.uid, job.delivery)).collect(),
        lease: span(LEASE),
        since: None,
        progress: Vec::new(),
    }
}

pub(crate) fn give_back(who: &str, jobs_back: &[&Taken]) -> GiveBack {
    GiveBack {
        queue: jobs(),
        group: Group::main(),
        consumer: worker(who),
        jobs: jobs_back.iter().map(|job| (job.uid, job.delivery)).collect(),
        leave: false,
    }
}

pub(crate) fn list(state: JobState) -> ListJobs {
    ListJobs { queue: jobs(), group: None, state, after: None, limit: 100 }
}

pub(crate) fn redrive(texts: &[&str]) -> Redrive {
    let uids = texts.iter().map(|text| uid(text)).collect();
    Redrive { queue: jobs(), group: None, uids, force: false }
}

pub(crate) fn by_id(id: &str) -> JobRef {
    JobRef::JobId(key(id))
}

pub(crate) fn by_uid(text: &str) -> JobRef {
    JobRef::Uid(uid(text))
}
