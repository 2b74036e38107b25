//! Several limits at once, quotas that change, clocks that are set.

use hapax_core::limit::{
    Algorithm, Answer, Check, LimitKey, Quota,
    machine::{self, Slot},
};
use proptest::prelude::*;
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn quota(algorithm: Algorithm, limit: u32, window: u64) -> Quota {
    Quota::new(algorithm, limit, ms(window)).unwrap()
}

fn check(quota: Quota, cost: u32) -> Check {
    Check { cost, ..Check::new(LimitKey::new("k").unwrap(), quota) }
}

fn ask(slot: &mut Slot, quota: Quota, cost: u32, now: u64) -> Answer {
    machine::decide_one(slot, &check(quota, cost), false, now)
}

const NOW: u64 = 1_767_225_600_000;

#[test]
fn all_limits_count_or_none() {
    let [a, b] = [Quota::fixed_window(5, ms(1000)), Quota::token_bucket(2, ms(1000))];
    let checks = [check(a, 1), check(b, 1)];
    let (mut first, mut second) = (None, None);
    let mut decide = |dry| machine::decide(&mut [&mut first, &mut second], &checks, dry, NOW);
    for left in [4, 3] {
        let answers = decide(false);
        assert!(answers.iter().all(|answer| answer.allowed));
        assert_eq!(answers[0].remaining, left);
    }
    for dry in [true, false, false] {
        let answers = decide(dry);
        assert!(answers[0].allowed && !answers[1].allowed);
        assert_eq!((answers[0].remaining, answers[1].retry_after_ms), (3, 500));
    }
}

#[test]
fn a_shadow_has_no_say_and_counts_for_itself() {
    let [a, b] = [Quota::fixed_window(3, ms(1000)), Quota::fixed_window(1, ms(1000))];
    let checks = [check(a, 1), Check { shadow: true, ..check(b, 1) }];
    let (mut first, mut second) = (None, None);
    let mut says = Vec::new();
    for _ in 0..4 {
        let answers = machine::decide(&mut [&mut first, &mut second], &checks, false, NOW);
        says.push((answers[0].allowed, answers[1].allowed));
    }
    assert_eq!(says, [(true, true), (true, false), (true, false), (false, false)]);
}

#[test]
fn what_is_never_allowed_writes_nothing() {
    for algorithm in Algorithm::ALL {
        let mut slot = None;
        let answer = ask(&mut slot, quota(algorithm, 5, 1000), 6, NOW);
        assert!(answer.never && !answer.allowed && answer.retry_after_ms == 0 && answer.remaining == 5);
        assert_eq!(slot, None);
    }
}

#[test]
fn a_changed_quota_is_seen_at_once() {
    for algorithm in Algorithm::ALL {
        let (small, large) = (quota(algorithm, 4, 1000), quota(algorithm, 10, 1000));
        let mut slot = None;
        for _ in 0..4 {
            assert!(ask(&mut slot, small, 1, NOW).allowed);
        }
        assert!(!ask(&mut slot, small, 1, NOW).allowed);
        let raised = ask(&mut slot.clone(), large, 1, NOW);
        // A bucket has what has come in, and no more room is no more tokens.
        assert_eq!(raised.allowed, algorithm != Algorithm::TokenBucket, "{algorithm}: {raised:?}");

        let mut slot = None;
        assert!(ask(&mut slot, large, 3, NOW).allowed);
        let lowered = ask(&mut slot, small, 2, NOW);
        let fits = algorithm == Algorithm::TokenBucket;
        assert_eq!(lowered.allowed, fits, "{algorithm}: {lowered:?}");
        assert!(ask(&mut slot, small, 2, NOW + lowered.retry_after_ms).allowed);
    }
}

