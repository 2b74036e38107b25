//! A record that somebody has forgotten by hand, so that its effect may happen again.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, says},
    requests::{A, B, C, H, LEASE, R, done, forget, name, reserve},
};
use hapax_core::idempotency::{Resolution, Resolve};

list!("contract":
    a_forgotten_record_is_gone,
    forgetting_does_not_touch_a_reservation,
    forgetting_needs_the_version_that_was_seen,
    forgetting_sent_again_does_not_meet_what_came_after,
    a_late_result_that_became_the_record_is_forgotten,
    a_result_after_forgetting_is_stored,
);

async fn a_forgotten_record_is_gone(fx: Fixture) -> Verdict {
    let (happened, lost) = (name("happened"), name("lost"));
    fx.succeeded(&happened, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    for k in [&happened, &lost] {
        says(&fx.b.resolve(&forget(k, H, A)).await?, "applied")?;
        says(&fx.a.read(k).await?, "vacant")?;
        fx.held(k, B).await?;
        says(&fx.a.complete(&done(k, B, "again")).await?, "stored")?;
        says(&fx.b.read(k).await?, "done B again")?;
    }
    Ok(())
}

async fn forgetting_does_not_touch_a_reservation(fx: Fixture) -> Verdict {
    let (vacant, pending, asked) = (name("vacant"), name("pending"), name("asked"));
    fx.held(&pending, A).await?;
    fx.retaken(&asked, "sent?").await?;
    says(&fx.b.resolve(&forget(&vacant, H, A)).await?, "changed: vacant")?;
    says(&fx.b.resolve(&forget(&pending, H, A)).await?, "changed: pending A")?;
    // Neither the one who asks, nor what lies beside.
    for seen in [R, A] {
        says(&fx.b.resolve(&forget(&asked, H, seen)).await?, "changed: pending R")?;
    }
    says(&fx.a.release(&asked, &R).await?, "applied")?;
    says(&fx.a.read(&asked).await?, "unknown A sent?")
}

async fn forgetting_needs_the_version_that_was_seen(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    says(&fx.b.resolve(&forget(&k, H, B)).await?, "changed: done A paid")?;
    let blind = Resolve { version: None, resolution: Resolution::Forget, ..forget(&k, H, A) };
    says(&fx.b.resolve(&blind).await?, "changed: done A paid")?;
    says(&fx.a.read(&k).await?, "done A paid")
}

async fn forgetting_sent_again_does_not_meet_what_came_after(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    says(&fx.a.resolve(&forget(&k, H, A)).await?, "applied")?;
    says(&fx.b.resolve(&forget(&k, H, A)).await?, "changed: vacant")?;
    fx.held(&k, B).await?;
    says(&fx.b.resolve(&forget(&k, H, A)).await?, "changed: pending B")?;
    says(&fx.a.complete(&done(&k, B, "again")).await?, "stored")?;
    says(&fx.b.resolve(&forget(&k, H, A)).await?, "changed: done B again")
}

async fn a_late_result_that_became_the_record_is_forgotten(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    fx.elapse(LEASE).await;
    fx.held(&k, B).await?;
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored late")?;
    fx.elapse(LEASE).await;
    says(&fx.b.resolve(&forget(&k, H, A)).await?, "applied")?;
    says(&fx.a.read(&k).await?, "vacant")?;
    says(&fx.a.extend(&k, &B, crate::requests::span(LEASE)).await?, "fenced")
}

async fn a_result_after_forgetting_is_stored(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.succeeded(&k, A, "paid").await?;
    says(&fx.a.resolve(&forget(&k, H, A)).await?, "applied")?;
    says(&fx.b.complete(&done(&k, A, "paid")).await?, "stored")?;
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: done A paid")
}
