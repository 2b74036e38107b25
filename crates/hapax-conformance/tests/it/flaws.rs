//! Stores that are wrong in one way each. Each has to fail the cases that are about it, and a random list.

use crate::plain::{Flaw, Sound, Subject};
use hapax_conformance::{Outcome, cases};
use hapax_core::{
    BootTime, Fingerprint, Name, Now, Span, Token,
    idempotency::{
        Complete, Completed, Dropped, Entry, Extended, Kind, List, Page, Pending, Receipt, Record, Reserve,
        Reserved, Resolve, Resolved, Retake, Retaken, Settled, Write,
        machine::{self, Slot},
    },
};
use std::{
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

const MODEL: &str = "model::random_steps_are_answered_like_a_plain_map";
const BATCHES: &str = "model::random_batches_are_answered_like_a_plain_map";

/// Checks that each of the cases fails.
fn is_found_by<F: Flaw>(names: &[&str]) {
    let cases = cases::<Subject<F>>();
    for name in names {
        let case = cases.iter().find(|case| case.name() == *name);
        let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
        assert!(matches!(case.run(), Outcome::Failed(_)), "{name} does not find it");
    }
}

#[test]
fn a_sound_store_passes_every_case() {
    for case in cases::<Subject<Sound>>() {
        assert_eq!(case.run(), Outcome::Passed, "{}", case.name());
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
            is_found_by::<$flaw>(&[$($case),+]);
        }
    };
}

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

flaw!(a_store_whose_reserve_sent_again_renews, RenewsOnResend: [
    "contract::reserve_sent_again_does_not_lengthen_the_lease",
    MODEL,
] {
    fn reserve(slot: &mut Slot, req: &Reserve, now: &Now) -> Reserved {
        if pending(slot).is_some_and(|p| p.token == req.token) {
            let _ = machine::extend(slot, &req.token, req.lease, now);
        }
        machine::reserve(slot, req, now)
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

flaw!(a_store_with_a_lease_a_millisecond_too_long, OneTooLong: [
    "expiry::a_lease_is_live_to_its_last_moment",
    "expiry::odd_milliseconds_are_kept",
    "contract::the_shortest_durations_are_accepted",
    MODEL,
] {
    fn before_step(slot: &mut Slot, now: &Now) {
        // As a comparison with `<` for `<=` does.
        if let Some(p) = pending(slot)
            && p.until == now.boot
        {
            p.until = now.boot.after(Duration::from_millis(1));
        }
    }
});

flaw!(a_store_with_a_result_a_millisecond_too_short, OneTooShort: [
    "expiry::a_result_answers_to_its_last_moment",
    MODEL,
] {
    fn before_step(slot: &mut Slot, now: &Now) {
        if settled(slot).is_some_and(|s| s.until <= now.wall.after(Duration::from_millis(1))) {
            *slot = None;
        }
    }
});

flaw!(a_store_whose_leases_never_pass, LeasesForEver: [
    "expiry::expired_lease_can_be_taken",
    "faults::a_reserve_nobody_knows_of_ends_with_its_lease",
    MODEL,
] {
    fn clock(now: Now) -> Now {
        Now { boot: BootTime::default(), ..now }
    }
});

flaw!(a_store_that_counts_whole_seconds, WholeSeconds: [
    "expiry::odd_milliseconds_are_kept",
    "contract::the_shortest_durations_are_accepted",
    MODEL,
] {
    fn span(span: Span) -> Span {
        Span::new(Duration::from_secs(span.get().as_secs() + 1)).unwrap_or(Span::MAX)
    }
});

flaw!(a_store_whose_replays_lengthen_the_ttl, ReplaysLengthen: [
    "contract::replays_do_not_lengthen_the_ttl",
    "contract::replays_change_nothing",
    MODEL,
] {
    fn reserve(slot: &mut Slot, req: &Reserve, now: &Now) -> Reserved {
        let answer = machine::reserve(slot, req, now);
        if let Some(s) = settled(slot) {
            s.until = s.until.max(now.wall.after(Duration::from_hours(2)));
        }
        answer
    }
});

flaw!(a_store_whose_complete_sent_again_lengthens_the_ttl, ResendsLengthen: [
    "contract::complete_sent_again_does_not_lengthen_the_ttl",
    "faults::a_complete_whose_reply_was_lost_is_already_done",
    MODEL,
] {
    fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
        let answer = machine::complete(slot, req, now);
        if let (Completed::AlreadyDone, Some(s)) = (&answer, settled(slot)) {
            s.until = now.wall.after(req.ttl.get());
        }
        answer
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

flaw!(a_store_whose_extend_revives, ExtendRevives: [
    "expiry::extend_of_a_lease_that_has_passed_revives_nothing",
    "faults::an_extend_that_arrives_late_revives_nothing",
    MODEL,
] {
    fn extend(slot: &mut Slot, token: &Token, lease: Span, now: &Now) -> Extended {
        if let Some(p) = pending(slot)
            && p.token == *token
        {
            p.until = p.until.max(now.boot.after(Duration::from_millis(1)));
        }
        machine::extend(slot, token, lease, now)
    }
});

flaw!(a_store_whose_extend_shortens, ExtendShortens: [
    "contract::extend_never_shortens",
    MODEL,
] {
    fn extend(slot: &mut Slot, token: &Token, lease: Span, now: &Now) -> Extended {
        if let Some(p) = pending(slot)
            && p.token == *token
            && p.until > now.boot
        {
            p.until = now.boot.after(Duration::from_millis(1));
        }
        machine::extend(slot, token, lease, now)
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

flaw!(a_store_that_joins_names_carelessly, JoinsCarelessly: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::names_come_back_from_a_list_as_they_were",
] {
    fn key(name: &Name) -> String {
        format!("{}:{}:{}", name.namespace(), name.scope(), name.key())
    }
});

flaw!(a_store_that_ignores_case, IgnoresCase: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::list_keeps_to_its_scope",
] {
    fn key(name: &Name) -> String {
        name.joined().to_lowercase()
    }
});

flaw!(a_store_that_trims_keys, TrimsKeys: ["contract::names_that_look_alike_do_not_meet"] {
    fn key(name: &Name) -> String {
        name.joined().trim_end().to_owned()
    }
});

flaw!(a_store_whose_keys_end_at_nul, EndsAtNul: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::list_finds_a_prefix_to_the_letter",
] {
    fn key(name: &Name) -> String {
        name.joined().split('\0').next().unwrap_or_default().to_owned()
    }
});

flaw!(a_store_that_forgets_the_scope, ForgetsScope: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::list_is_ordered_by_scope_and_then_key",
] {
    fn key(name: &Name) -> String {
        format!("{}:{}{}", name.namespace().len(), name.namespace(), name.key())
    }
});

flaw!(a_store_that_keeps_receipts_as_text, ReceiptsAsText: [
    "contract::receipts_come_back_byte_for_byte",
    "contract::a_late_receipt_comes_back_byte_for_byte",
    "contract::the_codec_comes_back",
] {
    fn receipt(receipt: &Receipt) -> Receipt {
        Receipt::new(receipt.codec.clone(), String::from_utf8_lossy(&receipt.bytes).into_owned())
    }
});

flaw!(a_store_that_cuts_long_receipts, CutsReceipts: [
    "contract::large_receipts_come_back",
    "contract::a_batch_of_large_receipts_is_stored_whole",
] {
    fn receipt(receipt: &Receipt) -> Receipt {
        Receipt::new(receipt.codec.clone(), receipt.bytes.slice(..receipt.bytes.len().min(65_535)))
    }
});

flaw!(a_store_that_sorts_a_batch, SortsBatch: [
    "contract::a_batch_answers_each_request_in_order",
    "contract::a_batch_of_a_thousand_keeps_its_order",
    BATCHES,
] {
    fn batch_order<T: Clone>(batch: &[T], name: impl Fn(&T) -> Name) -> Vec<T> {
        let mut batch = batch.to_vec();
        batch.sort_by_key(name);
        batch
    }
});

flaw!(a_store_that_runs_a_batch_backwards, RunsBackwards: [
    "contract::a_key_that_stands_twice_in_a_batch_is_reserved_once",
    BATCHES,
] {
    fn batch_order<T: Clone>(batch: &[T], _name: impl Fn(&T) -> Name) -> Vec<T> {
        batch.iter().rev().cloned().collect()
    }
});

flaw!(a_store_that_lists_in_the_order_of_joined_names, ListsByJoined: [
    "contract::list_is_ordered_by_scope_and_then_key",
    "contract::pages_pass_over_names_that_are_kept_hashed",
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { limit: usize::MAX, ..req.clone() });
        page.records.sort_by(|(a, _), (b, _)| a.joined().cmp(b.joined()));
        page.more = page.records.len() > req.limit;
        page.records.truncate(req.limit);
        page
    }
});

flaw!(a_store_whose_prefix_ignores_case, PrefixIgnoresCase: [
    "contract::list_finds_a_prefix_to_the_letter",
    MODEL,
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { prefix: String::new(), limit: usize::MAX, ..req.clone() });
        page.records.retain(|(name, _)| name.key().to_lowercase().starts_with(&req.prefix.to_lowercase()));
        page.more = page.records.len() > req.limit;
        page.records.truncate(req.limit);
        page
    }
});

