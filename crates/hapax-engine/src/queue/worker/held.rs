//! The jobs that a worker has, from hand-out to the store's word that they ended.

use crate::queue::raw::{Control, Halt};
use hapax_core::{
    BootTime,
    queue::{Taken, Uid},
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Default)]
pub(super) struct Held {
    jobs: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    jobs: HashMap<Uid, Job>,
    /// Whether an answer got lost that may have handed out jobs.
    in_doubt: bool,
}

#[derive(Debug)]
struct Job {
    delivery: u64,
    /// Knows until when it is ours, counted from before the last request that was granted.
    control: Control,
}

impl Held {
    fn state(&self) -> MutexGuard<'_, State> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, and what tells its handler whether to go on.
    pub(super) fn insert(&self, taken: &Taken, deadline: BootTime) -> Control {
        let control = Control::default();
        control.renew(deadline);
        let job = Job { delivery: taken.delivery, control: control.clone() };
        self.state().jobs.insert(taken.uid, job);
        control
    }

    /// The store has it.
    pub(super) fn remove(&self, uid: &Uid, delivery: u64) {
        let mut state = self.state();
        if state.jobs.get(uid).is_some_and(|job| job.delivery == delivery) {
            state.jobs.remove(uid);
        }
    }

    pub(super) fn list(&self) -> Vec<(Uid, u64)> {
        self.state().jobs.iter().map(|(uid, job)| (*uid, job.delivery)).collect()
    }

    /// Those that a beat listed are ours for longer.
    pub(super) fn renew(&self, listed: &[(Uid, u64)], deadline: BootTime) {
        let state = self.state();
        for (uid, delivery) in listed {
            if let Some(job) = state.jobs.get(uid).filter(|job| job.delivery == *delivery) {
                job.control.renew(deadline);
            }
        }
    }

    /// Tells the handler of a job; a lost one is no longer ours.
    pub(super) fn halt(&self, uid: &Uid, why: Halt) {
        let mut state = self.state();
        if let Some(job) = state.jobs.get(uid) {
            job.control.stop(why);
        }
        if why == Halt::Lost {
            state.jobs.remove(uid);
        }
    }

    pub(super) fn halt_all(&self, why: Halt) {
        self.state().jobs.values().for_each(|job| job.control.stop(why));
    }

    /// Jobs whose deadline is not after `now`: another worker may take them.
    pub(super) fn overdue(&self, now: BootTime) -> Vec<Uid> {
        let over = |job: &Job| *job.control.deadline().borrow() <= now;
        self.state().jobs.iter().filter(|(_, job)| over(job)).map(|(uid, _)| *uid).collect()
    }

    pub(super) fn doubt(&self, in_doubt: bool) {
        self.state().in_doubt = in_doubt;
    }

    /// Whether a beat has anything to say.
    pub(super) fn needs_beat(&self) -> bool {
        let state = self.state();
        state.in_doubt || !state.jobs.is_empty()
    }
}
