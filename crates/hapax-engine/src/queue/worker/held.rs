//! The jobs that a worker has, from hand-out to the store's word that they ended.

use crate::queue::raw::{Control, Halt};
use hapax_core::{
    BootTime,
    queue::{Progress, Taken, Uid},
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// One may be on its way when the answer gets lost, the next learns the store's time, and the one after that frees what was
/// handed out before.
const BEATS: u8 = 3;

#[derive(Debug, Default)]
pub(super) struct Held {
    jobs: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    jobs: HashMap<Uid, Job>,
    /// So many beats have to be answered until what came in a lost answer has been given back.
    doubtful: u8,
}

#[derive(Debug)]
struct Job {
    delivery: u64,
    /// Knows until when it is ours, counted from before the last request that was granted.
    control: Control,
    /// Its handler is through: the answer to its end tells whose it was.
    is_over: bool,
}

impl Held {
    fn state(&self) -> MutexGuard<'_, State> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, and what tells its handler whether to go on.
    pub(super) fn insert(&self, taken: &Taken, deadline: BootTime) -> Control {
        let control = Control::default();
        control.renew(deadline);
        let job = Job { delivery: taken.delivery, control: control.clone(), is_over: false };
        self.state().jobs.insert(taken.uid, job);
        control
    }

    /// Its handler is through.
    pub(super) fn over(&self, uid: &Uid, delivery: u64) {
        if let Some(job) = self.state().jobs.get_mut(uid).filter(|job| job.delivery == delivery) {
            job.is_over = true;
        }
    }

    /// Whether the handler of this hand-out runs.
    pub(super) fn runs(&self, uid: &Uid, delivery: u64) -> bool {
        self.state().jobs.get(uid).is_some_and(|job| job.delivery == delivery && !job.is_over)
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

    /// What handlers have said since it was asked last, of jobs that run.
    pub(super) fn said(&self) -> Vec<(Uid, Progress)> {
        let state = self.state();
        let said = state.jobs.iter().filter_map(|(uid, job)| Some((*uid, job.control.take_progress()?)));
        said.collect()
    }

    /// It did not arrive, and goes along with the next beat.
    pub(super) fn unsaid(&self, said: &[(Uid, Progress)]) {
        let state = self.state();
        said.iter().filter_map(|(uid, _)| state.jobs.get(uid)).for_each(|job| job.control.keep_progress());
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

    /// Tells the handler of a hand-out; a lost one is no longer ours. A later hand-out of the job goes on.
    pub(super) fn halt(&self, uid: &Uid, delivery: u64, why: Halt) {
        let mut state = self.state();
        let Some(job) = state.jobs.get(uid).filter(|job| job.delivery == delivery) else { return };
        job.control.stop(why);
        if why == Halt::Lost {
            state.jobs.remove(uid);
        }
    }

    pub(super) fn halt_all(&self, why: Halt) {
        self.state().jobs.values().for_each(|job| job.control.stop(why));
    }

    /// Jobs whose deadline is not after `now`: another worker may take them.
    pub(super) fn overdue(&self, now: BootTime) -> Vec<(Uid, u64)> {
        let over = |job: &Job| *job.control.deadline().borrow() <= now;
        self.state().jobs.iter().filter(|(_, job)| over(job)).map(|(uid, job)| (*uid, job.delivery)).collect()
    }

    /// An answer got lost that may have handed out jobs.
    pub(super) fn doubt(&self) {
        self.state().doubtful = BEATS;
    }

    /// A beat was answered.
    pub(super) fn beaten(&self) {
        let mut state = self.state();
        state.doubtful = state.doubtful.saturating_sub(1);
    }

    /// Whether a beat has anything to say.
    pub(super) fn needs_beat(&self) -> bool {
        let state = self.state();
        state.doubtful > 0 || !state.jobs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{Timestamp, queue::Counts};

    fn handed_out(delivery: u64) -> Taken {
        Taken {
            uid: Uid::from_bytes([7; 16]),
            job_id: None,
            delivery,
            fence: delivery,
            counts: Counts::default(),
            snoozed_since: None,
            payload: "{}".into(),
            settings: "{}".into(),
            added_at: Timestamp::default(),
        }
    }

    #[test]
    fn an_answer_about_an_older_hand_out_leaves_a_later_one_alone() {
        let (held, first, again) = (Held::default(), handed_out(1), handed_out(2));
        let ended = held.insert(&first, BootTime::from_millis(1));
        held.remove(&first.uid, 1);
        // The same worker has it again, before a beat that listed the first hand-out is answered.
        let running = held.insert(&again, BootTime::from_millis(1));
        for why in [Halt::Cancelled, Halt::Lost] {
            held.halt(&first.uid, 1, why);
        }
        assert_eq!((ended.halt(), running.halt(), held.list()), (None, None, vec![(again.uid, 2)]));
        held.halt(&again.uid, 2, Halt::Lost);
        assert_eq!((running.halt(), held.list()), (Some(Halt::Lost), vec![]));
    }
}
