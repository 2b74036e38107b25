//! Every request is remembered for one window.

use super::{super::Quota, Count, State};
use std::collections::VecDeque;

/// The requests of the last window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlidingWindow {
    /// When, and how much; by time. Requests of one millisecond are one entry.
    log: VecDeque<(u64, u64)>,
    /// What the entries weigh together.
    sum: u64,
}

impl SlidingWindow {
    /// From requests as a store kept them, in any order.
    pub fn new(mut entries: Vec<(u64, u64)>) -> Self {
        entries.sort_unstable();
        let sum = entries.iter().map(|(_, weight)| weight).sum();
        Self { log: entries.into(), sum }
    }

    /// The requests: when, and how much, by time.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.log.iter().copied()
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Counts a request; `old` is the quota of the one before.
    pub(super) fn take(&mut self, old: &Quota, quota: &Quota, cost: u32, now: u64) {
        let cost = u64::from(cost);
        if self.log.back().is_some_and(|(at, _)| at + old.window_ms() <= now) {
            *self = Self::default();
        }
        while self.log.front().is_some_and(|(at, _)| at + quota.window_ms() <= now) {
            self.sum -= self.log.pop_front().map_or(0, |(_, weight)| weight);
        }
        while self.log.back().is_some_and(|(at, _)| *at > now + quota.window_ms()) {
            self.sum -= self.log.pop_back().map_or(0, |(_, weight)| weight);
        }
        // A clock that went back a little leaves later entries behind.
        let place = self.log.partition_point(|(at, _)| *at <= now);
        match place.checked_sub(1).and_then(|last| self.log.get_mut(last)) {
            Some((at, weight)) if *at == now => *weight += cost,
            _ => self.log.insert(place, (now, cost)),
        }
        self.sum += cost;
    }
}

pub(super) struct At<'q> {
    /// What counts, by time.
    live: std::collections::vec_deque::Iter<'q, (u64, u64)>,
    sum: u64,
    quota: &'q Quota,
    now: u64,
}

impl<'q> At<'q> {
    pub(super) fn new(kept: Option<(&'q SlidingWindow, &Quota)>, quota: &'q Quota, now: u64) -> Self {
        static NONE: SlidingWindow = SlidingWindow { log: VecDeque::new(), sum: 0 };
        let last_counts = |(state, old): &(&SlidingWindow, &Quota)| {
            state.log.back().is_some_and(|(at, _)| at + old.window_ms() > now)
        };
        let state = kept.filter(last_counts).map_or(&NONE, |(state, _)| state);
        let (mut sum, mut from, mut to) = (state.sum, 0, state.log.len());
        for (at, weight) in &state.log {
            if at + quota.window_ms() > now {
                break;
            }
            (sum, from) = (sum - weight, from + 1);
        }
        for (at, weight) in state.log.iter().rev() {
            if *at <= now + quota.window_ms() {
                break;
            }
            (sum, to) = (sum - weight, to - 1);
        }
        Self { live: state.log.range(from..to.max(from)), sum, quota, now }
    }
}

impl Count for At<'_> {
    fn wait(&self, cost: u64) -> u64 {
        let limit = u64::from(self.quota.limit());
        let (mut sum, mut wait) = (self.sum, 0);
        for (at, weight) in self.live.clone() {
            if sum + cost <= limit {
                break;
            }
            sum -= weight;
            wait = at + self.quota.window_ms() - self.now;
        }
        wait
    }

    fn room(&self) -> u64 {
        u64::from(self.quota.limit()).saturating_sub(self.sum)
    }

    fn reset(&self) -> u64 {
        self.live.clone().next_back().map_or(0, |(at, _)| at + self.quota.window_ms() - self.now)
    }

    fn take(&mut self, cost: u32) -> State {
        let mut state = SlidingWindow::new(self.live.clone().copied().collect());
        state.take(self.quota, self.quota, cost, self.now);
        State::SlidingWindow(state)
    }

    fn mended(&self) -> Option<State> {
        None
    }
}
