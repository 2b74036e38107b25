//! The rules of a key, checked in every order in which owners, resolvers, crashes and the network can meet.
//!
//! The steps are those of `idempotency::machine` themselves. What holds is stated in `statements.rs`: it holds with the rules
//! as they are, and fails as soon as one of them is left out (`rules.rs`), so each of them is needed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "model/rules.rs"]
mod rules;
#[path = "model/statements.rs"]
mod statements;
#[path = "model/world.rs"]
mod world;

use rules::{Rules, Without};
use stateright::{Checker, HasDiscoveries, Model};
use world::Spine;

/// Both with a forced release and a verdict by hand: two owners and requests that arrive again, three owners and lost
/// replies alone. `HAPAX_TEST_LONG=1` explores more of both.
fn spines(without: Without, long: bool) -> Vec<Spine> {
    let spine =
        |owners, duplicates| Spine { rules: Rules(without), owners, duplicates, forced: 1, verdicts: 1 };
    if long { vec![spine(2, 3), spine(3, 1)] } else { vec![spine(2, 1), spine(3, 0)] }
}

#[test]
fn the_rules_hold_in_every_order() {
    let long = std::env::var_os("HAPAX_TEST_LONG").is_some_and(|value| value == "1");
    for spine in spines(Without::Nothing, long) {
        let checker = spine.checker().threads(2).spawn_dfs().join();
        println!(
            "{} owners, {} duplicates: {} states",
            spine.owners,
            spine.duplicates,
            checker.unique_state_count()
        );
        checker.assert_properties();
    }
}

/// Checks that the statement, among others, fails when the rule is left out.
fn is_needed(without: Without, for_statement: &str) {
    let failures = |spine: Spine| {
        let checker = spine.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let mut found = checker.discoveries();
        found.retain(|name, _| statements::must_hold(name));
        found.into_iter().map(|(name, path)| (name, path.into_actions())).collect::<Vec<_>>()
    };
    let found = spines(without, false).into_iter().map(failures).find(|found| !found.is_empty());
    let found = found.unwrap_or_default();
    assert!(found.iter().any(|(name, _)| *name == for_statement), "without {without:?} there is {found:#?}");
}

macro_rules! needed {
    ($($test:ident: $without:ident for $statement:ident;)+) => {
        $(#[test]
        fn $test() {
            is_needed(Without::$without, statements::$statement);
        })+
    };
}

needed! {
    a_success_beside_the_owners_unknown_has_to_become_the_record: SuccessOverOwnUnknown for SUCCESS_IS_KEPT;
    a_drop_has_to_be_refused_when_a_success_came: DropIsChecked for VERDICTS_RESPECT_SUCCESS;
    a_retake_has_to_keep_the_unknown: RetakeKeeps for UNKNOWN_IS_KEPT;
    a_late_result_has_to_become_the_record_when_the_reservation_ends: LateIsPromoted for SUCCESS_IS_KEPT;
    a_late_success_has_to_replace_a_late_unknown: LateSuccessReplaces for SUCCESS_IS_KEPT;
    a_success_has_to_replace_an_unknown_record: SuccessReplaces for SUCCESS_IS_KEPT;
    a_late_result_has_to_be_kept: LateIsKept for SUCCESS_IS_KEPT;
    a_release_has_to_be_fenced: ReleaseIsFenced for ONE_HOLDER;
    an_extension_has_to_find_a_live_lease: ExtendNeedsLife for ONE_HOLDER;
    a_verdict_has_to_find_an_unknown_record: VerdictNeedsUnknown for SUCCESS_IS_KEPT;
}
