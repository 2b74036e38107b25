//! The rules of a decision, as pure functions over what a store keeps of each limit.
//!
//! Times are milliseconds of one clock, that of the store. Three rules hold for all algorithms:
//!
//! - **A refused request writes nothing**, with one exception, below.
//! - **A changed quota is seen.** What was counted under the old one counts on: a fixed window keeps its start, an exact
//!   one its requests; a counter whose window changes takes its estimate along as the count of the new window, and a
//!   bucket its whole tokens. A state that equals a fresh one under the old quota is none.
//! - **A clock that goes back costs one window at most.** A state of the future counts as of now, and time goes on for
//!   it once the clock is there again. Where that is more than one window away, the clock was set: the state is moved
//!   to now, also by a request that is refused; an exact window forgets such requests.

mod fixed_window;
mod sliding_counter;
mod sliding_window;
mod token_bucket;

pub use fixed_window::FixedWindow;
pub use sliding_counter::SlidingCounter;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

use super::{Algorithm, Answer, Check, Quota};

/// What lies under one key, algorithm and shadow.
pub type Slot = Option<Kept>;

/// What a store keeps of a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The quota of the last request that was allowed.
    pub quota: Quota,
    /// What was counted.
    pub state: State,
}

/// What was counted, by algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Of [`Algorithm::FixedWindow`].
    FixedWindow(FixedWindow),
    /// Of [`Algorithm::SlidingWindow`].
    SlidingWindow(SlidingWindow),
    /// Of [`Algorithm::SlidingCounter`].
    SlidingCounter(SlidingCounter),
    /// Of [`Algorithm::TokenBucket`].
    TokenBucket(TokenBucket),
}

/// Asked of a limit at one moment. `cost` is at most the limit.
trait Count {
    /// How long until `cost` fits.
    fn wait(&self, cost: u64) -> u64;
    /// How much fits.
    fn room(&self) -> u64;
    /// How long until it equals a fresh one.
    fn reset(&self) -> u64;
    /// Counts a request that fits.
    fn take(&mut self, cost: u32) -> State;
    /// The state moved to a clock that was set back, where it must be.
    fn mended(&self) -> Option<State>;
}

/// Looks at a slot at a moment. A state of another algorithm is none.
macro_rules! at {
    ($slot:expr, $quota:expr, $now:expr, $count:ident => $body:expr) => {{
        let (quota, now): (&Quota, u64) = ($quota, $now);
        match quota.algorithm() {
            Algorithm::FixedWindow => {
                let kept = $slot.and_then(|kept| match &kept.state {
                    State::FixedWindow(state) => Some((*state, &kept.quota)),
                    _ => None,
                });
                let $count = fixed_window::At::new(kept, quota, now);
                $body
            }
            Algorithm::SlidingWindow => {
                let kept = $slot.and_then(|kept| match &kept.state {
                    State::SlidingWindow(state) => Some((state, &kept.quota)),
                    _ => None,
                });
                let $count = sliding_window::At::new(kept, quota, now);
                $body
            }
            Algorithm::SlidingCounter => {
                let kept = $slot.and_then(|kept| match &kept.state {
                    State::SlidingCounter(state) => Some((*state, &kept.quota)),
                    _ => None,
                });
                let $count = sliding_counter::At::new(kept, quota, now);
                $body
            }
            Algorithm::TokenBucket => {
                let kept = $slot.and_then(|kept| match &kept.state {
                    State::TokenBucket(state) => Some((*state, &kept.quota)),
                    _ => None,
                });
                let $count = token_bucket::At::new(kept, quota, now);
                $body
            }
        }
    }};
}

/// What a limit says of a request before anything is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It fits.
    Allowed,
    /// It fits after so many milliseconds, if nothing else comes.
    Wait(u64),
    /// Its cost is above the limit.
    Never,
}

/// Whether the request fits at `now`.
pub fn verdict(slot: &Slot, check: &Check, now: u64) -> Verdict {
    if check.cost > check.quota.limit() {
        return Verdict::Never;
    }
    match at!(slot.as_ref(), &check.quota, now, count => count.wait(u64::from(check.cost))) {
        0 => Verdict::Allowed,
        ms => Verdict::Wait(ms),
    }
}

