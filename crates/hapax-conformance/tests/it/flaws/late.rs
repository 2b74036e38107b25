//! Flaws around late results, unknown outcomes and verdicts.

use super::{MODEL, flaw, pending, settled};
use crate::plain::Flaw;
use hapax_core::{
    Now, Span, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, Kind, Pending, Resolve, Resolved, Retake, Retaken, Write,
        machine::{self, Slot},
    },
};
use std::time::Duration;

flaw!(a_store_that_drops_late_results, DropsLate: [
    "contract::release_lets_the_late_result_take_its_place",
    "contract::a_late_receipt_comes_back_byte_for_byte",
    "faults::a_complete_that_arrives_late_is_kept",
    "races::release_and_a_late_result_never_lose_the_result",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        machine::settle(slot, now);
        if pending(slot).is_some_and(|p| p.token != req.token) {
            return Completed::StoredLate;
        }
        machine::complete(slot, req, now)
    }
});

flaw!(a_store_whose_late_result_takes_the_key_from_its_owner, LateTakesOver: [
    "contract::a_late_result_is_kept_beside_the_newer_owner",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        machine::settle(slot, now);
        if pending(slot).is_some_and(|p| p.token != req.token) {
            *slot = None;
            let _ = machine::complete(slot, req, now);
            return Completed::StoredLate;
        }
        machine::complete(slot, req, now)
    }
});

flaw!(a_store_that_keeps_the_last_late_result, KeepsLastLate: [
    "contract::a_late_result_replaces_no_late_success",
    "contract::a_late_unknown_replaces_no_late_unknown",
    "contract::a_late_result_sent_again_changes_nothing",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        machine::settle(slot, now);
        if let Some(p) = pending(slot)
            && p.token != req.token
        {
            p.late = None;
        }
        machine::complete(slot, req, now)
    }
});

flaw!(a_store_whose_late_results_are_lost_when_the_lease_passes, LateEndsWithLease: [
    "contract::a_lease_that_passes_lets_the_late_result_take_its_place",
    "contract::a_reservation_never_starts_over_a_kept_result",
    "contract::a_dead_resolver_brings_the_unknown_back",
    "expiry::an_owner_whose_lease_has_passed_can_complete",
    MODEL,
] {
    fn before_step(slot: &mut Slot, now: &Now) {
        if pending(slot).is_some_and(|p| p.until <= now.boot) {
            *slot = None;
        }
    }
});

flaw!(a_store_whose_late_results_are_lost_by_a_release, LateEndsWithRelease: [
    "contract::release_lets_the_late_result_take_its_place",
    "contract::an_undecided_resolver_brings_the_unknown_back",
    "faults::a_release_that_arrives_twice_keeps_the_late_result",
    MODEL,
] {
    fn release(slot: &mut Slot, token: &Token, now: &Now) -> Write {
        let answer = machine::release(slot, token, now);
        if answer == Write::Applied {
            *slot = None;
        }
        answer
    }
});

flaw!(a_store_whose_late_results_are_lost_by_force, LateEndsByForce: [
    "contract::a_forced_release_lets_the_late_result_take_its_place",
    "races::a_forced_release_and_a_late_result_never_lose_the_result",
    MODEL,
] {
    fn force_release(slot: &mut Slot, now: &Now) -> Write {
        let answer = machine::force_release(slot, now);
        if answer == Write::Applied {
            *slot = None;
        }
        answer
    }
});

flaw!(a_store_whose_owners_unknown_hides_a_late_success, UnknownHides: [
    "contract::the_owners_unknown_does_not_hide_a_late_success",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        if let Some(p) = pending(slot)
            && p.token == req.token
            && p.until > now.boot
        {
            p.late = None;
        }
        machine::complete(slot, req, now)
    }
});

flaw!(a_store_whose_resolver_drops_a_success, DropsSuccess: [
    "contract::drop_unknown_is_refused_when_a_success_came",
    "races::a_resolver_and_a_late_success_never_lose_the_success",
    "faults::a_drop_that_arrives_late_takes_nothing",
    MODEL,
] {
    fn drop_unknown(slot: &mut Slot, token: &Token, now: &Now) -> Dropped {
        match machine::drop_unknown(slot, token, now) {
            Dropped::Refused => {
                pending(slot).unwrap().late = None;
                Dropped::Dropped
            }
            answer => answer,
        }
    }
});

