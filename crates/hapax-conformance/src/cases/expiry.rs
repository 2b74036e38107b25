//! What time changes. It passes by `elapse` alone.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, holds, same, says},
    requests::{
        A, B, C, D, H, LEASE, R, TTL, did_not, done, happened, ms, name, nth_token, print, reserve, retake,
        span, unknown,
    },
    shown::Shown,
};
use hapax_core::{
    Span,
    idempotency::{Complete, Reserve},
};
use std::time::Duration;

list!("expiry":
    expired_lease_can_be_taken,
    a_lease_is_live_to_its_last_moment,
    a_result_answers_to_its_last_moment,
    a_verdict_answers_to_its_last_moment,
    a_retaken_key_is_held_to_its_last_moment,
    an_extended_lease_ends_at_its_new_end,
    extend_at_the_last_moment_counts,
    extend_of_a_lease_that_has_passed_revives_nothing,
    extend_of_a_passed_lease_does_not_hide_a_late_result,
    a_lease_that_has_passed_is_no_reservation,
    an_owner_whose_lease_has_passed_can_complete,
    an_owner_whose_lease_has_passed_can_reserve_again,
    an_unknown_outcome_outlives_its_lease,
    a_late_result_has_its_own_ttl,
    a_late_result_that_is_over_is_not_promoted,
    a_late_result_that_is_over_makes_room,
    a_late_success_that_is_over_does_not_stop_a_resolver,
    an_owners_unknown_stands_when_the_late_success_is_over,
    an_unknown_that_is_over_cannot_be_retaken,
    an_unknown_that_is_over_cannot_be_resolved,
    an_unknown_that_ends_while_it_is_asked_about_is_gone,
    a_result_after_the_ttl_is_stored_again,
    keys_end_each_at_its_own_time,
    odd_milliseconds_are_kept,
    pruning_changes_no_answer,
    many_owners_can_die_one_after_another,
    dates_far_ahead_work,
);

async fn expired_lease_can_be_taken(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    fx.elapse(LEASE).await;
    // Whatever the fingerprint, and whoever comes.
    let other = Reserve { fingerprint: print("other"), ..reserve(&k, B) };
    says(&fx.b.reserve(&other).await?, "yours")?;
    says(&fx.a.reserve(&reserve(&k, A)).await?, "held: pending B")?;
    let kept = fx.a.read(&k).await?.map(|record| record.fingerprint);
    same("the fingerprint", &kept, &Some(print("other")))
}

async fn a_lease_is_live_to_its_last_moment(fx: Fixture) -> Verdict {
    let (before, rest) = fx.split(LEASE);
    let (k, l) = (name("k"), name("l"));
    fx.held(&k, A).await?;
    fx.held(&l, A).await?;
    fx.elapse(before).await;
    says(&fx.b.read(&k).await?, "pending A")?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")?;
    says(&fx.a.reserve(&reserve(&k, A)).await?, "yours")?;
    fx.elapse(rest).await;
    says(&fx.b.read(&k).await?, "vacant")?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "yours")?;
    says(&fx.b.reserve(&reserve(&l, B)).await?, "yours")
}

