//! Asking about an unknown outcome while holding its key: retake, drop.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, failed, same, says},
    requests::{A, B, C, D, LEASE, R, TTL, done, name, print, reserve, retake, span, unknown},
    shown::Shown,
};
use hapax_core::idempotency::{Complete, Reserved, Retake, Retaken};

list!("contract":
    retake_holds_an_unknown_key,
    retake_says_until_when_and_since_when,
    retake_needs_an_unknown_record,
    retake_of_two_has_one_winner,
    retake_sent_again_is_yours,
    an_undecided_resolver_brings_the_unknown_back,
    a_dead_resolver_brings_the_unknown_back,
    a_forced_out_resolver_brings_the_unknown_back,
    the_unknown_comes_back_with_its_first_ttl,
    a_resolver_can_complete,
    drop_unknown_forgets_the_unknown,
    drop_unknown_is_refused_when_a_success_came,
    drop_unknown_needs_the_token_that_holds_the_key,
    drop_unknown_sent_again_is_dropped,
    drop_unknown_of_a_plain_reservation_changes_nothing,
    an_unknown_that_comes_late_to_a_resolver_changes_nothing,
    the_effect_runs_under_the_resolvers_token,
);

async fn retake_holds_an_unknown_key(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    says(&fx.b.retake_unknown(&retake(&k, R)).await?, "yours")?;
    says(&fx.a.read(&k).await?, "pending R")?;
    says(&fx.a.reserve(&reserve(&k, B)).await?, "held: pending R")
}

async fn retake_says_until_when_and_since_when(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    let first = fx.a.read(&k).await?.map(|record| record.first_at);
    fx.elapse(LEASE * 2).await;
    let now = fx.now().await?;
    let request = Retake { fingerprint: print("asked"), ..retake(&k, R) };
    let answer = fx.b.retake_unknown(&request).await?;
    let Retaken::Yours { until, first_at } = answer else {
        return Err(failed(format!("an unknown key is {}", answer.shown())));
    };
    fx.instant("until", until, now.after(LEASE))?;
    same("first_at", &Some(first_at), &first)?;
    let Some(record) = fx.a.read(&k).await? else { return Err(failed("there is no record")) };
    same("the fingerprint of the reservation", &record.fingerprint, &print("asked"))?;
    same("first_at of the reservation", &Some(record.first_at), &first)
}

async fn retake_needs_an_unknown_record(fx: Fixture) -> Verdict {
    let (vacant, pending, ended, passed) = (name("vacant"), name("pending"), name("ended"), name("passed"));
    fx.held(&passed, A).await?;
    fx.elapse(LEASE).await;
    fx.held(&pending, A).await?;
    fx.succeeded(&ended, A, "paid").await?;
    let states = [(&vacant, "vacant"), (&passed, "vacant"), (&pending, "pending A"), (&ended, "done A paid")];
    for (k, record) in states {
        says(&fx.b.retake_unknown(&retake(k, R)).await?, &format!("changed: {record}"))?;
        says(&fx.a.read(k).await?, record)?;
    }
    Ok(())
}

async fn retake_of_two_has_one_winner(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    says(&fx.a.retake_unknown(&retake(&k, B)).await?, "changed: pending R")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.a.retake_unknown(&retake(&k, B)).await?, "yours")
}

async fn retake_sent_again_is_yours(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    let before = fx.a.read(&k).await?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.retake_unknown(&retake(&k, R)).await?, "yours")?;
    if fx.exact() {
        same("the reservation", &fx.a.read(&k).await?, &before)?;
    }
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&k).await?, "unknown A sent?")
}

async fn an_undecided_resolver_brings_the_unknown_back(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    let before = fx.a.read(&k).await?;
    for token in [R, B, C] {
        says(&fx.b.retake_unknown(&retake(&k, token)).await?, "yours")?;
        says(&fx.b.release(&k, &token).await?, "applied")?;
        same("the record", &fx.a.read(&k).await?, &before)?;
    }
    Ok(())
}

async fn a_dead_resolver_brings_the_unknown_back(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    let before = fx.a.read(&k).await?;
    says(&fx.b.retake_unknown(&retake(&k, R)).await?, "yours")?;
    fx.elapse(LEASE).await;
    says(&fx.a.reserve(&reserve(&k, B)).await?, "held: unknown A sent?")?;
    if fx.exact() {
        same("the record", &fx.a.read(&k).await?, &before)?;
    }
    says(&fx.a.retake_unknown(&retake(&k, B)).await?, "yours")
}

async fn a_forced_out_resolver_brings_the_unknown_back(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    says(&fx.a.force_release(&k).await?, "applied")?;
    says(&fx.a.read(&k).await?, "unknown A sent?")?;
    says(&fx.b.drop_unknown(&k, &R).await?, "fenced")?;
    says(&fx.b.extend(&k, &R, span(LEASE)).await?, "fenced")
}

async fn the_unknown_comes_back_with_its_first_ttl(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    fx.elapse(TTL.saturating_sub(LEASE)).await;
    says(&fx.b.retake_unknown(&retake(&k, R)).await?, "yours")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.a.read(&k).await?, "unknown A sent?")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&k).await?, "vacant")
}

