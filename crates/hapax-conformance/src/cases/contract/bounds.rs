//! The shortest and the longest durations.

use crate::{
    cases::list,
    fixture::{Fixture, Verdict, failed, says},
    requests::{A, B, C, R, TTL, did_not, done, name, receipt, reserve, retake, unknown},
};
use hapax_core::{
    Span,
    idempotency::{Complete, Extended, Reserve, Reserved, Resolution, Resolve, Retake},
};
use std::time::Duration;

list!("contract":
    the_longest_durations_are_kept,
    the_shortest_durations_are_accepted,
    the_shortest_late_result_is_accepted,
);

async fn the_longest_durations_are_kept(fx: Fixture) -> Verdict {
    let (held, ended, asked, resolved, renewed) =
        (name("held"), name("ended"), name("asked"), name("resolved"), name("renewed"));
    let now = fx.now().await?;
    let until = now.after(Span::MAX.get());
    let answer = fx.a.reserve(&Reserve { lease: Span::MAX, ..reserve(&held, A) }).await?;
    let Reserved::Yours { until: got, .. } = answer else { return Err(failed("a vacant key is held")) };
    fx.instant("until of a reservation", got, until)?;
    fx.held(&renewed, A).await?;
    let Extended::Until(got) = fx.b.extend(&renewed, &A, Span::MAX).await? else {
        return Err(failed("a live lease is fenced"));
    };
    fx.instant("until of an extension", got, until)?;
    says(&fx.a.complete(&Complete { ttl: Span::MAX, ..done(&ended, A, "paid") }).await?, "stored")?;
    says(&fx.a.complete(&Complete { ttl: Span::MAX, ..unknown(&asked, A, "sent?") }).await?, "stored")?;
    says(&fx.b.retake_unknown(&Retake { lease: Span::MAX, ..retake(&asked, R) }).await?, "yours")?;
    fx.unsure(&resolved, A, "sent?").await?;
    let resolution = Resolution::Happened { receipt: receipt("sent"), ttl: Span::MAX };
    says(&fx.b.resolve(&Resolve { resolution, ..did_not(&resolved, B) }).await?, "applied")?;
    let all = [
        (&held, "pending A"),
        (&renewed, "pending A"),
        (&ended, "done A paid"),
        (&asked, "pending R"),
        (&resolved, "done B sent"),
    ];
    for (k, record) in all {
        let got = fx.a.read(k).await?;
        says(&got, record)?;
        fx.instant("until", got.map(|record| record.until).unwrap_or_default(), until)?;
    }
    fx.elapse(Span::MAX.get().saturating_sub(Duration::from_hours(24))).await;
    for (k, record) in all {
        says(&fx.a.read(k).await?, record)?;
    }
    fx.elapse(Duration::from_hours(24)).await;
    for (k, _) in all {
        says(&fx.b.read(k).await?, "vacant")?;
    }
    Ok(())
}

async fn the_shortest_durations_are_accepted(fx: Fixture) -> Verdict {
    let (held, ended, asked, resolved) = (name("held"), name("ended"), name("asked"), name("resolved"));
    says(&fx.a.reserve(&Reserve { lease: Span::MIN, ..reserve(&held, A) }).await?, "yours")?;
    says(&fx.a.complete(&Complete { ttl: Span::MIN, ..done(&ended, A, "paid") }).await?, "stored")?;
    fx.unsure(&asked, A, "sent?").await?;
    says(&fx.b.retake_unknown(&Retake { lease: Span::MIN, ..retake(&asked, R) }).await?, "yours")?;
    fx.unsure(&resolved, A, "sent?").await?;
    let resolution = Resolution::Happened { receipt: receipt("sent"), ttl: Span::MIN };
    says(&fx.b.resolve(&Resolve { resolution, ..did_not(&resolved, B) }).await?, "applied")?;
    if fx.exact() {
        // A millisecond is not nothing.
        says(&fx.b.read(&held).await?, "pending A")?;
        says(&fx.b.read(&ended).await?, "done A paid")?;
        says(&fx.b.read(&asked).await?, "pending R")?;
        says(&fx.b.read(&resolved).await?, "done B sent")?;
    }
    fx.elapse(Duration::from_millis(1)).await;
    says(&fx.b.reserve(&reserve(&held, B)).await?, "yours")?;
    says(&fx.b.reserve(&reserve(&ended, B)).await?, "yours")?;
    says(&fx.b.read(&asked).await?, "unknown A sent?")?;
    says(&fx.b.reserve(&reserve(&resolved, B)).await?, "yours")
}

async fn the_shortest_late_result_is_accepted(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.taken_over(&k).await?;
    says(&fx.a.complete(&Complete { ttl: Span::MIN, ..done(&k, A, "paid") }).await?, "stored late")?;
    fx.elapse(Duration::from_millis(1)).await;
    says(&fx.b.read(&k).await?, "pending B")?;
    // A result that is over makes room for another.
    says(&fx.a.complete(&Complete { ttl: Span::MIN, ..unknown(&k, C, "sent?") }).await?, "stored late")?;
    fx.elapse(TTL).await;
    says(&fx.b.read(&k).await?, "vacant")
}
