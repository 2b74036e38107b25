//! Results that come while a newer owner holds the key.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, failed, same, says},
    requests::{A, B, C, D, LEASE, TTL, done, ms, name, print, reserve, span, unknown},
};
use hapax_core::idempotency::{Complete, Record, RecordState};

list!("contract":
    a_late_result_is_kept_beside_the_newer_owner,
    release_lets_the_late_result_take_its_place,
    a_lease_that_passes_lets_the_late_result_take_its_place,
    a_forced_release_lets_the_late_result_take_its_place,
    a_reservation_never_starts_over_a_kept_result,
    a_late_success_replaces_a_late_unknown,
    a_late_result_replaces_no_late_success,
    a_late_unknown_replaces_no_late_unknown,
    a_late_result_keeps_its_fingerprint_and_times,
    a_late_result_sent_again_changes_nothing,
    a_promoted_result_sent_again_is_already_done,
    the_owners_success_goes_before_a_late_one,
    the_owners_success_goes_before_a_late_unknown,
    the_owners_unknown_does_not_hide_a_late_success,
    the_owners_unknown_goes_before_a_late_one,
    extending_keeps_the_late_result,
    the_owner_resending_its_reservation_keeps_the_late_result,
);

async fn a_late_result_is_kept_beside_the_newer_owner(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    says(&fx.a.read(&k).await?, "pending B")?;
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: pending B")
}

async fn release_lets_the_late_result_take_its_place(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.late_success(&happened, "paid").await?;
    says(&fx.b.release(&happened, &B).await?, "applied")?;
    says(&fx.a.read(&happened).await?, "done A paid")?;
    fx.late_unknown(&lost, "sent?").await?;
    says(&fx.b.release(&lost, &B).await?, "applied")?;
    says(&fx.a.read(&lost).await?, "unknown A sent?")
}

async fn a_lease_that_passes_lets_the_late_result_take_its_place(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.late_success(&happened, "paid").await?;
    fx.late_unknown(&lost, "sent?").await?;
    fx.elapse(LEASE).await;
    says(&fx.a.read(&happened).await?, "done A paid")?;
    says(&fx.a.read(&lost).await?, "unknown A sent?")
}

async fn a_forced_release_lets_the_late_result_take_its_place(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.late_success(&happened, "paid").await?;
    says(&fx.a.force_release(&happened).await?, "applied")?;
    says(&fx.b.read(&happened).await?, "done A paid")?;
    fx.late_unknown(&lost, "sent?").await?;
    says(&fx.a.force_release(&lost).await?, "applied")?;
    says(&fx.b.read(&lost).await?, "unknown A sent?")
}

async fn a_reservation_never_starts_over_a_kept_result(fx: Fixture) -> Verdict {
    // However the reservation beside it ended, and without a read in between.
    let (released, passed, forced) = (name("released"), name("passed"), name("forced"));
    fx.late_success(&passed, "paid").await?;
    fx.elapse(LEASE).await;
    says(&fx.a.reserve(&reserve(&passed, C)).await?, "held: done A paid")?;
    fx.late_success(&released, "paid").await?;
    says(&fx.b.release(&released, &B).await?, "applied")?;
    says(&fx.a.reserve(&reserve(&released, C)).await?, "held: done A paid")?;
    fx.late_unknown(&forced, "sent?").await?;
    says(&fx.b.force_release(&forced).await?, "applied")?;
    says(&fx.a.reserve(&reserve(&forced, C)).await?, "held: unknown A sent?")
}

async fn a_late_success_replaces_a_late_unknown(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_unknown(&k, "sent?").await?;
    says(&fx.a.complete(&done(&k, C, "sent")).await?, "stored late")?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&fx.a.read(&k).await?, "done C sent")
}

async fn a_late_result_replaces_no_late_success(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "first").await?;
    says(&fx.a.complete(&done(&k, C, "second")).await?, "stored late")?;
    says(&fx.a.complete(&unknown(&k, D, "third")).await?, "stored late")?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&fx.a.read(&k).await?, "done A first")
}

async fn a_late_unknown_replaces_no_late_unknown(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_unknown(&k, "first").await?;
    says(&fx.a.complete(&unknown(&k, C, "second")).await?, "stored late")?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&fx.a.read(&k).await?, "unknown A first")
}

async fn a_late_result_keeps_its_fingerprint_and_times(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    fx.elapse(ms(12_345)).await;
    let came = fx.now().await?;
    let late = Complete { fingerprint: print("late"), ttl: span(TTL * 2), ..done(&k, A, "paid") };
    says(&fx.a.complete(&late).await?, "stored late")?;
    fx.elapse(ms(1_234)).await;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    let Some(Record { fingerprint, until, state: RecordState::Settled { completed_at, .. }, .. }) =
        fx.b.read(&k).await?
    else {
        return Err(failed("there is no result"));
    };
    same("the fingerprint", &fingerprint, &print("late"))?;
    if fx.exact() {
        same("completed_at", &completed_at, &came)?;
        same("until", &until, &came.after(TTL * 2))?;
    }
    Ok(())
}

async fn a_late_result_sent_again_changes_nothing(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.complete(&done(&k, A, "paid")).await?, "stored late")?;
    says(&fx.a.complete(&done(&k, A, "changed")).await?, "stored late")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&k).await?, "done A paid")?;
    fx.elapse(TTL.saturating_sub(LEASE)).await;
    says(&fx.a.read(&k).await?, "vacant")
}

async fn a_promoted_result_sent_again_is_already_done(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "already done")?;
    says(&fx.b.complete(&done(&k, B, "again")).await?, "superseded: done A paid")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn the_owners_success_goes_before_a_late_one(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "late").await?;
    says(&fx.b.complete(&done(&k, B, "own")).await?, "stored")?;
    says(&fx.a.read(&k).await?, "done B own")?;
    says(&fx.a.complete(&done(&k, A, "late")).await?, "superseded: done B own")?;
    says(&fx.b.complete(&done(&k, B, "own")).await?, "already done")
}

async fn the_owners_success_goes_before_a_late_unknown(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_unknown(&k, "late").await?;
    says(&fx.b.complete(&done(&k, B, "own")).await?, "stored")?;
    says(&fx.a.read(&k).await?, "done B own")
}

async fn the_owners_unknown_does_not_hide_a_late_success(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    says(&fx.b.complete(&unknown(&k, B, "sent?")).await?, "stored")?;
    says(&fx.a.read(&k).await?, "done A paid")?;
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: done A paid")
}

async fn the_owners_unknown_goes_before_a_late_one(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_unknown(&k, "late").await?;
    says(&fx.b.complete(&unknown(&k, B, "own")).await?, "stored")?;
    says(&fx.a.read(&k).await?, "unknown B own")
}

async fn extending_keeps_the_late_result(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    says(&fx.b.extend(&k, &B, span(LEASE * 2)).await?, "extended")?;
    fx.elapse(LEASE).await;
    says(&fx.b.read(&k).await?, "pending B")?;
    fx.elapse(LEASE).await;
    says(&fx.a.read(&k).await?, "done A paid")
}

async fn the_owner_resending_its_reservation_keeps_the_late_result(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    says(&fx.a.reserve(&reserve(&k, B)).await?, "yours")?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&fx.a.read(&k).await?, "done A paid")
}