flaw!(a_store_whose_retake_forgets_the_unknown, RetakeForgets: [
    "contract::an_undecided_resolver_brings_the_unknown_back",
    "contract::a_dead_resolver_brings_the_unknown_back",
    "faults::a_retake_that_arrives_after_its_release_gives_the_unknown_back",
    MODEL,
] {
    fn retake(slot: &mut Slot, req: &Retake, now: &Now) -> Retaken {
        let fresh = settled(slot).is_some();
        let answer = machine::retake_unknown(slot, req, now);
        if let Some(p) = pending(slot)
            && fresh
        {
            p.late = None;
        }
        answer
    }
});

flaw!(a_store_whose_unknown_comes_back_with_a_new_ttl, RetakeRefreshes: [
    "contract::the_unknown_comes_back_with_its_first_ttl",
    MODEL,
] {
    fn retake(slot: &mut Slot, req: &Retake, now: &Now) -> Retaken {
        let answer = machine::retake_unknown(slot, req, now);
        if let (Retaken::Yours { .. }, Some(Pending { late: Some(late), .. })) = (&answer, pending(slot)) {
            late.until = now.wall.after(Duration::from_hours(1));
        }
        answer
    }
});

flaw!(a_store_that_lets_a_done_key_be_retaken, RetakesDone: [
    "contract::retake_needs_an_unknown_record",
    "contract::every_answer_with_a_record_carries_the_same_record",
    MODEL,
] {
    fn retake(slot: &mut Slot, req: &Retake, now: &Now) -> Retaken {
        if let Some(s) = settled(slot) {
            s.kind = Kind::Unknown;
        }
        machine::retake_unknown(slot, req, now)
    }
});

flaw!(a_store_whose_success_does_not_replace_an_unknown, SuccessIsIgnored: [
    "contract::a_success_replaces_an_unknown_record",
    "contract::a_verdict_finds_the_success_that_came_late",
    "races::a_verdict_and_a_late_success_never_lose_the_success",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        machine::settle(slot, now);
        let before = slot.clone();
        let answer = machine::complete(slot, req, now);
        if matches!(answer, Completed::Superseded(_)) {
            *slot = before;
        }
        answer
    }
});

flaw!(a_store_whose_unknown_frees_the_key, UnknownFrees: [
    "contract::an_unknown_key_answers_its_record",
    "expiry::an_unknown_outcome_outlives_its_lease",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        let answer = machine::complete(slot, req, now);
        if req.kind == Kind::Unknown && answer == Completed::Stored {
            *slot = None;
        }
        answer
    }
});

flaw!(a_store_whose_extend_loses_the_late_result, ExtendLosesLate: [
    "contract::extending_keeps_the_late_result",
    "contract::a_resolver_can_extend",
    MODEL,
] {
    fn extend(slot: &mut Slot, token: &Token, lease: Span, now: &Now) -> Extended {
        let answer = machine::extend(slot, token, lease, now);
        if let (Extended::Until(_), Some(p)) = (&answer, pending(slot)) {
            p.late = None;
        }
        answer
    }
});

flaw!(a_store_whose_verdict_does_not_look_at_the_version, IgnoresVersion: [
    "contract::a_verdict_on_another_version_writes_nothing",
    "contract::a_verdict_with_a_version_does_not_meet_a_later_unknown",
    MODEL,
] {
    fn resolve(slot: &mut Slot, req: &Resolve, now: &Now) -> Resolved {
        machine::resolve(slot, &Resolve { version: None, ..req.clone() }, now)
    }
});

flaw!(a_store_whose_verdict_takes_any_result, ResolvesDone: [
    "contract::a_verdict_needs_an_unknown_record",
    "contract::a_verdict_finds_the_success_that_came_late",
    "faults::a_verdict_that_arrives_late_finds_the_record_changed",
    MODEL,
] {
    fn resolve(slot: &mut Slot, req: &Resolve, now: &Now) -> Resolved {
        machine::settle(slot, now);
        if let Some(s) = settled(slot)
            && s.token != req.token
        {
            s.kind = Kind::Unknown;
        }
        machine::resolve(slot, &Resolve { version: None, ..req.clone() }, now)
    }
});

flaw!(a_store_whose_verdict_takes_a_key_that_is_asked_about, ResolvesAsked: [
    "contract::a_verdict_does_not_touch_a_key_that_is_being_asked_about",
    "races::of_a_resolver_and_a_verdict_one_wins",
    MODEL,
] {
    fn resolve(slot: &mut Slot, req: &Resolve, now: &Now) -> Resolved {
        if pending(slot).is_some_and(|p| p.late.as_ref().is_some_and(|late| late.kind == Kind::Unknown)) {
            let _ = machine::force_release(slot, now);
        }
        machine::resolve(slot, req, now)
    }
});
