//! Renewing and ending a reservation: extend, release, forced release.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, failed, same, says},
    requests::{A, B, C, LEASE, R, TTL, done, name, reserve, span},
    shown::Shown,
};
use hapax_core::idempotency::Extended;

list!("contract":
    extend_moves_the_end_of_a_live_lease,
    extend_never_shortens,
    extend_does_not_make_a_vacant_key_pending,
    extend_of_another_token_is_fenced,
    extend_of_an_ended_key_is_fenced,
    extend_after_release_is_fenced,
    extend_does_not_change_the_first_time,
    a_resolver_can_extend,
    release_frees_the_key,
    release_sent_again_is_fenced,
    stale_token_cannot_release,
    release_of_a_vacant_key_is_fenced,
    release_of_an_ended_key_is_fenced,
    release_sent_again_does_not_touch_the_next_owner,
    a_forced_release_frees_a_key_whoever_holds_it,
    a_forced_release_needs_a_live_reservation,
    a_forced_out_owner_is_fenced,
    the_result_of_a_forced_out_owner_still_counts,
);

async fn extend_moves_the_end_of_a_live_lease(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    fx.elapse(LEASE / 2).await;
    let now = fx.now().await?;
    let answer = fx.b.extend(&k, &A, span(LEASE)).await?;
    let Extended::Until(until) = answer else {
        return Err(failed(format!("a live lease is {}", answer.shown())));
    };
    fx.instant("until", until, now.after(LEASE))?;
    let read = fx.a.read(&k).await?.map(|record| record.until).unwrap_or_default();
    fx.instant("until of the record", read, until)?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.read(&k).await?, "pending A")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn extend_never_shortens(fx: Fixture) -> Verdict {
    let k = name("k");
    let now = fx.now().await?;
    fx.held(&k, A).await?;
    let answer = fx.b.extend(&k, &A, span(LEASE / 4)).await?;
    let Extended::Until(until) = answer else {
        return Err(failed(format!("a live lease is {}", answer.shown())));
    };
    fx.instant("until", until, now.after(LEASE))?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.read(&k).await?, "pending A")
}

async fn extend_does_not_make_a_vacant_key_pending(fx: Fixture) -> Verdict {
    let k = name("k");
    says(&fx.a.extend(&k, &A, span(LEASE)).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn extend_of_another_token_is_fenced(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    says(&fx.a.extend(&k, &A, span(LEASE * 9)).await?, "fenced")?;
    says(&fx.a.extend(&k, &C, span(LEASE * 9)).await?, "fenced")?;
    says(&fx.a.read(&k).await?, "pending B")?;
    fx.elapse(LEASE).await;
    says(&fx.a.read(&k).await?, "vacant")
}

async fn extend_of_an_ended_key_is_fenced(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.succeeded(&happened, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    for (k, record) in [(&happened, "done A paid"), (&lost, "unknown A sent?")] {
        let before = fx.a.read(k).await?;
        says(&before, record)?;
        says(&fx.b.extend(k, &A, span(TTL * 2)).await?, "fenced")?;
        same("the record", &fx.a.read(k).await?, &before)?;
    }
    Ok(())
}

async fn extend_after_release_is_fenced(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.a.release(&k, &A).await?, "applied")?;
    says(&fx.b.extend(&k, &A, span(LEASE)).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn extend_does_not_change_the_first_time(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    let first = fx.a.read(&k).await?.map(|record| (record.first_at, record.version(), record.fingerprint));
    fx.elapse(LEASE / 2).await;
    says(&fx.b.extend(&k, &A, span(LEASE)).await?, "extended")?;
    let now = fx.a.read(&k).await?.map(|record| (record.first_at, record.version(), record.fingerprint));
    same("first_at, version and fingerprint", &now, &first)
}

async fn a_resolver_can_extend(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.extend(&k, &R, span(LEASE)).await?, "extended")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&k).await?, "pending R")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.a.read(&k).await?, "unknown A sent?")
}

