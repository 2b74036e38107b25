//! Tokens that come in evenly.

use super::{super::Quota, Count, State};

/// What is in the bucket. A token is as many credits as the window has milliseconds, so that each millisecond brings
/// as many credits as the limit has tokens: there are no fractions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenBucket {
    /// When the credits were counted.
    pub at: u64,
    /// How many there were.
    pub credits: u64,
}

fn capacity(quota: &Quota) -> u64 {
    u64::from(quota.limit()) * quota.window_ms()
}

impl TokenBucket {
    /// With what has come in since.
    fn refilled(self, quota: &Quota, now: u64) -> Self {
        // A whole window fills it: what is multiplied stays small.
        let elapsed = now.saturating_sub(self.at).min(quota.window_ms());
        let credits = (self.credits + elapsed * u64::from(quota.limit())).min(capacity(quota));
        Self { at: self.at.max(now), credits }
    }
}

pub(super) struct At<'q> {
    state: TokenBucket,
    was_set: bool,
    quota: &'q Quota,
    now: u64,
}

impl<'q> At<'q> {
    pub(super) fn new(kept: Option<(TokenBucket, &Quota)>, quota: &'q Quota, now: u64) -> Self {
        let full = TokenBucket { at: now, credits: capacity(quota) };
        let Some((state, old)) = kept else { return Self { state: full, was_set: false, quota, now } };
        let refilled = state.refilled(old, now);
        if refilled.credits >= capacity(old) {
            return Self { state: full, was_set: false, quota, now };
        }
        let credits = if old.window_ms() == quota.window_ms() {
            refilled.credits.min(capacity(quota))
        } else {
            (refilled.credits / old.window_ms()).min(u64::from(quota.limit())) * quota.window_ms()
        };
        let was_set = refilled.at > now + quota.window_ms();
        let state = TokenBucket { at: if was_set { now } else { refilled.at }, credits };
        Self { state, was_set, quota, now }
    }

    fn until(&self, credits: u64) -> u64 {
        match credits.saturating_sub(self.state.credits) {
            0 => 0,
            // Nothing comes in before the clock is where it was.
            missing => self.state.at - self.now + missing.div_ceil(u64::from(self.quota.limit())),
        }
    }
}

impl Count for At<'_> {
    fn wait(&self, cost: u64) -> u64 {
        self.until(cost * self.quota.window_ms())
    }

    fn room(&self) -> u64 {
        self.state.credits / self.quota.window_ms()
    }

    fn reset(&self) -> u64 {
        self.until(capacity(self.quota))
    }

    fn take(&mut self, cost: u32) -> State {
        self.state.credits -= u64::from(cost) * self.quota.window_ms();
        State::TokenBucket(self.state)
    }

    fn mended(&self) -> Option<State> {
        self.was_set.then_some(State::TokenBucket(self.state))
    }
}