/// Counts a request that is [allowed](Verdict::Allowed).
pub fn take(slot: &mut Slot, check: &Check, now: u64) {
    // The requests of an exact window are many: they stay where they are.
    if let Some(Kept { state: State::SlidingWindow(state), quota }) = slot
        && check.quota.algorithm() == Algorithm::SlidingWindow
    {
        state.take(quota, &check.quota, check.cost, now);
        *quota = check.quota;
        return;
    }
    let state = at!(slot.as_ref(), &check.quota, now, count => {
        let mut count = count;
        count.take(check.cost)
    });
    *slot = Some(Kept { quota: check.quota, state });
}

/// Moves a state to a clock that was set back, where it must be; answers whether it did.
pub fn mend(slot: &mut Slot, check: &Check, now: u64) -> bool {
    match at!(slot.as_ref(), &check.quota, now, count => count.mended()) {
        Some(state) => {
            *slot = Some(Kept { quota: check.quota, state });
            true
        }
        None => false,
    }
}

/// What the limit says once the verdict is given, and carried out where it was.
pub fn answer(slot: &Slot, check: &Check, verdict: Verdict, now: u64) -> Answer {
    at!(slot.as_ref(), &check.quota, now, count => said(&count, check, verdict))
}

fn said(count: &impl Count, check: &Check, verdict: Verdict) -> Answer {
    let (limit, room) = (check.quota.limit(), count.room());
    Answer {
        allowed: verdict == Verdict::Allowed,
        limit,
        cost: check.cost,
        remaining: u32::try_from(room).unwrap_or(limit),
        retry_after_ms: match verdict {
            Verdict::Wait(ms) => ms,
            Verdict::Allowed | Verdict::Never => 0,
        },
        reset_after_ms: count.reset(),
        next_after_ms: if room < u64::from(limit) { count.wait(room + 1) } else { 0 },
        never: verdict == Verdict::Never,
    }
}

/// When the state equals a fresh one, and may go.
pub fn ends(kept: &Kept, now: u64) -> u64 {
    now.saturating_add(at!(Some(kept), &kept.quota, now, count => count.reset()))
}

/// Decides on one limit.
pub fn decide_one(slot: &mut Slot, check: &Check, dry_run: bool, now: u64) -> Answer {
    let quota = check.quota;
    if quota.algorithm() != Algorithm::SlidingWindow && check.cost <= quota.limit() {
        // The usual, in one look: it fits, and the state is a few numbers.
        let taken = at!(slot.as_ref(), &quota, now, count => {
            let mut count = count;
            (count.wait(u64::from(check.cost)) == 0)
                .then(|| (count.take(check.cost), said(&count, check, Verdict::Allowed)))
        });
        if let Some((state, answer)) = taken {
            if !dry_run {
                *slot = Some(Kept { quota, state });
            }
            return answer;
        }
    }
    let verdict = verdict(slot, check, now);
    if dry_run {
        if verdict != Verdict::Allowed {
            return answer(slot, check, verdict, now);
        }
        let mut copy = slot.clone();
        take(&mut copy, check, now);
        return answer(&copy, check, verdict, now);
    }
    match verdict {
        Verdict::Allowed => take(slot, check, now),
        Verdict::Wait(_) => {
            let _ = mend(slot, check, now);
        }
        Verdict::Never => {}
    }
    answer(slot, check, verdict, now)
}

/// Decides on several limits at once. All that are no shadows count the request, or none does. A shadow counts it when
/// the others let it pass and it would have passed itself.
pub fn decide(slots: &mut [&mut Slot], checks: &[Check], dry_run: bool, now: u64) -> Vec<Answer> {
    let verdicts: Vec<_> = slots.iter().zip(checks).map(|(slot, check)| verdict(slot, check, now)).collect();
    let passes =
        verdicts.iter().zip(checks).all(|(verdict, check)| check.shadow || *verdict == Verdict::Allowed);
    let mut answers = Vec::with_capacity(checks.len());
    for ((slot, check), verdict) in slots.iter_mut().zip(checks).zip(verdicts) {
        let counts = passes && verdict == Verdict::Allowed;
        let mut copy;
        let slot: &mut Slot = if dry_run && counts {
            copy = slot.clone();
            &mut copy
        } else {
            slot
        };
        if counts {
            take(slot, check, now);
        } else if !dry_run && verdict != Verdict::Never {
            let _ = mend(slot, check, now);
        }
        answers.push(answer(slot, check, verdict, now));
    }
    answers
}
