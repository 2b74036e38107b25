//! How the suite lists and runs.

use crate::plain::{Sound, Subject};
use hapax_conformance::{BoxError, Outcome, StoreUnderTest, async_trait, cases};
use std::{collections::HashSet, time::Duration};

#[test]
fn every_case_has_a_name_of_its_own_in_one_of_the_areas() {
    let cases = cases::<Subject<Sound>>();
    let names: HashSet<_> = cases.iter().map(hapax_conformance::Case::name).collect();
    assert_eq!(names.len(), cases.len());
    for area in ["contract", "races", "expiry", "model", "faults"] {
        assert!(names.iter().any(|name| name.starts_with(&format!("{area}::"))), "{area}");
    }
    for name in names {
        let (area, statement) = name.split_once("::").unwrap();
        assert!(["contract", "races", "expiry", "model", "faults"].contains(&area), "{name}");
        assert!(statement.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
    }
}

struct Unreachable;

#[async_trait]
impl StoreUnderTest for Unreachable {
    type Store = <Subject<Sound> as StoreUnderTest>::Store;

    async fn fresh() -> Result<Self, BoxError> {
        Err("no server listens here".into())
    }
    async fn client(&self) -> Result<Self::Store, BoxError> {
        Err("no server listens here".into())
    }
    async fn elapse(&self, _: Duration) {}

    fn skips(case: &str) -> Option<&'static str> {
        (case == "contract::prune_removes_what_is_over").then_some("its server removes what is over")
    }
}

#[test]
fn a_store_that_cannot_be_set_up_fails_and_says_why() {
    let cases = cases::<Unreachable>();
    let case = cases.iter().find(|case| case.name() == "contract::prune_stops_at_its_limit").unwrap();
    assert!(matches!(case.run(), Outcome::Failed(why) if why.contains("no server listens here")));
}

#[test]
fn a_skipped_case_is_ignored_with_its_reason() {
    let cases = cases::<Unreachable>();
    let case = cases.iter().find(|case| case.name() == "contract::prune_removes_what_is_over").unwrap();
    assert_eq!(case.run(), Outcome::Ignored("its server removes what is over".into()));
}

#[test]
fn a_failed_random_list_is_short_and_can_be_repeated() {
    use crate::plain::Flaw;
    use hapax_core::{
        Now, Token,
        idempotency::{
            Write,
            machine::{self, Slot},
        },
    };
    struct ReleasesForAnyone;
    impl Flaw for ReleasesForAnyone {
        fn release(slot: &mut Slot, _: &Token, now: &Now) -> Write {
            machine::force_release(slot, now)
        }
    }
    let cases = cases::<Subject<ReleasesForAnyone>>();
    let name = "model::random_steps_are_answered_like_a_plain_map";
    let Outcome::Failed(why) = cases.iter().find(|case| case.name() == name).unwrap().run() else {
        panic!("the list is answered well");
    };
    assert!(why.contains("HAPAX_TEST_SEED="), "{why}");
    let steps = why.lines().skip_while(|line| !line.contains("in this list")).skip(1).count();
    // A reservation and a release by another would do; what is left has few more.
    assert!((2..=4).contains(&steps), "{why}");
}
