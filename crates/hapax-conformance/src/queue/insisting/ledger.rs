//! Who has which job, as all clients of one store were told.

use hapax_core::queue::{Consumer, Group, QueueId, Taken, Uid};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What the clients of one store know together: the jobs that were handed out through any of them.
#[derive(Clone, Debug, Default)]
pub struct HandedOut(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    /// The last hand-out of each job.
    last: HashMap<At, (Consumer, u64)>,
    /// How often a job was given back only because an answer got lost.
    given_back: HashMap<At, u32>,
}

/// A job of a group.
pub(super) type At = (QueueId, Group, Uid);

impl HandedOut {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, queue: &QueueId, group: &Group, consumer: &Consumer, jobs: &mut [Taken]) {
        let mut notes = self.notes();
        for job in jobs {
            let at = (queue.clone(), group.clone(), job.uid);
            let ours = notes.given_back.get(&at).copied().unwrap_or_default();
            job.counts.given_back = job.counts.given_back.saturating_sub(ours);
            notes.last.insert(at, (consumer.clone(), job.delivery));
        }
    }

    pub(super) fn is_last(&self, at: &At, consumer: &Consumer, delivery: u64) -> bool {
        self.notes().last.get(at).is_some_and(|(who, number)| who == consumer && *number == delivery)
    }

    pub(super) fn over(&self, at: &At) {
        self.notes().last.remove(at);
    }

    /// What a consumer has, as far as was told.
    pub(super) fn held(&self, queue: &QueueId, group: &Group, consumer: &Consumer) -> Vec<(Uid, u64)> {
        let notes = self.notes();
        let theirs =
            notes.last.iter().filter(|((q, g, _), (who, _))| q == queue && g == group && who == consumer);
        theirs.map(|((_, _, uid), (_, delivery))| (*uid, *delivery)).collect()
    }

    pub(super) fn gave_back(&self, at: At) {
        *self.notes().given_back.entry(at).or_default() += 1;
    }

    /// The counters of a job that is redriven begin anew.
    pub(super) fn begins_anew(&self, queue: &QueueId, uid: &Uid) {
        self.notes().given_back.retain(|(q, _, job), _| q != queue || job != uid);
    }
}