flaw!(a_store_that_filters_a_page_after_cutting_it, FiltersLate: [
    "contract::a_page_of_a_filtered_list_goes_on",
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { state: None, ..req.clone() });
        page.records.retain(|(_, record)| req.state.is_none_or(|state| record.is(state)));
        page
    }
});

flaw!(a_store_whose_pages_begin_with_the_last_record, RepeatsLast: [
    "contract::pages_of_any_size_give_each_record_once",
    MODEL,
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { after: None, limit: usize::MAX, ..req.clone() });
        let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        page.records.retain(|(name, _)| after.is_none_or(|after| (name.scope(), name.key()) >= after));
        page.more = page.records.len() > req.limit;
        page.records.truncate(req.limit);
        page
    }
});

flaw!(a_store_that_prunes_late_results, PrunesLate: [
    "contract::prune_keeps_a_late_result",
    "expiry::pruning_changes_no_answer",
    MODEL,
] {
    fn prunes(slot: &Slot, now: &Now) -> bool {
        matches!(slot, Some(Entry::Pending(p)) if p.until <= now.boot)
    }
});

flaw!(a_store_that_prunes_live_reservations, PrunesLive: [
    "contract::prune_never_removes_what_is_live",
    "races::pruning_takes_nothing_that_is_live",
    MODEL,
] {
    fn prunes(slot: &Slot, _now: &Now) -> bool {
        matches!(slot, Some(Entry::Pending(_)))
    }
});

flaw!(a_store_that_prunes_without_end, PrunesAll: ["contract::prune_stops_at_its_limit"] {
    fn prune_limit(_limit: usize) -> usize {
        usize::MAX
    }
});

flaw!(a_store_with_a_secret_that_changes, SecretChanges: [
    "contract::the_secret_is_the_same_for_all_clients",
    "contract::the_secret_survives_a_restart",
    "races::the_secret_is_made_once",
] {
    fn secret() -> u8 {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
});

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
