//! Flaws around leases and ttls.

use super::{MODEL, flaw, pending, settled};
use crate::plain::Flaw;
use hapax_core::{
    BootTime, Now, Span, Token,
    idempotency::{
        Complete, Completed, Extended, Reserve, Reserved,
        machine::{self, Slot},
    },
};
use std::time::Duration;

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
