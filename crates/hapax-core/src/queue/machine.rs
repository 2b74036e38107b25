//! The rules of a job, as pure functions. Stores that run no code of ours write them down once more, and the
//! conformance suite holds them to it.

use super::{Counts, DeadReason, End, MAX_ERROR};
use crate::{Span, Timestamp};
use std::time::Duration;

/// What the rules need to know of a job in one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// What happened so far.
    pub counts: Counts,
    /// Since when it is being put off, if it is.
    pub snoozed_since: Option<Timestamp>,
    /// Whether somebody cancelled it while it ran.
    pub cancelled: bool,
}

/// Where a job goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is done.
    Done,
    /// It was cancelled.
    Cancelled,
    /// It may start again, before those that became ready after it first was.
    Ready,
    /// It may start again at this instant.
    Due(Timestamp),
    /// To the dead letters.
    Dead(DeadReason, String),
}

/// Its worker says how it ended.
pub fn finish(facts: &mut Facts, end: &End, now: Timestamp) -> Fate {
    match end {
        End::Done { .. } => Fate::Done,
        _ if facts.cancelled => Fate::Cancelled,
        End::Retry { after, error: _ } => {
            facts.counts.attempts = facts.counts.attempts.saturating_add(1);
            awake(facts);
            Fate::Due(now.after(after.get()))
        }
        End::Snooze { after } => {
            facts.counts.snoozes = facts.counts.snoozes.saturating_add(1);
            facts.snoozed_since.get_or_insert(now);
            Fate::Due(now.after(after.get()))
        }
        End::Dead { reason, error } => {
            if is_attempt(*reason) {
                facts.counts.attempts = facts.counts.attempts.saturating_add(1);
            }
            Fate::Dead(*reason, cut(error).to_owned())
        }
    }
}

/// Whether a job that is dead for this reason was tried by its handler. One that no handler ever saw, or that was only
/// put off, was not.
pub fn is_attempt(reason: DeadReason) -> bool {
    !matches!(
        reason,
        DeadReason::Undecodable | DeadReason::Invalid | DeadReason::SnoozedOut | DeadReason::Lost
    )
}

/// Its lease is over: the worker that had it is lost.
pub fn lose(facts: &mut Facts, max_losses: u32) -> Fate {
    if facts.cancelled {
        return Fate::Cancelled;
    }
    facts.counts.losses = facts.counts.losses.saturating_add(1);
    if facts.counts.losses > max_losses {
        Fate::Dead(DeadReason::Lost, format!("its worker was lost {} times", facts.counts.losses))
    } else {
        Fate::Ready
    }
}

/// Its worker gives it back.
pub fn give_back(facts: &mut Facts) -> Fate {
    if facts.cancelled {
        return Fate::Cancelled;
    }
    facts.counts.given_back = facts.counts.given_back.saturating_add(1);
    Fate::Ready
}

/// It is taken from the dead letters.
pub fn redrive(facts: &mut Facts) {
    let redriven = facts.counts.redriven.saturating_add(1);
    *facts = Facts { counts: Counts { redriven, ..Counts::default() }, ..Facts::default() };
}

fn awake(facts: &mut Facts) {
    facts.counts.snoozes = 0;
    facts.snoozed_since = None;
}

/// The fence of a step after one of `last`. It is above the time in microseconds, so that it grows even where the
/// store has forgotten the last one.
pub fn fence(last: u64, now: Timestamp) -> u64 {
    last.saturating_add(1).max(micros(now))
}

/// A time as a number that grows with it.
pub(super) fn micros(now: Timestamp) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or_default().saturating_mul(1000)
}

/// How many of `want` new jobs may be such that another worker lost: new ones keep half of the places.
pub fn take_overs(want: usize) -> usize {
    want.div_ceil(2).min(16)
}

/// As much of an error text as is kept.
pub fn cut(error: &str) -> &str {
    let mut end = error.len().min(MAX_ERROR);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error.get(..end).unwrap_or_default()
}

/// The bucket of a rate: whole numbers, so that nothing is lost to rounding. One job is worth the window in
/// milliseconds; each millisecond brings as much as jobs are allowed a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    /// What has been taken and has not flowed back, in such parts.
    pub used: u64,
    /// When that was so.
    pub at: Timestamp,
}

impl Bucket {
    /// How many of `want` jobs may start now.
    pub fn admits(&mut self, (count, window): (u32, Span), now: Timestamp, want: usize) -> usize {
        let (count, window) = (u64::from(count), window.as_millis());
        let passed = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        self.used = self.used.saturating_sub(passed.saturating_mul(count));
        self.at = now.max(self.at);
        let room = count.saturating_mul(window).saturating_sub(self.used) / window;
        usize::try_from(room).unwrap_or(usize::MAX).min(want)
    }

