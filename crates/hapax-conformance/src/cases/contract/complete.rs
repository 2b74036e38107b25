//! Handing in a result that nobody else's is in the way of, or that comes second.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, failed, holds, same, says},
    requests::{A, B, C, LEASE, TTL, done, ms, name, print, receipt, reserve, span, unknown},
    shown::Shown,
};
use hapax_core::idempotency::{Complete, Completed, Kind, Record, RecordState};

list!("contract":
    the_result_of_the_owner_becomes_the_record,
    a_result_says_since_when_and_until_when,
    a_result_on_a_vacant_key_is_stored,
    a_result_after_release_is_stored,
    a_result_over_the_dead_reservation_of_another_is_stored,
    complete_sent_again_is_already_done,
    complete_sent_again_does_not_lengthen_the_ttl,
    a_token_completes_once,
    a_done_record_keeps_its_fingerprint,
    a_second_success_is_superseded,
    a_success_replaces_an_unknown_record,
    an_unknown_replaces_nothing,
    superseded_answers_carry_the_earlier_record,
    a_replaced_unknown_keeps_its_first_time,
);

async fn the_result_of_the_owner_becomes_the_record(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.held(&happened, A).await?;
    says(&fx.b.complete(&done(&happened, A, "paid")).await?, "stored")?;
    says(&fx.a.read(&happened).await?, "done A paid")?;
    fx.held(&lost, A).await?;
    says(&fx.b.complete(&unknown(&lost, A, "sent?")).await?, "stored")?;
    says(&fx.a.read(&lost).await?, "unknown A sent?")
}

async fn a_result_says_since_when_and_until_when(fx: Fixture) -> Verdict {
    let k = name("k");
    let began = fx.now().await?;
    fx.held(&k, A).await?;
    fx.elapse(ms(30_001)).await;
    let ended = fx.now().await?;
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored")?;
    let Some(Record { first_at, until, state: RecordState::Settled { completed_at, .. }, .. }) =
        fx.b.read(&k).await?
    else {
        return Err(failed("there is no result"));
    };
    fx.instant("first_at", first_at, began)?;
    fx.instant("completed_at", completed_at, ended)?;
    fx.instant("until", until, ended.after(TTL))
}

async fn a_result_on_a_vacant_key_is_stored(fx: Fixture) -> Verdict {
    let k = name("k");
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn a_result_after_release_is_stored(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.a.release(&k, &A).await?, "applied")?;
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored")?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: done A paid")
}

