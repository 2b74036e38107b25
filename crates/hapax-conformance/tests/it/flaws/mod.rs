//! Stores that are wrong in one way each. Each has to fail the cases that are about it, and a random list.

mod keeping;
mod late;
mod owners;
mod time;

use crate::plain::{Flaw, Running, Sound, Subject};
use hapax_conformance::{Outcome, cases};
use hapax_core::{
    BootTime, Now,
    idempotency::{Entry, Pending, Reserve, Reserved, Settled, machine::Slot},
};

const MODEL: &str = "model::random_steps_are_answered_like_a_plain_map";
const BATCHES: &str = "model::random_batches_are_answered_like_a_plain_map";

/// Random lists find a flaw sooner or later; far sooner than in so many runs of the few lists that are tried here.
const RUNS_OF_LISTS: usize = 50;

/// Checks that each of the cases fails.
fn is_found_by<F: Flaw>(names: &[&str]) {
    let cases = cases::<Subject<F>>();
    for name in names {
        let case = cases.iter().find(|case| case.name() == *name);
        let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
        let runs = if name.starts_with("model::") { RUNS_OF_LISTS } else { 1 };
        let is_found = (0..runs).any(|_| matches!(case.run(), Outcome::Failed(_)));
        assert!(is_found, "{name} does not find it");
    }
}

#[test]
fn a_sound_store_passes_every_case() {
    for case in cases::<Subject<Sound>>() {
        assert_eq!(case.run(), Outcome::Passed, "{}", case.name());
    }
}

#[test]
fn a_sound_store_on_a_running_clock_passes_every_case() {
    for case in cases::<Running<Sound>>() {
        assert_eq!(case.run(), Outcome::Passed, "{}", case.name());
    }
}

#[test]
fn flaws_are_found_on_a_running_clock_too() {
    struct LeasesForEver;
    impl Flaw for LeasesForEver {
        fn clock(now: Now) -> Now {
            Now { boot: BootTime::default(), ..now }
        }
    }
    let cases = cases::<Running<LeasesForEver>>();
    for name in ["expiry::expired_lease_can_be_taken", "expiry::a_lease_is_live_to_its_last_moment", MODEL] {
        let case = cases.iter().find(|case| case.name() == name).unwrap();
        let runs = if name.starts_with("model::") { RUNS_OF_LISTS } else { 1 };
        let is_found = (0..runs).any(|_| matches!(case.run(), Outcome::Failed(_)));
        assert!(is_found, "{name} does not find it");
    }
}

fn pending(slot: &mut Slot) -> Option<&mut Pending> {
    match slot {
        Some(Entry::Pending(p)) => Some(p),
        _ => None,
    }
}

fn settled(slot: &mut Slot) -> Option<&mut Settled> {
    match slot {
        Some(Entry::Settled(s)) => Some(s),
        _ => None,
    }
}

/// Declares a flaw and the cases that have to find it.
macro_rules! flaw {
    ($test:ident, $flaw:ident: [$($case:expr),+ $(,)?] { $($body:item)+ }) => {
        #[test]
        fn $test() {
            struct $flaw;
            impl Flaw for $flaw {
                $($body)+
            }
            super::is_found_by::<$flaw>(&[$($case),+]);
        }
    };
}
use flaw;

#[test]
fn a_store_that_panics_fails_the_case_and_not_the_run() {
    struct Panics;
    impl Flaw for Panics {
        fn reserve(_: &mut Slot, _: &Reserve, _: &Now) -> Reserved {
            panic!("out of luck");
        }
    }
    let cases = cases::<Subject<Panics>>();
    let case = cases.iter().find(|case| case.name() == "contract::a_vacant_key_can_be_reserved").unwrap();
    assert_eq!(case.run(), Outcome::Failed("a panic: out of luck".into()));
}