async fn a_result_answers_to_its_last_moment(fx: Fixture) -> Verdict {
    let (before, rest) = fx.split(TTL);
    let (ended, lost) = (name("ended"), name("lost"));
    fx.succeeded(&ended, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    fx.elapse(before).await;
    says(&fx.b.reserve(&reserve(&ended, B)).await?, "held: done A paid")?;
    says(&fx.b.reserve(&reserve(&lost, B)).await?, "held: unknown A sent?")?;
    says(&fx.a.complete(&done(&ended, A, "paid")).await?, "already done")?;
    fx.elapse(rest).await;
    for k in [&ended, &lost] {
        says(&fx.b.read(k).await?, "vacant")?;
        says(&fx.b.reserve(&reserve(k, B)).await?, "yours")?;
    }
    Ok(())
}

async fn a_verdict_answers_to_its_last_moment(fx: Fixture) -> Verdict {
    let (before, rest) = fx.split(TTL);
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    fx.elapse(TTL / 2).await;
    says(&fx.a.resolve(&happened(&k, H, "sent")).await?, "applied")?;
    fx.elapse(before).await;
    says(&fx.b.read(&k).await?, "done H sent")?;
    fx.elapse(rest).await;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn a_retaken_key_is_held_to_its_last_moment(fx: Fixture) -> Verdict {
    let (before, rest) = fx.split(LEASE);
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    fx.elapse(before).await;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending R")?;
    fx.elapse(rest).await;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: unknown A sent?")
}

async fn an_extended_lease_ends_at_its_new_end(fx: Fixture) -> Verdict {
    let (before, rest) = fx.split(LEASE);
    let k = name("k");
    fx.held(&k, A).await?;
    for _ in 0..3 {
        fx.elapse(LEASE / 2).await;
        says(&fx.b.extend(&k, &A, span(LEASE)).await?, "extended")?;
    }
    fx.elapse(before).await;
    says(&fx.b.read(&k).await?, "pending A")?;
    fx.elapse(rest).await;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn extend_at_the_last_moment_counts(fx: Fixture) -> Verdict {
    let (before, rest) = fx.split(LEASE);
    let k = name("k");
    fx.held(&k, A).await?;
    fx.elapse(before).await;
    says(&fx.a.extend(&k, &A, span(LEASE)).await?, "extended")?;
    fx.elapse(rest).await;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")
}

async fn extend_of_a_lease_that_has_passed_revives_nothing(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    fx.elapse(LEASE).await;
    says(&fx.a.extend(&k, &A, span(LEASE)).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "vacant")?;
    fx.held(&k, B).await?;
    says(&fx.a.extend(&k, &A, span(LEASE)).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "pending B")
}

async fn extend_of_a_passed_lease_does_not_hide_a_late_result(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    fx.elapse(LEASE).await;
    says(&fx.b.extend(&k, &B, span(LEASE)).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn a_lease_that_has_passed_is_no_reservation(fx: Fixture) -> Verdict {
    let (plain, late) = (name("plain"), name("late"));
    fx.late_success(&late, "paid").await?;
    fx.held(&plain, B).await?;
    fx.elapse(LEASE).await;
    // A store may have forgotten the reservation by now or not, so the answer to its owner's release is either.
    for (k, record) in [(&plain, "vacant"), (&late, "done A paid")] {
        says(&fx.a.force_release(k).await?, "fenced")?;
        says(&fx.b.drop_unknown(k, &B).await?, "fenced")?;
        let _either = fx.b.release(k, &B).await?;
        says(&fx.a.read(k).await?, record)?;
    }
    Ok(())
}

async fn an_owner_whose_lease_has_passed_can_complete(fx: Fixture) -> Verdict {
    let (alone, late, lost) = (name("alone"), name("late"), name("lost"));
    fx.late_success(&late, "paid").await?;
    fx.late_unknown(&lost, "sent?").await?;
    // The scene before let time pass.
    fx.elapse(LEASE).await;
    fx.held(&alone, A).await?;
    fx.elapse(LEASE).await;
    says(&fx.a.complete(&done(&alone, A, "paid")).await?, "stored")?;
    says(&fx.b.reserve(&reserve(&alone, B)).await?, "held: done A paid")?;
    says(&fx.b.complete(&done(&late, B, "again")).await?, "superseded: done A paid")?;
    says(&fx.a.read(&late).await?, "done A paid")?;
    says(&fx.b.complete(&done(&lost, B, "sent")).await?, "superseded: unknown A sent?")?;
    says(&fx.a.read(&lost).await?, "done B sent")
}

async fn an_owner_whose_lease_has_passed_can_reserve_again(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    fx.elapse(LEASE).await;
    let now = fx.now().await?;
    says(&fx.a.reserve(&reserve(&k, A)).await?, "yours")?;
    let until = fx.b.read(&k).await?.map(|record| record.until).unwrap_or_default();
    fx.instant("until", until, now.after(LEASE))?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")
}

async fn an_unknown_outcome_outlives_its_lease(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    fx.elapse(LEASE * 10).await;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: unknown A sent?")
}

async fn a_late_result_has_its_own_ttl(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    says(&fx.a.complete(&Complete { ttl: span(LEASE * 5), ..done(&k, A, "paid") }).await?, "stored late")?;
    fx.elapse(LEASE).await;
    let (before, rest) = fx.split(LEASE * 4);
    fx.elapse(before).await;
    says(&fx.b.read(&k).await?, "done A paid")?;
    fx.elapse(rest).await;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn a_late_result_that_is_over_is_not_promoted(fx: Fixture) -> Verdict {
    let (released, forced, passed) = (name("released"), name("forced"), name("passed"));
    for k in [&released, &forced, &passed] {
        fx.held(k, A).await?;
    }
    fx.elapse(LEASE).await;
    for k in [&released, &forced, &passed] {
        fx.held(k, B).await?;
        let short = Complete { ttl: span(LEASE / 2), ..done(k, A, "paid") };
        says(&fx.a.complete(&short).await?, "stored late")?;
    }
    fx.elapse(LEASE / 2).await;
    says(&fx.b.release(&released, &B).await?, "applied")?;
    says(&fx.a.read(&released).await?, "vacant")?;
    says(&fx.a.force_release(&forced).await?, "applied")?;
    says(&fx.a.read(&forced).await?, "vacant")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&passed).await?, "vacant")?;
    says(&fx.a.reserve(&reserve(&passed, C)).await?, "yours")
}

async fn a_late_result_that_is_over_makes_room(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    let short = Complete { ttl: span(LEASE / 4), ..done(&k, A, "first") };
    says(&fx.a.complete(&short).await?, "stored late")?;
    says(&fx.a.complete(&unknown(&k, C, "second")).await?, "stored late")?;
    fx.elapse(LEASE / 4).await;
    says(&fx.a.complete(&unknown(&k, D, "third")).await?, "stored late")?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&fx.a.read(&k).await?, "unknown D third")
}

async fn a_late_success_that_is_over_does_not_stop_a_resolver(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    let short = Complete { ttl: span(LEASE / 4), ..done(&k, B, "sent") };
    says(&fx.a.complete(&short).await?, "stored late")?;
    says(&fx.b.drop_unknown(&k, &R).await?, "refused")?;
    fx.elapse(LEASE / 4).await;
    says(&fx.b.drop_unknown(&k, &R).await?, "dropped")
}

async fn an_owners_unknown_stands_when_the_late_success_is_over(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    let short = Complete { ttl: span(LEASE / 4), ..done(&k, A, "paid") };
    says(&fx.a.complete(&short).await?, "stored late")?;
    fx.elapse(LEASE / 4).await;
    says(&fx.b.complete(&unknown(&k, B, "paid?")).await?, "stored")?;
    says(&fx.a.read(&k).await?, "unknown B paid?")
}

async fn an_unknown_that_is_over_cannot_be_retaken(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    fx.elapse(TTL).await;
    says(&fx.b.retake_unknown(&retake(&k, R)).await?, "changed: vacant")?;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn an_unknown_that_is_over_cannot_be_resolved(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    fx.elapse(TTL).await;
    says(&fx.b.resolve(&happened(&k, H, "sent")).await?, "changed: vacant")?;
    says(&fx.b.resolve(&did_not(&k, H)).await?, "changed: vacant")?;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn an_unknown_that_ends_while_it_is_asked_about_is_gone(fx: Fixture) -> Verdict {
    let (released, passed) = (name("released"), name("passed"));
    for k in [&released, &passed] {
        fx.unsure(k, A, "sent?").await?;
    }
    fx.elapse(TTL.saturating_sub(LEASE / 2)).await;
    for k in [&released, &passed] {
        says(&fx.b.retake_unknown(&retake(k, R)).await?, "yours")?;
    }
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&released).await?, "pending R")?;
    says(&fx.b.release(&released, &R).await?, "applied")?;
    says(&fx.a.read(&released).await?, "vacant")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&passed).await?, "vacant")
}

async fn a_result_after_the_ttl_is_stored_again(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    fx.elapse(TTL).await;
    // A request that was on its way all the time: it holds the key once more, and nothing runs.
    says(&fx.b.complete(&done(&k, A, "paid")).await?, "stored")?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: done A paid")
}

async fn keys_end_each_at_its_own_time(fx: Fixture) -> Verdict {
    let step = Duration::from_mins(1);
    for n in 1..=12u32 {
        let (lease, k, l) = (span(step * n), name(&format!("held {n}")), name(&format!("ended {n}")));
        says(&fx.a.reserve(&Reserve { lease, ..reserve(&k, A) }).await?, "yours")?;
        says(&fx.a.complete(&Complete { ttl: lease, ..done(&l, A, "paid") }).await?, "stored")?;
    }
    for passed in 1..=12u32 {
        fx.elapse(step).await;
        for n in 1..=12u32 {
            let over = n <= passed;
            says(&fx.b.read(&name(&format!("held {n}"))).await?, if over { "vacant" } else { "pending A" })?;
            says(
                &fx.b.read(&name(&format!("ended {n}"))).await?,
                if over { "vacant" } else { "done A paid" },
            )?;
        }
    }
    Ok(())
}

async fn odd_milliseconds_are_kept(fx: Fixture) -> Verdict {
    for (n, length) in [7, 499, 500, 501, 999, 1_000, 1_001, 1_999, 59_999, 3_600_001].into_iter().enumerate()
    {
        let k = name(&format!("k{n}"));
        let lease = span(ms(length));
        says(&fx.a.reserve(&Reserve { lease, ..reserve(&k, A) }).await?, "yours")?;
        if fx.exact() {
            let now = fx.now().await?;
            let until = fx.b.read(&k).await?.map(|record| record.until);
            same("until", &until, &Some(now.after(ms(length))))?;
            fx.elapse(ms(length - 1)).await;
            says(&fx.b.read(&k).await?, "pending A")?;
            fx.elapse(ms(1)).await;
        } else {
            fx.elapse(ms(length)).await;
        }
        says(&fx.b.read(&k).await?, "vacant")?;
    }
    Ok(())
}

async fn pruning_changes_no_answer(fx: Fixture) -> Verdict {
    for (at, prune) in [false, true].into_iter().enumerate() {
        let [k, l, m, n] = ["k", "l", "m", "n"].map(|key| name(&format!("{key}{at}")));
        let swept = async || if prune { fx.b.prune(1_000).await } else { Ok(0) };
        fx.taken_over(&k).await?;
        fx.held(&m, A).await?;
        fx.unsure(&n, A, "sent?").await?;
        says(&fx.b.retake_unknown(&retake(&n, R)).await?, "yours")?;
        says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored late")?;
        fx.held(&l, A).await?;
        swept().await?;
        fx.elapse(LEASE).await;
        swept().await?;
        says(&fx.a.complete(&done(&l, A, "paid")).await?, "stored")?;
        says(&fx.a.reserve(&reserve(&k, C)).await?, "held: done A paid")?;
        says(&fx.a.extend(&m, &A, span(LEASE)).await?, "fenced")?;
        says(&fx.a.reserve(&reserve(&n, C)).await?, "held: unknown A sent?")?;
        fx.elapse(TTL).await;
        swept().await?;
        says(&fx.a.reserve(&reserve(&k, C)).await?, "yours")?;
        says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored late")?;
        says(&fx.a.complete(&done(&n, R, "sent")).await?, "stored")?;
    }
    Ok(())
}

async fn many_owners_can_die_one_after_another(fx: Fixture) -> Verdict {
    let k = name("k");
    for n in 0..50 {
        let answer = fx.a.reserve(&reserve(&k, nth_token(n))).await?;
        holds(answer.shown() == "yours", || format!("owner {n} is answered {:?}", answer.shown()))?;
        fx.elapse(LEASE).await;
    }
    // The first of them was not dead.
    says(&fx.b.complete(&done(&k, nth_token(0), "paid")).await?, "stored")?;
    says(&fx.b.complete(&done(&k, nth_token(49), "again")).await?, "superseded: done ? paid")
}

async fn dates_far_ahead_work(fx: Fixture) -> Verdict {
    // Past the ends of seconds in 31 and in 32 bits.
    for n in 0..80 {
        fx.elapse(Span::MAX.get()).await;
        if n % 8 == 7 {
            let k = name(&format!("k{n}"));
            fx.late_success(&k, "paid").await?;
            says(&fx.b.reserve(&reserve(&k, C)).await?, "held: pending B")?;
            fx.elapse(LEASE).await;
            says(&fx.b.reserve(&reserve(&k, C)).await?, "held: done A paid")?;
            fx.elapse(TTL).await;
            says(&fx.b.read(&k).await?, "vacant")?;
        }
    }
    Ok(())
}
