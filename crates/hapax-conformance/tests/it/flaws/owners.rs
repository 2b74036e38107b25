//! Flaws in who may do what to a key.

use super::{MODEL, flaw, pending, settled};
use crate::plain::Flaw;
use hapax_core::{
    Fingerprint, Now, Span, Token,
    idempotency::{
        Complete, Completed, Extended, Reserve, Reserved, Write,
        machine::{self, Slot},
    },
};
use std::time::Duration;

flaw!(a_store_that_overwrites_on_reserve, OverwritesOnReserve: [
    "contract::a_second_reservation_does_not_overwrite_the_first",
    "contract::replays_change_nothing",
    "races::of_many_callers_one_wins",
    MODEL,
] {
    fn reserve(slot: &mut Slot, req: &Reserve, now: &Now) -> Reserved {
        *slot = None;
        machine::reserve(slot, req, now)
    }
});

flaw!(a_store_that_locks_out_the_sender_of_a_lost_reply, LocksOut: [
    "contract::reserve_sent_again_is_yours",
    "faults::a_reserve_whose_reply_was_lost_is_yours_when_sent_again",
    "races::the_same_token_from_many_tasks_is_always_yours",
    MODEL,
] {
    fn reserve(slot: &mut Slot, req: &Reserve, now: &Now) -> Reserved {
        match machine::read(slot, now) {
            Some(record) => Reserved::Held(record),
            None => machine::reserve(slot, req, now),
        }
    }
});

flaw!(a_store_whose_release_is_not_fenced, ReleasesForAnyone: [
    "contract::stale_token_cannot_release",
    "contract::a_refused_caller_can_change_nothing",
    "faults::a_release_that_arrives_late_does_not_free_the_next_owners_key",
    MODEL,
] {
    fn release(slot: &mut Slot, _token: &Token, now: &Now) -> Write {
        machine::force_release(slot, now)
    }
});

flaw!(a_store_whose_release_frees_what_has_ended, ReleasesResults: [
    "contract::release_of_an_ended_key_is_fenced",
    "races::complete_and_release_never_lose_the_result",
    MODEL,
] {
    fn release(slot: &mut Slot, token: &Token, now: &Now) -> Write {
        if settled(slot).is_some_and(|s| s.token == *token) {
            *slot = None;
        }
        machine::release(slot, token, now)
    }
});

flaw!(a_store_that_takes_another_result_for_its_own, AnyoneIsDone: [
    "contract::a_second_success_is_superseded",
    "contract::a_batch_of_results_answers_each_in_order",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        match machine::complete(slot, req, now) {
            Completed::Superseded(_) => Completed::AlreadyDone,
            answer => answer,
        }
    }
});

flaw!(a_store_whose_done_record_loses_its_fingerprint, LosesFingerprint: [
    "contract::a_done_record_keeps_its_fingerprint",
    "contract::every_answer_with_a_record_carries_the_same_record",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        machine::complete(slot, &Complete { fingerprint: Fingerprint::ANY, ..req.clone() }, now)
    }
});

flaw!(a_store_that_compares_fingerprints, ComparesFingerprints: [
    "contract::fingerprints_are_kept_and_not_compared",
    "expiry::expired_lease_can_be_taken",
] {
    fn reserve(slot: &mut Slot, req: &Reserve, now: &Now) -> Reserved {
        if let Some(p) = pending(slot)
            && p.fingerprint != req.fingerprint
        {
            // Never taken over by another request.
            p.until = p.until.max(now.boot.after(Duration::from_millis(1)));
        }
        machine::reserve(slot, req, now)
    }
});

flaw!(a_store_whose_extend_is_not_fenced, ExtendsForAnyone: [
    "contract::extend_of_another_token_is_fenced",
    "contract::a_refused_caller_can_change_nothing",
    MODEL,
] {
    fn extend(slot: &mut Slot, token: &Token, lease: Span, now: &Now) -> Extended {
        let owner = pending(slot).map_or(*token, |p| p.token);
        machine::extend(slot, &owner, lease, now)
    }
});

flaw!(a_store_that_forces_out_results, ForcesResults: [
    "contract::a_forced_release_needs_a_live_reservation",
    MODEL,
] {
    fn force_release(slot: &mut Slot, _now: &Now) -> Write {
        if slot.take().is_some() { Write::Applied } else { Write::Fenced }
    }
});

flaw!(a_store_that_looks_and_then_writes, LooksThenWrites: [
    "races::of_many_callers_one_wins",
    "races::of_many_callers_on_a_dead_owners_key_one_wins",
    "races::of_many_resolvers_one_asks",
    "races::of_many_results_one_becomes_the_record",
    "races::of_many_releases_one_applies",
] {
    const ATOMIC: bool = false;
});
