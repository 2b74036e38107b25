//! Looking at a key, which writes nothing.

use crate::{
    cases::list,
    fixture::{Fixture, Stop, Verdict, failed, holds, same, says},
    requests::{A, B, C, H, LEASE, R, TTL, did_not, done, name, print, reserve, retake, unknown},
    shown::Shown,
};
use hapax_core::{
    Name,
    idempotency::{Complete, Completed, Record, RecordState, Reserve, Reserved, Resolved, Retaken},
};
use std::collections::HashSet;

list!("contract":
    read_shows_each_state,
    a_peek_says_nothing_or_what_a_read_says,
    tokens_never_come_twice,
    both_clients_see_the_same,
    replays_change_nothing,
    replays_do_not_lengthen_the_ttl,
    refused_callers_do_not_lengthen_the_lease,
    every_answer_with_a_record_carries_the_same_record,
    records_of_different_tokens_have_different_versions,
    the_first_time_is_kept_through_the_whole_life,
);

async fn read_shows_each_state(fx: Fixture) -> Verdict {
    let (vacant, pending, ended, lost) = (name("vacant"), name("pending"), name("ended"), name("lost"));
    fx.held(&pending, A).await?;
    fx.succeeded(&ended, B, "paid").await?;
    fx.unsure(&lost, C, "sent?").await?;
    says(&fx.a.read(&vacant).await?, "vacant")?;
    says(&fx.a.read(&pending).await?, "pending A")?;
    says(&fx.a.read(&ended).await?, "done B paid")?;
    says(&fx.a.read(&lost).await?, "unknown C sent?")
}

async fn a_peek_says_nothing_or_what_a_read_says(fx: Fixture) -> Verdict {
    let names = ["vacant", "pending", "ended", "lost", "late"].map(name);
    let [_, pending, ended, lost, late] = &names;
    fx.held(pending, A).await?;
    fx.succeeded(ended, B, "paid").await?;
    fx.unsure(lost, C, "sent?").await?;
    fx.late_success(late, "paid").await?;
    let look = async || {
        for k in &names {
            let read = fx.a.read(k).await?;
            for peeked in [fx.a.peek(k), fx.b.peek(k)].into_iter().flatten() {
                same("the record", &Some(peeked), &read)?;
            }
        }
        Ok::<_, Stop>(())
    };
    look().await?;
    // The leases pass, and then all else.
    fx.elapse(LEASE).await;
    look().await?;
    fx.elapse(TTL).await;
    for k in &names {
        holds(fx.a.peek(k).is_none(), || "a record that is over was seen".into())?;
    }
    Ok(())
}

async fn tokens_never_come_twice(fx: Fixture) -> Verdict {
    let mut seen = HashSet::new();
    for _ in 0..500 {
        for store in [&fx.a, &fx.b] {
            holds(seen.insert(store.token()?), || "a token came twice".into())?;
        }
    }
    Ok(())
}

