//! Each algorithm as a textbook has it, with fractions, and the machine beside it.

use hapax_core::limit::{
    Algorithm, Answer, Check, LimitKey, Quota,
    machine::{self, Slot},
};
use proptest::prelude::*;
use std::{cmp::Ordering, time::Duration};

/// A fraction, its denominator above zero. Cross products of these tests fit.
#[derive(Clone, Copy, Debug)]
struct Ratio(i128, i128);

impl Ratio {
    fn whole(n: u64) -> Self {
        Self(n.into(), 1)
    }

    fn plus(self, other: Self) -> Self {
        if self.1 == other.1 {
            return Self(self.0 + other.0, self.1);
        }
        Self(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
    }

    fn cmp(self, other: Self) -> Ordering {
        (self.0 * other.1).cmp(&(other.0 * self.1))
    }
}

/// All requests that were admitted: when, and at what cost.
type Admitted = Vec<(u64, u64)>;

/// Whether a request fits, from the definition of the algorithm and all of history.
fn fits(quota: &Quota, admitted: &Admitted, cost: u64, now: u64) -> bool {
    let (limit, window) = (u64::from(quota.limit()), quota.window_ms());
    match quota.algorithm() {
        Algorithm::FixedWindow => {
            let (mut start, mut count) = (None::<u64>, 0);
            for (at, weight) in admitted {
                if start.is_none_or(|start| *at >= start + window) {
                    (start, count) = (Some(*at), 0);
                }
                count += weight;
            }
            let live = start.is_some_and(|start| now < start + window);
            if live { count + cost <= limit } else { cost <= limit }
        }
        Algorithm::SlidingWindow => {
            let live = admitted.iter().filter(|(at, _)| *at + window > now);
            live.map(|(_, weight)| weight).sum::<u64>() + cost <= limit
        }
        Algorithm::SlidingCounter => {
            // Windows follow each other from the first request on, until two in a row were empty.
            let (mut start, mut previous, mut current) = (None::<u64>, 0, 0);
            for (at, weight) in admitted.iter().copied().chain([(now, 0)]) {
                let passed = start.map_or(2, |start| (at - start) / window);
                match passed {
                    0 => {}
                    1 => (start, previous, current) = (start.map(|start| start + window), current, 0),
                    _ => (start, previous, current) = (Some(at), 0, 0),
                }
                current += weight;
            }
            let left = i128::from(window - (now - start.unwrap_or(now)));
            let weighted = Ratio(i128::from(previous) * left, window.into());
            let estimate = weighted.plus(Ratio::whole(current));
            estimate.plus(Ratio::whole(cost)).cmp(Ratio::whole(limit)) != Ordering::Greater
        }
        Algorithm::TokenBucket => {
            // Tokens in fractions of the window's length.
            let full = Ratio(i128::from(limit) * i128::from(window), window.into());
            let mut tokens = full;
            let mut last = 0;
            let refill = |tokens: Ratio, ms: u64| {
                let more = tokens.plus(Ratio(i128::from(ms) * i128::from(limit), window.into()));
                if more.cmp(full) == Ordering::Greater { full } else { more }
            };
            for (at, weight) in admitted {
                tokens = refill(tokens, at - last);
                tokens = tokens.plus(Ratio(-i128::from(*weight) * i128::from(window), window.into()));
                last = *at;
            }
            refill(tokens, now - last).cmp(Ratio::whole(cost)) != Ordering::Less
        }
    }
}

fn check(quota: Quota, cost: u32) -> Check {
    Check { cost, ..Check::new(LimitKey::new("k").unwrap(), quota) }
}

fn ask(slot: &Slot, quota: Quota, cost: u32, now: u64) -> Answer {
    machine::decide_one(&mut slot.clone(), &check(quota, cost), true, now)
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL.to_vec())
}

fn quota() -> impl Strategy<Value = Quota> {
    (algorithm(), 1..12_u32, prop_oneof![1..8_u64, 1..200_u64]).prop_map(|(algorithm, limit, window)| {
        Quota::new(algorithm, limit, Duration::from_millis(window)).unwrap()
    })
}

