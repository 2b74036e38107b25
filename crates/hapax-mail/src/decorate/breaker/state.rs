//! Closed, open, half open.

use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The cool-down grows to so many times the first.
const GROWTH: u32 = 16;
/// What is told to whoever comes while a probe is on its way.
const SOON: Duration = Duration::from_secs(1);

/// What a receipt says about a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Well,
    /// It may say for how long.
    Failing {
        wait: Duration,
        at_once: bool,
    },
    /// A limit of the provider, which is no failure unless it is to be one.
    Limited {
        wait: Duration,
    },
    Nothing,
}

/// When a send was let through. What comes back from an earlier time decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    age: u64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { until: Instant },
    HalfOpen { probes: u32 },
}

#[derive(Debug)]
pub(super) struct State {
    phase: Phase,
    /// Counts the changes of phase.
    age: u64,
    most: u32,
    in_a_row: u32,
    rate: Option<(f64, usize)>,
    recent: VecDeque<bool>,
    probes: u32,
    limits_count: bool,
    first_cool_down: Duration,
    cool_down: Duration,
}

impl State {
    pub(super) fn new(most: u32, cool_down: Duration) -> Self {
        Self {
            phase: Phase::Closed,
            age: 0,
            most,
            in_a_row: 0,
            rate: None,
            recent: VecDeque::new(),
            probes: 1,
            limits_count: false,
            first_cool_down: cool_down,
            cool_down,
        }
    }

    pub(super) fn set_rate(&mut self, share: f64, calls: usize) {
        self.rate = Some((share, calls));
    }

    pub(super) fn set_probes(&mut self, probes: u32) {
        self.probes = probes;
    }

    pub(super) fn count_rate_limits(&mut self) {
        self.limits_count = true;
    }

    /// Lets a send through, or says how long it stays closed to it.
    pub(super) fn admit(&mut self, insists: bool) -> Result<Admitted, Duration> {
        match self.phase {
            Phase::Closed => {}
            Phase::Open { until } => {
                let rest = until.saturating_duration_since(Instant::now());
                if !rest.is_zero() && !insists {
                    return Err(rest);
                }
                self.turn(Phase::HalfOpen { probes: 1 });
            }
            Phase::HalfOpen { probes } if probes < self.probes => {
                self.phase = Phase::HalfOpen { probes: probes + 1 };
            }
            Phase::HalfOpen { .. } => return Err(self.first_cool_down.min(SOON)),
        }
        Ok(Admitted { age: self.age })
    }

    /// A send ended without a receipt.
    pub(super) fn left(&mut self, admitted: Admitted) {
        if admitted.age == self.age
            && let Phase::HalfOpen { probes } = self.phase
        {
            self.phase = Phase::HalfOpen { probes: probes.saturating_sub(1) };
        }
    }

    /// Whether it has opened, or closed.
    pub(super) fn settle(&mut self, admitted: Admitted, sight: Sight) -> Option<bool> {
        if admitted.age != self.age {
            return None;
        }
        let (wait, at_once) = match sight {
            Sight::Failing { wait, at_once } => (wait, at_once),
            Sight::Limited { wait } if self.limits_count => (wait, false),
            Sight::Limited { .. } | Sight::Nothing => {
                self.left(admitted);
                return None;
            }
            Sight::Well => return self.well(),
        };
        match self.phase {
            Phase::HalfOpen { .. } => {
                self.cool_down =
                    self.cool_down.saturating_mul(2).min(self.first_cool_down.saturating_mul(GROWTH));
            }
            Phase::Closed => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.remember(false);
                if !at_once && self.in_a_row < self.most && !self.too_many() {
                    return None;
                }
            }
            Phase::Open { .. } => return None,
        }
        let pause = self.cool_down.max(wait);
        match Instant::now().checked_add(pause) {
            Some(until) => self.turn(Phase::Open { until }),
            None => return None,
        }
        Some(true)
    }

    fn well(&mut self) -> Option<bool> {
        match self.phase {
            Phase::Closed => {
                self.in_a_row = 0;
                self.remember(true);
                None
            }
            Phase::HalfOpen { .. } => {
                self.cool_down = self.first_cool_down;
                self.turn(Phase::Closed);
                Some(false)
            }
            Phase::Open { .. } => None,
        }
    }

    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        self.age += 1;
        self.in_a_row = 0;
        self.recent.clear();
    }

    fn remember(&mut self, well: bool) {
        let Some((_, calls)) = self.rate else { return };
        self.recent.push_back(well);
        while self.recent.len() > calls {
            self.recent.pop_front();
        }
    }

    /// Whether the share of failures in a full window is too large.
    #[expect(clippy::cast_precision_loss, reason = "counts of calls are small")]
    fn too_many(&self) -> bool {
        let Some((share, calls)) = self.rate else { return false };
        let failed = self.recent.iter().filter(|well| !**well).count();
        self.recent.len() >= calls && failed as f64 >= share * calls as f64
    }
}
