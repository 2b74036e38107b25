//! The counts of this window and of the one before, which weighs less the older it gets.

use super::{super::Quota, Count, State};

/// Two counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlidingCounter {
    /// When the current window started: with the first request, or where the one before ended. Windows are not those of
    /// the calendar, so that many clients do not start anew at the same moment.
    pub start: u64,
    /// What was taken in the window before.
    pub previous: u64,
    /// What was taken in this one.
    pub current: u64,
}

impl SlidingCounter {
    /// Nothing taken.
    fn fresh(now: u64) -> Self {
        Self { start: now, previous: 0, current: 0 }
    }

    /// In the window of `now`.
    fn rolled(self, quota: &Quota, now: u64) -> Self {
        match now.saturating_sub(self.start) / quota.window_ms() {
            0 => self,
            1 => Self { start: self.start + quota.window_ms(), previous: self.current, current: 0 },
            _ => Self::fresh(now),
        }
    }

    /// What it counts as. A part is a whole one: rounded down, one more would pass.
    fn estimate(&self, quota: &Quota, now: u64) -> u64 {
        let left = quota.window_ms() - now.saturating_sub(self.start);
        let weighted = u128::from(self.previous) * u128::from(left);
        let rounded = weighted.div_ceil(u128::from(quota.window_ms()));
        u64::try_from(rounded).unwrap_or(u64::MAX).saturating_add(self.current)
    }
}

pub(super) struct At<'q> {
    state: SlidingCounter,
    was_set: bool,
    quota: &'q Quota,
    now: u64,
}

impl<'q> At<'q> {
    pub(super) fn new(kept: Option<(SlidingCounter, &Quota)>, quota: &'q Quota, now: u64) -> Self {
        let fresh = SlidingCounter::fresh(now);
        let Some((state, old)) = kept else { return Self { state: fresh, was_set: false, quota, now } };
        let state = state.rolled(old, now);
        let state = if old.window_ms() == quota.window_ms() {
            state
        } else {
            SlidingCounter { current: state.estimate(old, now), ..fresh }
        };
        let was_set = state.start > now + quota.window_ms();
        let state = if was_set { SlidingCounter { start: now, ..state } } else { state };
        Self { state, was_set, quota, now }
    }

    /// How long until a window in which `weight` is the count before has so little of it left that it fits into `room`.
    fn until_fits(&self, weight: u64, room: u64) -> u64 {
        let window = u128::from(self.quota.window_ms());
        // What may be left of the window.
        let left = (u128::from(room) * window).checked_div(u128::from(weight)).unwrap_or(window);
        self.quota.window_ms() - u64::try_from(left.min(window)).unwrap_or(self.quota.window_ms())
    }
}

impl Count for At<'_> {
    fn wait(&self, cost: u64) -> u64 {
        let limit = u64::from(self.quota.limit());
        if self.state.estimate(self.quota, self.now).saturating_add(cost) <= limit {
            return 0;
        }
        let fits_at = match limit.checked_sub(self.state.current.saturating_add(cost)) {
            Some(room) => self.until_fits(self.state.previous, room),
            None => self.quota.window_ms() + self.until_fits(self.state.current, limit - cost),
        };
        (self.state.start + fits_at).saturating_sub(self.now)
    }

    fn room(&self) -> u64 {
        u64::from(self.quota.limit()).saturating_sub(self.state.estimate(self.quota, self.now))
    }

    fn reset(&self) -> u64 {
        let windows = match self.state {
            SlidingCounter { current: 0, previous: 0, .. } => return 0,
            SlidingCounter { current: 0, .. } => 1,
            _ => 2,
        };
        self.state.start + windows * self.quota.window_ms() - self.now
    }

    fn take(&mut self, cost: u32) -> State {
        self.state.current = self.state.current.saturating_add(u64::from(cost));
        State::SlidingCounter(self.state)
    }

    fn mended(&self) -> Option<State> {
        self.was_set.then_some(State::SlidingCounter(self.state))
    }
}
