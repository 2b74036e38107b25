//! Rate limits: what the functions of the server say, and what the rules say.
#![expect(clippy::indexing_slicing, reason = "tests")]

use crate::support::{Place, open};
use hapax_core::{
    Applied, Namespace, StoreErrorKind,
    limit::{
        Algorithm, Check, Decide, LimitKey, LimitStore, Quota,
        machine::{self, Slot},
    },
};
use hapax_testkit::{Fault, Proxy};
use std::time::Duration;

crate::list!("limits";
    what_the_server_counts_is_what_the_rules_say,
    a_decision_whose_reply_was_lost_is_not_sent_again,
    decisions_of_many_callers_count_each,
    a_refused_decision_leaves_no_row,
);

fn decide(checks: Vec<Check>, dry_run: bool) -> Decide {
    Decide { namespace: Namespace::default(), checks, dry_run }
}

fn check(key: &str, quota: Quota) -> Check {
    Check::new(LimitKey::new(key).unwrap(), quota)
}

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

const QUOTAS: [(u32, u64); 6] =
    [(1, 1), (3, 1_000), (5, 1_000), (7, 300), (10_000, 86_400_000), (200_000, 40_000_000_000)];

fn quota(numbers: &mut Numbers, algorithm: Algorithm) -> Quota {
    // Most are near each other, so that what is left of one matters to the next.
    let (limit, window) = if numbers.below(8) > 0 { numbers.of(&QUOTAS[1..4]) } else { numbers.of(&QUOTAS) };
    let limit = if algorithm == Algorithm::SlidingWindow { limit.min(10_000) } else { limit };
    Quota::new(algorithm, limit, Duration::from_millis(window.min(400 * 86_400_000))).unwrap()
}

/// Random decisions over one to three limits, whose quotas change, on a clock that goes ahead, stands still, and goes back
/// by little and by much.
async fn what_the_server_counts_is_what_the_rules_say() {
    let place = Place::new();
    let store = place.store().await;
    place
        .run(
            "CREATE TABLE S.still (ms bigint); CREATE OR REPLACE FUNCTION S.now_ms() RETURNS bigint LANGUAGE sql VOLATILE \
             AS 'SELECT ms FROM S.still'; INSERT INTO S.still VALUES (0)",
        )
        .await;
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let mut slots: Vec<Slot> = vec![None; Algorithm::ALL.len()];
    let (mut now, mut clock) = (1_764_459_377_123_u64, place.raw().await);
    for round in 0..600 {
        now = match numbers.below(16) {
            0 => now - numbers.below(700),
            1 => now - numbers.below(5_000),
            2 => now + numbers.below(3_000),
            3..=5 => now,
            _ => now + numbers.below(250),
        };
        place.run_on(&mut clock, &format!("UPDATE S.still SET ms = {now}")).await;
        let count = if numbers.below(3) > 0 { 1 } else { 1 + numbers.below(3) };
        let first = numbers.below(4);
        let places: Vec<_> = (0..count).map(|n| usize::try_from((first + n) % 4).unwrap()).collect();
        let checks: Vec<_> = places
            .iter()
            .map(|at| {
                let quota = quota(&mut numbers, Algorithm::ALL[*at]);
                let cost = 1 + u32::try_from(numbers.below(4)).unwrap();
                Check { cost, shadow: false, ..check("k", quota) }
            })
            .collect();
        let dry_run = numbers.below(5) == 0;
        let got = store.decide(&decide(checks.clone(), dry_run)).await.unwrap();
        let mut taken: Vec<Slot> = places.iter().map(|at| slots[*at].take()).collect();
        let wanted = machine::decide(&mut taken.iter_mut().collect::<Vec<_>>(), &checks, dry_run, now);
        for (at, slot) in places.iter().zip(taken) {
            slots[*at] = slot;
        }
        assert_eq!(got.answers, wanted, "round {round} at {now}: {checks:?}, dry: {dry_run}");
    }
    place.run_on(&mut clock, "UPDATE S.still SET ms = ms * 2").await;
    let left = place.number("SELECT count(*) FROM S.limit_slot").await;
    assert_eq!(i64::try_from(LimitStore::prune(&store, 100).await.unwrap()).unwrap(), left);
    assert_eq!(left, 4);
}

async fn a_decision_whose_reply_was_lost_is_not_sent_again() {
    let place = Place::new();
    let proxy = Proxy::before(place.port());
    let (port, schema) = (proxy.port(), &place.schema);
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?timeout=30s&schema={schema}");
    let store = open(&url).await.unwrap();
    let [a, b] = ["a", "b"].map(|key| check(key, Quota::fixed_window(10, Duration::from_hours(1))));
    for checks in [vec![a.clone()], vec![a.clone(), b]] {
        // On a connection that has been greeted.
        let dry = store.decide(&decide(checks.clone(), true)).await.unwrap();
        assert!(dry.allowed(&checks));
        proxy.arm(Fault::CutAfter);
        let error = store.decide(&decide(checks, false)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.applied()),
            (StoreErrorKind::Unavailable, Applied::Unknown),
            "{error}"
        );
    }
    assert_eq!(store.decide(&decide(vec![a], true)).await.unwrap().answers[0].remaining, 7);
}

async fn decisions_of_many_callers_count_each() {
    let place = Place::new();
    let store = place.store().await;
    let quota = Quota::token_bucket(1 << 31, Duration::from_hours(1));
    let of = |n: usize| check(&format!("k{}", n % 5), Quota::fixed_window(7, Duration::from_hours(1)));
    let asks = |n: usize| {
        let store = store.clone();
        let check = of(n);
        tokio::spawn(async move { store.decide(&decide(vec![check], false)).await })
    };
    let mut passed = 0;
    for task in (0..64).map(asks).collect::<Vec<_>>() {
        passed += usize::from(task.await.unwrap().unwrap().answers[0].allowed);
    }
    assert_eq!(passed, 5 * 7);
    let most = Check { cost: 1 << 31, ..check("large", quota) };
    assert!(store.decide(&decide(vec![most.clone()], false)).await.unwrap().answers[0].allowed);
    let again = store.decide(&decide(vec![most], false)).await.unwrap().answers[0];
    assert!(!again.allowed && (3_500_000..=3_600_000).contains(&again.retry_after_ms), "{again:?}");
}

async fn a_refused_decision_leaves_no_row() {
    let place = Place::new();
    let store = place.store().await;
    let hour = Duration::from_hours(1);
    let full = Check { cost: 2, ..check("full", Quota::fixed_window(2, hour)) };
    assert!(store.decide(&decide(vec![full.clone()], false)).await.unwrap().answers[0].allowed);
    let refused = [
        vec![full, check("new", Quota::sliding_window(2, hour))],
        vec![Check { cost: 3, ..check("never", Quota::token_bucket(2, hour)) }],
    ];
    for checks in refused {
        let decided = store.decide(&decide(checks.clone(), false)).await.unwrap();
        assert!(!decided.allowed(&checks), "{decided:?}");
    }
    let dry = store.decide(&decide(vec![check("dry", Quota::sliding_counter(2, hour))], true)).await.unwrap();
    assert_eq!((dry.answers[0].allowed, dry.answers[0].remaining), (true, 1));
    assert_eq!(place.number("SELECT count(*) FROM S.limit_slot").await, 1);
}
