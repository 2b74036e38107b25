//! A window that starts with its first request.

use super::{super::Quota, Count, State};

/// The count of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedWindow {
    /// When the window started.
    pub start: u64,
    /// What was taken in it.
    pub count: u64,
}

pub(super) struct At<'q> {
    state: Option<FixedWindow>,
    was_set: bool,
    quota: &'q Quota,
    now: u64,
}

impl<'q> At<'q> {
    pub(super) fn new(kept: Option<(FixedWindow, &Quota)>, quota: &'q Quota, now: u64) -> Self {
        // A window is over under the quota that it was counted under, and under the one of now.
        let live = kept.filter(|(state, old)| now < state.start + old.window_ms().min(quota.window_ms()));
        let was_set = live.is_some_and(|(state, _)| state.start > now + quota.window_ms());
        let state =
            live.map(|(state, _)| FixedWindow { start: if was_set { now } else { state.start }, ..state });
        Self { state, was_set, quota, now }
    }
}

impl Count for At<'_> {
    fn wait(&self, cost: u64) -> u64 {
        let count = self.state.map_or(0, |state| state.count);
        if count + cost <= u64::from(self.quota.limit()) { 0 } else { self.reset() }
    }

    fn room(&self) -> u64 {
        let count = self.state.map_or(0, |state| state.count);
        u64::from(self.quota.limit()).saturating_sub(count)
    }

    fn reset(&self) -> u64 {
        self.state.map_or(0, |state| state.start + self.quota.window_ms() - self.now)
    }

    fn take(&mut self, cost: u32) -> State {
        let state = self.state.get_or_insert(FixedWindow { start: self.now, count: 0 });
        state.count += u64::from(cost);
        State::FixedWindow(*state)
    }

    fn mended(&self) -> Option<State> {
        self.state.filter(|_| self.was_set).map(State::FixedWindow)
    }
}