async fn a_result_over_the_dead_reservation_of_another_is_stored(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    fx.elapse(LEASE).await;
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored")?;
    // The dead owner was not dead after all.
    says(&fx.b.release(&k, &B).await?, "fenced")?;
    says(&fx.b.extend(&k, &B, span(LEASE)).await?, "fenced")?;
    says(&fx.b.complete(&done(&k, B, "twice")).await?, "superseded: done A paid")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn complete_sent_again_is_already_done(fx: Fixture) -> Verdict {
    for (k, request, record) in [
        (name("happened"), done(&name("happened"), A, "paid"), "done A paid"),
        (name("lost"), unknown(&name("lost"), A, "sent?"), "unknown A sent?"),
    ] {
        fx.held(&k, A).await?;
        says(&fx.a.complete(&request).await?, "stored")?;
        says(&fx.b.complete(&request).await?, "already done")?;
        says(&fx.a.complete(&request).await?, "already done")?;
        says(&fx.b.read(&k).await?, record)?;
    }
    Ok(())
}

async fn complete_sent_again_does_not_lengthen_the_ttl(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    let before = fx.a.read(&k).await?;
    let half = TTL / 2;
    fx.elapse(half).await;
    let longer = Complete { ttl: span(TTL * 10), ..done(&k, A, "paid") };
    says(&fx.b.complete(&longer).await?, "already done")?;
    if fx.exact() {
        same("the record", &fx.a.read(&k).await?, &before)?;
    }
    fx.elapse(half).await;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn a_token_completes_once(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.succeeded(&happened, A, "first").await?;
    says(&fx.a.complete(&done(&happened, A, "second")).await?, "already done")?;
    says(&fx.a.complete(&unknown(&happened, A, "third")).await?, "already done")?;
    says(&fx.b.read(&happened).await?, "done A first")?;
    fx.unsure(&lost, A, "first").await?;
    says(&fx.a.complete(&done(&lost, A, "second")).await?, "already done")?;
    says(&fx.b.read(&lost).await?, "unknown A first")
}

async fn a_done_record_keeps_its_fingerprint(fx: Fixture) -> Verdict {
    for (kind, k) in [(Kind::Done, name("happened")), (Kind::Unknown, name("lost"))] {
        fx.held(&k, A).await?;
        let request = Complete { kind, fingerprint: print("other"), ..done(&k, A, "paid") };
        says(&fx.a.complete(&request).await?, "stored")?;
        let Some(record) = fx.b.read(&k).await? else { return Err(failed("there is no record")) };
        same("the fingerprint", &record.fingerprint, &print("other"))?;
    }
    Ok(())
}

async fn a_second_success_is_superseded(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "first").await?;
    let before = fx.a.read(&k).await?;
    says(&fx.b.complete(&done(&k, B, "second")).await?, "superseded: done A first")?;
    says(&fx.b.complete(&unknown(&k, C, "third")).await?, "superseded: done A first")?;
    same("the record", &fx.a.read(&k).await?, &before)
}

async fn a_success_replaces_an_unknown_record(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    says(&fx.b.complete(&done(&k, B, "sent")).await?, "superseded: unknown A sent?")?;
    says(&fx.a.read(&k).await?, "done B sent")?;
    // From now on it is like any other success.
    says(&fx.b.complete(&done(&k, B, "sent")).await?, "already done")?;
    says(&fx.a.complete(&unknown(&k, A, "sent?")).await?, "superseded: done B sent")?;
    says(&fx.a.complete(&done(&k, C, "again")).await?, "superseded: done B sent")?;
    says(&fx.a.read(&k).await?, "done B sent")
}

async fn an_unknown_replaces_nothing(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.succeeded(&happened, A, "paid").await?;
    says(&fx.b.complete(&unknown(&happened, B, "sent?")).await?, "superseded: done A paid")?;
    says(&fx.a.read(&happened).await?, "done A paid")?;
    fx.unsure(&lost, A, "first").await?;
    says(&fx.b.complete(&unknown(&lost, B, "second")).await?, "superseded: unknown A first")?;
    says(&fx.a.read(&lost).await?, "unknown A first")
}

async fn superseded_answers_carry_the_earlier_record(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    let first = Complete { fingerprint: print("other"), ..unknown(&k, A, "sent?") };
    says(&fx.a.complete(&first).await?, "stored")?;
    let before = fx.a.read(&k).await?;
    let answer = fx.b.complete(&done(&k, B, "sent")).await?;
    let Completed::Superseded(earlier) = answer else {
        return Err(failed(format!("the answer is {}", answer.shown())));
    };
    same("the earlier record", &Some(earlier), &before)?;
    let Some(Record { fingerprint, state: RecordState::Settled { receipt: kept, .. }, .. }) =
        fx.a.read(&k).await?
    else {
        return Err(failed("there is no result"));
    };
    same("the fingerprint", &fingerprint, &print("request"))?;
    same("the receipt", &kept.bytes, &receipt("sent").bytes)
}

async fn a_replaced_unknown_keeps_its_first_time(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    let first = fx.a.read(&k).await?.map(|record| record.first_at);
    fx.elapse(LEASE).await;
    says(&fx.b.complete(&done(&k, B, "sent")).await?, "superseded: unknown A sent?")?;
    let now = fx.a.read(&k).await?.map(|record| record.first_at);
    holds(first.is_some(), || "there was no record".into())?;
    same("first_at", &now, &first)
}