async fn both_clients_see_the_same(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    same("the record", &fx.b.read(&k).await?, &fx.a.read(&k).await?)?;
    says(&fx.a.release(&k, &B).await?, "applied")?;
    same("the record", &fx.b.read(&k).await?, &fx.a.read(&k).await?)?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn replays_change_nothing(fx: Fixture) -> Verdict {
    let (ended, lost) = (name("ended"), name("lost"));
    fx.succeeded(&ended, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    for k in [&ended, &lost] {
        let before = fx.a.read(k).await?;
        for token in [B, C, R, H, A] {
            let held = fx.b.reserve(&reserve(k, token)).await?;
            let Reserved::Held(record) = held else { return Err(failed("an ended key was reserved")) };
            same("the record in the answer", &Some(record), &before)?;
        }
        same("the record", &fx.a.read(k).await?, &before)?;
    }
    Ok(())
}

async fn replays_do_not_lengthen_the_ttl(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    for _ in 0..4 {
        says(&fx.b.reserve(&reserve(&k, B)).await?, "held: done A paid")?;
        says(&fx.b.read(&k).await?, "done A paid")?;
        fx.elapse(TTL / 4).await;
    }
    says(&fx.b.read(&k).await?, "vacant")
}

async fn refused_callers_do_not_lengthen_the_lease(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    for _ in 0..4 {
        says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")?;
        fx.elapse(LEASE / 4).await;
    }
    says(&fx.b.reserve(&reserve(&k, B)).await?, "yours")
}

async fn every_answer_with_a_record_carries_the_same_record(fx: Fixture) -> Verdict {
    let (pending, ended, lost) = (name("pending"), name("ended"), name("lost"));
    let mine = print("mine");
    let first = |k: &Name| Reserve { fingerprint: mine, ..reserve(k, A) };
    for k in [&pending, &ended, &lost] {
        says(&fx.a.reserve(&first(k)).await?, "yours")?;
    }
    says(&fx.a.complete(&Complete { fingerprint: mine, ..done(&ended, A, "paid") }).await?, "stored")?;
    says(&fx.a.complete(&Complete { fingerprint: mine, ..unknown(&lost, A, "sent?") }).await?, "stored")?;
    for k in [&pending, &ended, &lost] {
        let Some(record) = fx.a.read(k).await? else { return Err(failed("there is no record")) };
        same("the fingerprint", &record.fingerprint, &mine)?;
        let check = |what: &str, got: Option<Record>| same(what, &got, &Some(record.clone()));
        if let Reserved::Held(held) = fx.b.reserve(&reserve(k, B)).await? {
            check("the answer to reserve", Some(held))?;
        } else {
            return Err(failed("a held key was reserved"));
        }
        if !record.is_pending() {
            match fx.b.complete(&unknown(k, B, "again")).await? {
                Completed::Superseded(held) => check("the answer to complete", Some(held))?,
                other => return Err(failed(format!("complete answers {}", other.shown()))),
            }
        }
        if let Retaken::Changed(held) =
            fx.b.retake_unknown(&retake(if k == &lost { &ended } else { k }, R)).await?
        {
            let record = if k == &lost { fx.a.read(&ended).await? } else { Some(record.clone()) };
            same("the answer to retake", &held, &record)?;
        } else {
            return Err(failed("a key of known outcome was retaken"));
        }
        let stale = hapax_core::idempotency::Resolve { version: Some(H.version()), ..did_not(k, H) };
        match fx.b.resolve(&stale).await? {
            Resolved::Changed(held) => check("the answer to resolve", held)?,
            Resolved::Applied => return Err(failed("a verdict on another version was taken")),
        }
    }
    Ok(())
}

async fn records_of_different_tokens_have_different_versions(fx: Fixture) -> Verdict {
    let k = name("k");
    let mut versions = Vec::new();
    for token in [A, B, C] {
        fx.held(&k, token).await?;
        versions.extend(fx.a.read(&k).await?.map(|record| record.version()));
        says(&fx.a.release(&k, &token).await?, "applied")?;
    }
    same("the versions", &versions, &vec![A.version(), B.version(), C.version()])
}

async fn the_first_time_is_kept_through_the_whole_life(fx: Fixture) -> Verdict {
    let k = name("k");
    let began = fx.now().await?;
    fx.held(&k, A).await?;
    let Some(first) = fx.a.read(&k).await?.map(|record| record.first_at) else {
        return Err(failed("there is no record"));
    };
    fx.instant("first_at", first, began)?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.complete(&unknown(&k, A, "sent?")).await?, "stored")?;
    let unsure = fx.a.read(&k).await?;
    fx.elapse(LEASE).await;
    says(&fx.b.retake_unknown(&retake(&k, R)).await?, "yours")?;
    let asked = fx.a.read(&k).await?;
    fx.elapse(LEASE / 2).await;
    let ended = fx.now().await?;
    says(&fx.b.complete(&done(&k, R, "sent")).await?, "stored")?;
    let known = fx.a.read(&k).await?;
    for (what, record) in [("unknown", unsure), ("asked about", asked), ("done", known.clone())] {
        let got = record.map(|record| record.first_at);
        holds(got == Some(first), || {
            format!("first_at of the record when {what} is {got:?}, not {first:?}")
        })?;
    }
    let Some(Record { state: RecordState::Settled { completed_at, .. }, .. }) = known else {
        return Err(failed("there is no result"));
    };
    fx.instant("completed_at", completed_at, ended)
}
