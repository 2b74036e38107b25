//! A verdict by hand on an unknown outcome.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, failed, same, says},
    requests::{
        A, B, C, H, LEASE, R, TTL, did_not, done, happened, name, print, receipt, reserve, span, unknown,
    },
};
use hapax_core::idempotency::{Complete, Record, RecordState, Resolution, Resolve};

list!("contract":
    happened_makes_an_unknown_record_done,
    happened_gives_the_record_a_new_ttl,
    happened_keeps_fingerprint_and_first_time,
    did_not_frees_the_key,
    a_verdict_on_the_version_it_saw_applies,
    a_verdict_on_another_version_writes_nothing,
    a_verdict_needs_an_unknown_record,
    a_verdict_does_not_touch_a_key_that_is_being_asked_about,
    a_verdict_finds_the_success_that_came_late,
    happened_sent_again_is_applied,
    did_not_sent_again_finds_what_came_after,
    a_result_after_the_verdict_is_superseded,
    a_success_after_did_not_is_stored,
    a_version_names_the_record_and_not_the_moment,
    a_verdict_with_a_version_does_not_meet_a_later_unknown,
);

async fn happened_makes_an_unknown_record_done(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    says(&fx.b.resolve(&happened(&k, H, "sent")).await?, "applied")?;
    says(&fx.a.read(&k).await?, "done H sent")?;
    says(&fx.a.reserve(&reserve(&k, B)).await?, "held: done H sent")
}

async fn happened_gives_the_record_a_new_ttl(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    fx.elapse(TTL / 2).await;
    let now = fx.now().await?;
    let resolution = Resolution::Happened { receipt: receipt("sent"), ttl: span(TTL * 3) };
    says(&fx.b.resolve(&Resolve { resolution, ..did_not(&k, H) }).await?, "applied")?;
    let until = fx.a.read(&k).await?.map(|record| record.until).unwrap_or_default();
    fx.instant("until", until, now.after(TTL * 3))?;
    fx.elapse(TTL * 2).await;
    says(&fx.a.read(&k).await?, "done H sent")?;
    fx.elapse(TTL).await;
    says(&fx.a.read(&k).await?, "vacant")
}

async fn happened_keeps_fingerprint_and_first_time(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    let lost = Complete { fingerprint: print("other"), ..unknown(&k, A, "sent?") };
    says(&fx.a.complete(&lost).await?, "stored")?;
    let Some(before) = fx.a.read(&k).await? else { return Err(failed("there is no record")) };
    fx.elapse(LEASE).await;
    let now = fx.now().await?;
    says(&fx.b.resolve(&happened(&k, H, "sent")).await?, "applied")?;
    let Some(Record { fingerprint, first_at, state: RecordState::Settled { completed_at, .. }, .. }) =
        fx.a.read(&k).await?
    else {
        return Err(failed("there is no result"));
    };
    same("the fingerprint", &fingerprint, &before.fingerprint)?;
    same("first_at", &first_at, &before.first_at)?;
    fx.instant("completed_at", completed_at, now)
}

async fn did_not_frees_the_key(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    says(&fx.b.resolve(&did_not(&k, H)).await?, "applied")?;
    says(&fx.a.read(&k).await?, "vacant")?;
    fx.held(&k, B).await
}

async fn a_verdict_on_the_version_it_saw_applies(fx: Fixture) -> Verdict {
    let (yes, no) = (name("yes"), name("no"));
    for (k, verdict, record) in
        [(&yes, happened(&yes, H, "sent"), "done H sent"), (&no, did_not(&no, H), "vacant")]
    {
        fx.unsure(k, A, "sent?").await?;
        let version = fx.a.read(k).await?.map(|record| record.version());
        same("the version", &version, &Some(A.version()))?;
        says(&fx.b.resolve(&Resolve { version, ..verdict }).await?, "applied")?;
        says(&fx.a.read(k).await?, record)?;
    }
    Ok(())
}

async fn a_verdict_on_another_version_writes_nothing(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    let before = fx.a.read(&k).await?;
    for verdict in [happened(&k, H, "sent"), did_not(&k, H)] {
        let stale = Resolve { version: Some(B.version()), ..verdict };
        says(&fx.b.resolve(&stale).await?, "changed: unknown A sent?")?;
        same("the record", &fx.a.read(&k).await?, &before)?;
    }
    Ok(())
}

async fn a_verdict_needs_an_unknown_record(fx: Fixture) -> Verdict {
    let (vacant, pending, ended) = (name("vacant"), name("pending"), name("ended"));
    fx.held(&pending, A).await?;
    fx.succeeded(&ended, A, "paid").await?;
    for (k, record) in [(&vacant, "vacant"), (&pending, "pending A"), (&ended, "done A paid")] {
        for verdict in [happened(k, H, "sent"), did_not(k, H)] {
            for version in [None, Some(A.version())] {
                let verdict = Resolve { version, ..verdict.clone() };
                says(&fx.b.resolve(&verdict).await?, &format!("changed: {record}"))?;
                says(&fx.a.read(k).await?, record)?;
            }
        }
    }
    Ok(())
}

