//! Removing what is over.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, same, says},
    requests::{A, B, C, LEASE, TTL, done, ms, name, reserve, span},
};
use hapax_core::idempotency::Complete;

list!("contract":
    prune_removes_what_is_over,
    prune_stops_at_its_limit,
    prune_never_removes_what_is_live,
    prune_keeps_a_late_result,
    prune_of_an_empty_store_removes_nothing,
);

async fn prune_removes_what_is_over(fx: Fixture) -> Verdict {
    for key in ["a", "b", "c"] {
        fx.succeeded(&name(key), A, "paid").await?;
    }
    fx.elapse(TTL).await;
    fx.held(&name("live"), A).await?;
    same("how many went", &fx.b.prune(100).await?, &3)?;
    same("how many went then", &fx.a.prune(100).await?, &0)?;
    says(&fx.a.read(&name("live")).await?, "pending A")?;
    says(&fx.a.read(&name("a")).await?, "vacant")
}

async fn prune_stops_at_its_limit(fx: Fixture) -> Verdict {
    for n in 0..7 {
        fx.held(&name(&format!("k{n}")), A).await?;
    }
    fx.elapse(LEASE).await;
    for (limit, went) in [(0, 0), (3, 3), (1, 1), (100, 3), (100, 0)] {
        same("how many went", &fx.b.prune(limit).await?, &went)?;
    }
    Ok(())
}

async fn prune_never_removes_what_is_live(fx: Fixture) -> Verdict {
    let (held, ended, lost, asked, renewed) =
        (name("held"), name("ended"), name("lost"), name("asked"), name("renewed"));
    fx.held(&renewed, A).await?;
    says(&fx.a.extend(&renewed, &A, span(TTL)).await?, "extended")?;
    let short = Complete { ttl: span(ms(1)), ..done(&name("short"), A, "paid") };
    says(&fx.a.complete(&short).await?, "stored")?;
    fx.elapse(LEASE).await;
    fx.held(&held, A).await?;
    fx.succeeded(&ended, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    fx.retaken(&asked, "sent?").await?;
    same("how many went", &fx.b.prune(100).await?, &1)?;
    says(&fx.a.read(&held).await?, "pending A")?;
    says(&fx.a.read(&ended).await?, "done A paid")?;
    says(&fx.a.read(&lost).await?, "unknown A sent?")?;
    says(&fx.a.read(&asked).await?, "pending R")?;
    says(&fx.a.read(&renewed).await?, "pending A")
}

async fn prune_keeps_a_late_result(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.late_success(&k, "paid").await?;
    fx.elapse(LEASE).await;
    same("how many went", &fx.b.prune(100).await?, &0)?;
    says(&fx.a.read(&k).await?, "done A paid")?;
    says(&fx.a.reserve(&reserve(&k, C)).await?, "held: done A paid")?;
    says(&fx.a.complete(&done(&k, B, "again")).await?, "superseded: done A paid")?;
    fx.elapse(TTL).await;
    same("how many went then", &fx.b.prune(100).await?, &1)?;
    says(&fx.a.read(&k).await?, "vacant")
}

async fn prune_of_an_empty_store_removes_nothing(fx: Fixture) -> Verdict {
    same("how many went", &fx.a.prune(100).await?, &0)?;
    same("how many went", &fx.b.prune(usize::MAX).await?, &0)
}