async fn release_frees_the_key(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.b.release(&k, &A).await?, "applied")?;
    says(&fx.a.read(&k).await?, "vacant")?;
    fx.held(&k, B).await
}

async fn release_sent_again_is_fenced(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.a.release(&k, &A).await?, "applied")?;
    says(&fx.b.release(&k, &A).await?, "fenced")?;
    says(&fx.a.read(&k).await?, "vacant")
}

async fn stale_token_cannot_release(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    says(&fx.a.release(&k, &A).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "pending B")?;
    // Nor with a result of its own beside the newer owner.
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored late")?;
    says(&fx.a.release(&k, &A).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "pending B")
}

async fn release_of_a_vacant_key_is_fenced(fx: Fixture) -> Verdict {
    let k = name("k");
    says(&fx.a.release(&k, &A).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn release_of_an_ended_key_is_fenced(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.succeeded(&happened, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    for (k, record) in [(&happened, "done A paid"), (&lost, "unknown A sent?")] {
        says(&fx.a.release(k, &A).await?, "fenced")?;
        says(&fx.a.release(k, &B).await?, "fenced")?;
        says(&fx.b.read(k).await?, record)?;
    }
    Ok(())
}

async fn release_sent_again_does_not_touch_the_next_owner(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.a.release(&k, &A).await?, "applied")?;
    fx.held(&k, B).await?;
    says(&fx.a.release(&k, &A).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "pending B")?;
    says(&fx.b.complete(&done(&k, B, "paid")).await?, "stored")?;
    says(&fx.a.release(&k, &A).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "done B paid")
}

async fn a_forced_release_frees_a_key_whoever_holds_it(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.b.force_release(&k).await?, "applied")?;
    says(&fx.a.read(&k).await?, "vacant")?;
    says(&fx.b.force_release(&k).await?, "fenced")?;
    fx.held(&k, B).await
}

async fn a_forced_release_needs_a_live_reservation(fx: Fixture) -> Verdict {
    let (vacant, happened, lost, passed) = (name("vacant"), name("happened"), name("lost"), name("passed"));
    fx.held(&passed, A).await?;
    fx.elapse(LEASE).await;
    fx.succeeded(&happened, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    let states =
        [(&vacant, "vacant"), (&passed, "vacant"), (&happened, "done A paid"), (&lost, "unknown A sent?")];
    for (k, record) in states {
        says(&fx.b.force_release(k).await?, "fenced")?;
        says(&fx.a.read(k).await?, record)?;
    }
    Ok(())
}

async fn a_forced_out_owner_is_fenced(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.b.force_release(&k).await?, "applied")?;
    says(&fx.a.extend(&k, &A, span(LEASE)).await?, "fenced")?;
    says(&fx.a.release(&k, &A).await?, "fenced")?;
    fx.held(&k, B).await?;
    says(&fx.a.extend(&k, &A, span(LEASE)).await?, "fenced")?;
    says(&fx.a.release(&k, &A).await?, "fenced")?;
    says(&fx.b.reserve(&reserve(&k, C)).await?, "held: pending B")
}

async fn the_result_of_a_forced_out_owner_still_counts(fx: Fixture) -> Verdict {
    let (vacant, taken, ended) = (name("vacant"), name("taken"), name("ended"));
    for k in [&vacant, &taken, &ended] {
        fx.held(k, A).await?;
        says(&fx.b.force_release(k).await?, "applied")?;
    }
    says(&fx.a.complete(&done(&vacant, A, "paid")).await?, "stored")?;
    says(&fx.b.reserve(&reserve(&vacant, B)).await?, "held: done A paid")?;
    fx.held(&taken, B).await?;
    says(&fx.a.complete(&done(&taken, A, "paid")).await?, "stored late")?;
    says(&fx.b.release(&taken, &B).await?, "applied")?;
    says(&fx.b.read(&taken).await?, "done A paid")?;
    fx.succeeded(&ended, B, "again").await?;
    says(&fx.a.complete(&done(&ended, A, "paid")).await?, "superseded: done B again")
}