async fn a_verdict_does_not_touch_a_key_that_is_being_asked_about(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    says(&fx.a.resolve(&did_not(&k, H)).await?, "changed: pending R")?;
    says(&fx.a.resolve(&happened(&k, H, "sent")).await?, "changed: pending R")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.b.read(&k).await?, "unknown A sent?")?;
    says(&fx.a.resolve(&did_not(&k, H)).await?, "applied")
}

async fn a_verdict_finds_the_success_that_came_late(fx: Fixture) -> Verdict {
    let (replaced, kept) = (name("replaced"), name("kept"));
    // The unknown record gave way to a success.
    fx.unsure(&replaced, A, "sent?").await?;
    says(&fx.b.complete(&done(&replaced, B, "sent")).await?, "superseded: unknown A sent?")?;
    says(&fx.a.resolve(&did_not(&replaced, H)).await?, "changed: done B sent")?;
    says(&fx.a.read(&replaced).await?, "done B sent")?;
    // It gave way while somebody was asking, and that somebody died.
    fx.retaken(&kept, "sent?").await?;
    says(&fx.b.complete(&done(&kept, B, "sent")).await?, "stored late")?;
    fx.elapse(LEASE).await;
    says(&fx.a.resolve(&did_not(&kept, H)).await?, "changed: done B sent")?;
    says(&fx.a.read(&kept).await?, "done B sent")
}

async fn happened_sent_again_is_applied(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    let seen = Resolve { version: Some(A.version()), ..happened(&k, H, "sent") };
    says(&fx.a.resolve(&seen).await?, "applied")?;
    fx.elapse(TTL / 2).await;
    says(&fx.b.resolve(&seen).await?, "applied")?;
    says(&fx.a.read(&k).await?, "done H sent")?;
    // Without more time.
    fx.elapse(TTL / 2).await;
    says(&fx.a.read(&k).await?, "vacant")
}

async fn did_not_sent_again_finds_what_came_after(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    says(&fx.a.resolve(&did_not(&k, H)).await?, "applied")?;
    says(&fx.b.resolve(&did_not(&k, H)).await?, "changed: vacant")?;
    fx.held(&k, B).await?;
    says(&fx.b.resolve(&did_not(&k, H)).await?, "changed: pending B")?;
    says(&fx.a.read(&k).await?, "pending B")
}

async fn a_result_after_the_verdict_is_superseded(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "sent?").await?;
    says(&fx.a.resolve(&happened(&k, H, "sent")).await?, "applied")?;
    says(&fx.b.complete(&unknown(&k, A, "sent?")).await?, "superseded: done H sent")?;
    says(&fx.b.complete(&done(&k, B, "again")).await?, "superseded: done H sent")?;
    says(&fx.b.read(&k).await?, "done H sent")
}

async fn a_success_after_did_not_is_stored(fx: Fixture) -> Verdict {
    let (vacant, taken) = (name("vacant"), name("taken"));
    for k in [&vacant, &taken] {
        fx.unsure(k, A, "sent?").await?;
        says(&fx.a.resolve(&did_not(k, H)).await?, "applied")?;
    }
    says(&fx.b.complete(&done(&vacant, B, "sent")).await?, "stored")?;
    says(&fx.b.read(&vacant).await?, "done B sent")?;
    fx.held(&taken, C).await?;
    says(&fx.b.complete(&done(&taken, B, "sent")).await?, "stored late")?;
    says(&fx.b.release(&taken, &C).await?, "applied")?;
    says(&fx.b.read(&taken).await?, "done B sent")
}

async fn a_version_names_the_record_and_not_the_moment(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.retaken(&k, "sent?").await?;
    let asked = fx.a.read(&k).await?.map(|record| record.version());
    same("the version while somebody asks", &asked, &Some(R.version()))?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    // Nobody could tell: it is the record that was seen before, so a verdict on it still stands.
    let back = fx.a.read(&k).await?.map(|record| record.version());
    same("the version of the record that came back", &back, &Some(A.version()))?;
    let seen = Resolve { version: Some(A.version()), ..did_not(&k, H) };
    says(&fx.b.resolve(&seen).await?, "applied")
}

async fn a_verdict_with_a_version_does_not_meet_a_later_unknown(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.unsure(&k, A, "first?").await?;
    let seen = Resolve { version: Some(A.version()), ..did_not(&k, H) };
    says(&fx.a.resolve(&seen).await?, "applied")?;
    fx.unsure(&k, B, "second?").await?;
    says(&fx.b.resolve(&seen).await?, "changed: unknown B second?")?;
    says(&fx.a.read(&k).await?, "unknown B second?")
}