#[test]
fn a_full_state_is_none_whatever_the_next_quota() {
    for algorithm in Algorithm::ALL {
        let (small, large) = (quota(algorithm, 4, 1000), quota(algorithm, 10, 3000));
        let mut slot = None;
        let answer = ask(&mut slot, small, 3, NOW);
        let later = NOW + answer.reset_after_ms;
        assert_eq!(ask(&mut slot, large, 10, later), ask(&mut None, large, 10, later), "{algorithm}");
    }
}

#[test]
fn a_window_that_changes_takes_the_count_along() {
    for algorithm in Algorithm::ALL {
        let (short, long) = (quota(algorithm, 4, 1000), quota(algorithm, 4, 5000));
        let mut slot = None;
        assert!(ask(&mut slot, short, 3, NOW).allowed);
        let answer = ask(&mut slot, long, 2, NOW);
        assert!(!answer.allowed && answer.remaining == 1, "{algorithm}: {answer:?}");
        assert!(ask(&mut slot, long, 2, NOW + answer.retry_after_ms).allowed, "{algorithm}");
    }
}

#[test]
fn a_clock_that_goes_back_costs_one_window_at_most() {
    for algorithm in Algorithm::ALL {
        for back in [1, 400, 999, 1000, 1001, 1999, 2500, 3_600_000] {
            let quota = quota(algorithm, 3, 1000);
            let mut slot = None;
            assert!(ask(&mut slot, quota, 3, NOW + 300).allowed);
            let (mut now, set) = (NOW + 300 - back, NOW + 300 - back);
            // The counter weighs two windows, the others one.
            let most = if algorithm == Algorithm::SlidingCounter { 3000 } else { 2000 };
            // As a client that does what it is told.
            loop {
                let answer = ask(&mut slot, quota, 3, now);
                if answer.allowed {
                    break;
                }
                assert!(answer.retry_after_ms > 0);
                now += answer.retry_after_ms;
                assert!(now - set <= most, "{algorithm}, {back} ms back: {} ms later", now - set);
            }
        }
    }
}

#[test]
fn a_clock_that_goes_back_a_little_lets_no_more_through() {
    for algorithm in Algorithm::ALL {
        let quota = quota(algorithm, 3, 1000);
        let mut slot = None;
        assert!(ask(&mut slot, quota, 2, NOW + 300).allowed);
        assert!(ask(&mut slot, quota, 1, NOW + 100).allowed, "{algorithm}");
        for at in [0, 200, 300, 400] {
            assert!(!ask(&mut slot, quota, 1, NOW + at).allowed);
        }
    }
}

/// Two states of one limit, of which one was let go when it equalled a fresh one, answer alike for ever.
fn op() -> impl Strategy<Value = (u64, u32, u32, u64)> {
    (0..800_u64, 1..5_u32, 1..8_u32, prop::sample::select(vec![200_u64, 500, 1000]))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_state_may_go_when_its_time_is_over(
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()),
        ops in prop::collection::vec(op(), 1..40),
    ) {
        let (mut kept, mut gone, mut now, mut ends) = (None, None, NOW, 0);
        for (pause, cost, limit, window) in ops {
            now += pause;
            if now >= ends {
                gone = None;
            }
            let quota = quota(algorithm, limit, window);
            prop_assert_eq!(ask(&mut kept, quota, cost, now), ask(&mut gone, quota, cost, now));
            ends = gone.as_ref().map_or(0, |kept| machine::ends(kept, now));
        }
    }
}

#[test]
fn a_clock_that_is_far_ahead_or_starts_anew_is_no_panic() {
    for algorithm in Algorithm::ALL {
        let quota = quota(algorithm, 3, 400 * 86_400_000);
        let mut slot = None;
        for now in [NOW, 1 << 52, 0, NOW, 1 << 52] {
            for cost in [1, 2, 3, 4, u32::MAX] {
                let answer = ask(&mut slot, quota, cost, now);
                assert_eq!(answer.never, cost > 3, "{algorithm} at {now}");
                assert!(
                    answer.remaining <= 3 && answer.retry_after_ms <= 2 * quota.window_ms(),
                    "{answer:?}"
                );
            }
        }
    }
}