/// Pauses in thousandths of a window, and costs in twelfths of about the limit.
fn trace() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let pause = prop_oneof![4 => Just(0), 4 => 0..300_u64, 1 => 0..2500_u64];
    prop::collection::vec((pause, prop_oneof![3 => Just(1_u32), 1 => 1..14_u32]), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_algorithm_is_its_definition(quota in quota(), start in 0..500_u64, trace in trace()) {
        let (limit, window) = (quota.limit(), quota.window_ms());
        let (mut slot, mut admitted, mut now) = (None, Admitted::new(), start);
        for (pause, cost) in trace {
            now += pause * window / 1000;
            let dry = ask(&slot, quota, cost, now);
            let answer = machine::decide_one(&mut slot, &check(quota, cost), false, now);
            prop_assert_eq!(dry, answer, "a dry run says what the real call says");
            let fits_now = |admitted: &Admitted, cost: u64, at: u64| fits(&quota, admitted, cost, at);
            prop_assert_eq!(answer.allowed, fits_now(&admitted, cost.into(), now), "{} at {}", cost, now);
            prop_assert_eq!(answer.never, cost > limit);
            if answer.allowed {
                admitted.push((now, cost.into()));
                prop_assert_eq!(answer.retry_after_ms, 0);
            } else if !answer.never {
                let at = now + answer.retry_after_ms;
                prop_assert!(fits_now(&admitted, cost.into(), at), "allowed after {answer:?}");
                prop_assert!(!fits_now(&admitted, cost.into(), at - 1), "and not earlier: {answer:?}");
                prop_assert!(ask(&slot, quota, cost, at).allowed);
            }
            let room = u64::from(answer.remaining);
            prop_assert!(room == 0 || fits_now(&admitted, room, now), "{answer:?}");
            prop_assert!(room == u64::from(limit) || !fits_now(&admitted, room + 1, now), "{answer:?}");
            if room < u64::from(limit) {
                let at = now + answer.next_after_ms;
                prop_assert!(fits_now(&admitted, room + 1, at) && !fits_now(&admitted, room + 1, at - 1));
                let at = now + answer.reset_after_ms;
                prop_assert!(fits_now(&admitted, limit.into(), at));
            } else {
                prop_assert_eq!(answer.next_after_ms, 0);
            }
            // What is left then equals a fresh state.
            let at = now + answer.reset_after_ms;
            prop_assert_eq!(ask(&slot, quota, 1, at), ask(&None, quota, 1, at));
            if let Some(kept) = &slot {
                prop_assert_eq!(machine::ends(kept, now), at);
            }
        }
        let most = match quota.bound() {
            hapax_core::limit::Bound::AtMost(most) => most,
            _ => limit.into(),
        };
        for (at, _) in &admitted {
            let within = admitted.iter().filter(|(other, _)| (*at..at + window).contains(other));
            let sum: u64 = within.map(|(_, weight)| weight).sum();
            prop_assert!(sum <= most, "{sum} from {at} on");
        }
    }

    /// `remaining` is a promise about calls, not about one call of that cost.
    #[test]
    fn remaining_calls_pass_and_no_more(quota in quota(), trace in trace()) {
        let (mut slot, mut now) = (None, 77);
        let mut left = quota.limit();
        for (pause, cost) in trace {
            now += pause * quota.window_ms() / 1000;
            left = machine::decide_one(&mut slot, &check(quota, cost), false, now).remaining;
        }
        for rest in (0..left).rev() {
            let answer = machine::decide_one(&mut slot, &check(quota, 1), false, now);
            prop_assert!(answer.allowed && answer.remaining == rest, "{answer:?}");
        }
        prop_assert!(!machine::decide_one(&mut slot, &check(quota, 1), false, now).allowed);
    }

    /// The largest numbers that a quota takes.
    #[test]
    fn large_numbers_do_not_overflow(algorithm in algorithm(), cost in any::<u32>(), pauses in prop::collection::vec(any::<u32>(), 1..20)) {
        let largest = [
            (1_u32 << 31, 4_194_303),
            (1 << 31, 400 * 24 * 60 * 60 * 1000),
            (260_000, 400 * 24 * 60 * 60 * 1000),
            (10_000, 400 * 24 * 60 * 60 * 1000),
        ];
        for (limit, window) in largest {
            let Ok(quota) = Quota::new(algorithm, limit, Duration::from_millis(window)) else { continue };
            let (mut slot, mut now) = (None, 1_700_000_000_000);
            for pause in &pauses {
                now += u64::from(*pause);
                let cost = cost.clamp(1, limit);
                let answer = machine::decide_one(&mut slot, &check(quota, cost), false, now);
                prop_assert!(answer.retry_after_ms <= 2 * window, "{quota}: {answer:?}");
                if !answer.allowed {
                    let again = ask(&slot, quota, cost, now + answer.retry_after_ms);
                    prop_assert!(again.allowed, "{quota}: {again:?} after {answer:?}");
                    let early = ask(&slot, quota, cost, now + answer.retry_after_ms - 1);
                    prop_assert!(!early.allowed, "{quota}: {answer:?}");
                }
            }
        }
    }
}
