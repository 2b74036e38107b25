//! Holding a key.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, failed, same, says},
    requests::{A, B, C, H, LEASE, ms, name, print, reserve, span},
    shown::Shown,
};
use hapax_core::{
    Fingerprint,
    idempotency::{Reserve, Reserved},
};

list!("contract":
    a_vacant_key_can_be_reserved,
    a_second_reservation_does_not_overwrite_the_first,
    reserve_says_until_when,
    reserve_sent_again_is_yours,
    reserve_sent_again_does_not_lengthen_the_lease,
    a_done_key_answers_its_record,
    an_unknown_key_answers_its_record,
    a_token_that_completed_is_answered_its_own_record,
    a_refused_caller_can_change_nothing,
    fingerprints_are_kept_and_not_compared,
    every_fingerprint_comes_back_as_it_was,
    a_freed_key_can_be_reserved_again,
);

async fn a_vacant_key_can_be_reserved(fx: Fixture) -> Verdict {
    let k = name("k");
    says(&fx.a.read(&k).await?, "vacant")?;
    says(&fx.a.reserve(&reserve(&k, A)).await?, "yours")?;
    says(&fx.b.read(&k).await?, "pending A")
}

async fn a_second_reservation_does_not_overwrite_the_first(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")?;
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: pending A")?;
    says(&fx.a.read(&k).await?, "pending A")
}

async fn reserve_says_until_when(fx: Fixture) -> Verdict {
    let k = name("k");
    let now = fx.now().await?;
    let Reserved::Yours { until, first_at } = fx.a.reserve(&reserve(&k, A)).await? else {
        return Err(failed("a vacant key is held"));
    };
    fx.instant("until", until, now.after(LEASE))?;
    fx.instant("first_at", first_at, now)?;
    let Some(record) = fx.b.read(&k).await? else { return Err(failed("the key is vacant")) };
    fx.instant("until of the record", record.until, now.after(LEASE))?;
    fx.instant("first_at of the record", record.first_at, now)
}

async fn reserve_sent_again_is_yours(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    says(&fx.b.reserve(&reserve(&k, A)).await?, "yours")?;
    says(&fx.a.reserve(&reserve(&k, A)).await?, "yours")?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")
}

async fn reserve_sent_again_does_not_lengthen_the_lease(fx: Fixture) -> Verdict {
    let k = name("k");
    let now = fx.now().await?;
    fx.held(&k, A).await?;
    fx.elapse(LEASE / 2).await;
    let again = fx.b.reserve(&reserve(&k, A)).await?;
    let Reserved::Yours { until, first_at } = again else {
        return Err(failed(format!("own reservation is {}", again.shown())));
    };
    if fx.exact() {
        same("until", &until, &now.after(LEASE))?;
        same("first_at", &first_at, &now)?;
    }
    fx.elapse(LEASE / 2).await;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn a_done_key_answers_its_record(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: done A paid")?;
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: done A paid")
}

async fn an_unknown_key_answers_its_record(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: unknown A sent?")?;
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: unknown A sent?")
}

async fn a_token_that_completed_is_answered_its_own_record(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    says(&fx.b.reserve(&reserve(&k, A)).await?, "held: done A paid")?;
    says(&fx.a.read(&k).await?, "done A paid")
}

async fn a_refused_caller_can_change_nothing(fx: Fixture) -> Verdict {
    let (pending, done, unknown) = (name("pending"), name("done"), name("unknown"));
    fx.held(&pending, A).await?;
    fx.succeeded(&done, A, "paid").await?;
    fx.unsure(&unknown, A, "sent?").await?;
    for (k, record) in [(&pending, "pending A"), (&done, "done A paid"), (&unknown, "unknown A sent?")] {
        says(&fx.b.reserve(&reserve(k, B)).await?, &format!("held: {record}"))?;
        says(&fx.b.release(k, &B).await?, "fenced")?;
        says(&fx.b.extend(k, &B, span(LEASE * 2)).await?, "fenced")?;
        says(&fx.b.drop_unknown(k, &B).await?, "fenced")?;
        says(&fx.b.release(k, &H).await?, "fenced")?;
        says(&fx.a.read(k).await?, record)?;
    }
    Ok(())
}

async fn fingerprints_are_kept_and_not_compared(fx: Fixture) -> Verdict {
    let k = name("k");
    let (one, two) = (print("one"), print("two"));
    let first = Reserve { fingerprint: one, ..reserve(&k, A) };
    let other = Reserve { fingerprint: two, ..reserve(&k, B) };
    says(&fx.a.reserve(&first).await?, "yours")?;
    let answer = fx.b.reserve(&other).await?;
    let Reserved::Held(record) = &answer else {
        return Err(failed(format!("the answer is {}", answer.shown())));
    };
    same("the fingerprint of what holds the key", &record.fingerprint, &one)?;
    fx.elapse(LEASE + ms(1)).await;
    says(&fx.b.reserve(&other).await?, "yours")
}

async fn every_fingerprint_comes_back_as_it_was(fx: Fixture) -> Verdict {
    let mut rising = [0; 32];
    rising.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
    let prints = [
        Fingerprint::ANY,
        print("request"),
        Fingerprint::from_digest(1, [0; 32]),
        Fingerprint::from_digest(1, [0xff; 32]),
        Fingerprint::from_digest(2, rising),
        Fingerprint::from_digest(256, rising),
        Fingerprint::from_digest(u16::MAX, [0x80; 32]),
    ];
    for (n, fingerprint) in prints.into_iter().enumerate() {
        let k = name(&format!("k{n}"));
        says(&fx.a.reserve(&Reserve { fingerprint, ..reserve(&k, A) }).await?, "yours")?;
        let read = fx.b.read(&k).await?.map(|record| record.fingerprint);
        same("the fingerprint", &read, &Some(fingerprint))?;
    }
    Ok(())
}

async fn a_freed_key_can_be_reserved_again(fx: Fixture) -> Verdict {
    let k = name("k");
    for token in [A, B, C] {
        fx.held(&k, token).await?;
        says(&fx.b.release(&k, &token).await?, "applied")?;
        says(&fx.a.read(&k).await?, "vacant")?;
    }
    Ok(())
}