async fn a_resolver_can_complete(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    says(&fx.b.complete(&done(&k, R, "sent")).await?, "stored")?;
    says(&fx.a.read(&k).await?, "done R sent")?;
    says(&fx.b.complete(&done(&k, R, "sent")).await?, "already done")?;
    says(&fx.a.complete(&unknown(&k, A, "sent?")).await?, "superseded: done R sent")
}

async fn drop_unknown_forgets_the_unknown(fx: Fixture) -> Verdict {
    let (released, passed) = (name("released"), name("passed"));
    fx.retaken(&released, "sent?").await?;
    says(&fx.a.drop_unknown(&released, &R).await?, "dropped")?;
    says(&fx.a.read(&released).await?, "pending R")?;
    says(&fx.b.release(&released, &R).await?, "applied")?;
    says(&fx.a.read(&released).await?, "vacant")?;
    fx.retaken(&passed, "sent?").await?;
    says(&fx.a.drop_unknown(&passed, &R).await?, "dropped")?;
    fx.elapse(LEASE).await;
    says(&fx.a.reserve(&reserve(&passed, B)).await?, "yours")
}

async fn drop_unknown_is_refused_when_a_success_came(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    says(&fx.a.complete(&done(&k, B, "sent")).await?, "stored late")?;
    says(&fx.b.drop_unknown(&k, &R).await?, "refused")?;
    says(&fx.b.drop_unknown(&k, &R).await?, "refused")?;
    says(&fx.b.read(&k).await?, "pending R")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.a.read(&k).await?, "done B sent")
}

async fn drop_unknown_needs_the_token_that_holds_the_key(fx: Fixture) -> Verdict {
    let (asked, passed, lost, vacant) = (name("asked"), name("passed"), name("lost"), name("vacant"));
    fx.retaken(&passed, "sent?").await?;
    fx.elapse(LEASE).await;
    says(&fx.b.drop_unknown(&passed, &R).await?, "fenced")?;
    says(&fx.a.read(&passed).await?, "unknown A sent?")?;
    fx.retaken(&asked, "sent?").await?;
    says(&fx.b.drop_unknown(&asked, &A).await?, "fenced")?;
    says(&fx.b.drop_unknown(&asked, &B).await?, "fenced")?;
    says(&fx.b.release(&asked, &R).await?, "applied")?;
    says(&fx.b.drop_unknown(&asked, &R).await?, "fenced")?;
    says(&fx.a.read(&asked).await?, "unknown A sent?")?;
    fx.unsure(&lost, A, "sent?").await?;
    says(&fx.b.drop_unknown(&lost, &A).await?, "fenced")?;
    says(&fx.a.read(&lost).await?, "unknown A sent?")?;
    says(&fx.b.drop_unknown(&vacant, &A).await?, "fenced")
}

async fn drop_unknown_sent_again_is_dropped(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    says(&fx.a.drop_unknown(&k, &R).await?, "dropped")?;
    says(&fx.b.drop_unknown(&k, &R).await?, "dropped")?;
    says(&fx.b.read(&k).await?, "pending R")?;
    // It does not reach what came after it.
    says(&fx.a.complete(&done(&k, R, "sent")).await?, "stored")?;
    says(&fx.b.drop_unknown(&k, &R).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "done R sent")
}

async fn drop_unknown_of_a_plain_reservation_changes_nothing(fx: Fixture) -> Verdict {
    let (plain, late) = (name("plain"), name("late"));
    fx.held(&plain, A).await?;
    says(&fx.a.drop_unknown(&plain, &A).await?, "dropped")?;
    says(&fx.b.read(&plain).await?, "pending A")?;
    fx.late_success(&late, "paid").await?;
    says(&fx.b.drop_unknown(&late, &B).await?, "refused")?;
    says(&fx.b.release(&late, &B).await?, "applied")?;
    says(&fx.a.read(&late).await?, "done A paid")
}

async fn an_unknown_that_comes_late_to_a_resolver_changes_nothing(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "first?").await?;
    says(&fx.a.complete(&unknown(&k, B, "second?")).await?, "stored late")?;
    says(&fx.a.complete(&unknown(&k, A, "first?")).await?, "stored late")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.a.read(&k).await?, "unknown A first?")
}

async fn the_effect_runs_under_the_resolvers_token(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    says(&fx.b.drop_unknown(&k, &R).await?, "dropped")?;
    let answer = fx.b.reserve(&reserve(&k, R)).await?;
    let Reserved::Yours { .. } = answer else {
        return Err(failed(format!("the resolver's key is {}", answer.shown())));
    };
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: pending R")?;
    let result = Complete { ttl: span(TTL * 2), ..done(&k, R, "sent") };
    says(&fx.b.complete(&result).await?, "stored")?;
    says(&fx.a.complete(&unknown(&k, D, "sent?")).await?, "superseded: done R sent")?;
    says(&fx.a.read(&k).await?, "done R sent")
}