    /// So many of them start.
    pub fn take(&mut self, (_, window): (u32, Span), started: usize) {
        let parts = window.as_millis().saturating_mul(u64::try_from(started).unwrap_or(u64::MAX));
        self.used = self.used.saturating_add(parts);
    }

    /// In how long one more may start, when none may now.
    pub fn next(&self, (count, window): (u32, Span)) -> Duration {
        let (count, window) = (u64::from(count.max(1)), window.as_millis());
        let over = self.used.saturating_add(window).saturating_sub(count.saturating_mul(window));
        Duration::from_millis(over.div_ceil(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn span(ms: u64) -> Span {
        Span::new(Duration::from_millis(ms)).unwrap()
    }

    #[test]
    fn only_failures_are_attempts() {
        let mut facts = Facts::default();
        let later = End::Snooze { after: span(5) };
        assert_eq!(finish(&mut facts, &later, at(10)), Fate::Due(at(15)));
        assert_eq!(finish(&mut facts, &later, at(20)), Fate::Due(at(25)));
        assert_eq!((facts.counts.attempts, facts.counts.snoozes, facts.snoozed_since), (0, 2, Some(at(10))));
        let failed = End::Retry { after: span(5), error: "no".into() };
        assert_eq!(finish(&mut facts, &failed, at(30)), Fate::Due(at(35)));
        assert_eq!((facts.counts.attempts, facts.counts.snoozes, facts.snoozed_since), (1, 0, None));
    }

    #[test]
    fn cancelled_jobs_end_unless_they_are_done() {
        let cancelled = || Facts { cancelled: true, ..Facts::default() };
        let ends = [
            End::Retry { after: span(5), error: String::new() },
            End::Snooze { after: span(5) },
            End::Dead { reason: DeadReason::Exhausted, error: String::new() },
        ];
        for end in ends {
            assert_eq!(finish(&mut cancelled(), &end, at(0)), Fate::Cancelled);
        }
        assert_eq!(finish(&mut cancelled(), &End::Done { result: None }, at(0)), Fate::Done);
        assert_eq!(lose(&mut cancelled(), 3), Fate::Cancelled);
        assert_eq!(give_back(&mut cancelled()), Fate::Cancelled);
    }

    #[test]
    fn losses_have_a_limit_of_their_own() {
        let mut facts = Facts::default();
        for _ in 0..3 {
            assert_eq!(lose(&mut facts, 3), Fate::Ready);
        }
        assert!(matches!(lose(&mut facts, 3), Fate::Dead(DeadReason::Lost, _)));
        assert_eq!(facts.counts.attempts, 0);
        redrive(&mut facts);
        assert_eq!(facts.counts, Counts { redriven: 1, ..Counts::default() });
    }

    #[test]
    fn fences_grow_whatever_is_forgotten() {
        assert_eq!(fence(7, at(0)), 8);
        assert_eq!(fence(0, at(3)), 3000);
        assert_eq!(fence(u64::MAX, at(3)), u64::MAX);
    }

    #[test]
    fn errors_are_cut_between_characters() {
        let long = "ü".repeat(MAX_ERROR);
        assert_eq!(cut(&long).len(), MAX_ERROR);
        assert_eq!(cut(&format!("x{long}")).len(), MAX_ERROR - 1);
    }

    proptest! {
        /// Over any time, no more start than the rate allows, and what was refused may start when the bucket says so.
        #[test]
        fn buckets_keep_their_rate(count in 1_u32..20, window in 1_u64..5000, steps in prop::collection::vec((0_i64..3000, 0_usize..30), 1..60)) {
            let rate = (count, span(window));
            let (mut bucket, mut now, mut log) = (Bucket::default(), 1_000_000, Vec::new());
            for (passed, want) in steps {
                now += passed;
                let admitted = bucket.admits(rate, at(now), want);
                bucket.take(rate, admitted);
                log.push((now, u64::try_from(admitted).unwrap()));
                if admitted < want {
                    let wait = i64::try_from(bucket.next(rate).as_millis()).unwrap();
                    prop_assert!(wait > 0);
                    let mut later = bucket;
                    prop_assert_eq!(later.admits(rate, at(now + wait), 1), 1);
                    let mut before = bucket;
                    prop_assert_eq!(before.admits(rate, at(now + wait - 1), 1), 0);
                }
                for (since, _) in &log {
                    let started: u64 = log.iter().filter(|(t, _)| t >= since).map(|(_, n)| n).sum();
                    let passed = u64::try_from(now - since).unwrap();
                    prop_assert!(started * window <= u64::from(count) * window + passed * u64::from(count));
                }
            }
        }
    }
}
