//! Many requests in one call.

use crate::{
    cases::list,
    fixture::{Fixture, Stop, Verdict, same, says},
    requests::{A, B, C, LEASE, TTL, done, name, nth_token, print, receipt, reserve, span, unknown},
    shown::Shown,
};
use hapax_core::{
    Name, StoreError, Token,
    idempotency::{Complete, RecordState, Reserve},
};

list!("contract":
    a_batch_answers_each_request_in_order,
    a_key_that_stands_twice_in_a_batch_is_reserved_once,
    a_batch_of_results_answers_each_in_order,
    a_result_that_stands_twice_in_a_batch_is_stored_once,
    a_batch_of_extensions_answers_each_in_order,
    a_batch_of_releases_answers_each_in_order,
    an_empty_batch_has_no_answers,
    a_batch_of_a_thousand_keeps_its_order,
    a_batch_keeps_each_fingerprint_and_receipt,
    a_batch_of_large_receipts_is_stored_whole,
    a_batch_sent_again_is_harmless,
);

/// All answers in one text.
fn answers<T: Shown>(answers: Vec<Result<T, StoreError>>) -> Result<String, Stop> {
    let answers: Result<Vec<_>, _> =
        answers.into_iter().map(|answer| answer.map(|answer| answer.shown())).collect();
    Ok(answers?.join(", "))
}

async fn a_batch_answers_each_request_in_order(fx: Fixture) -> Verdict {
    let (vacant, held, ended, lost) = (name("vacant"), name("held"), name("ended"), name("lost"));
    fx.held(&held, A).await?;
    fx.succeeded(&ended, A, "paid").await?;
    fx.unsure(&lost, A, "sent?").await?;
    let batch =
        [reserve(&lost, B), reserve(&vacant, B), reserve(&held, B), reserve(&ended, B), reserve(&held, A)];
    let got = answers(fx.b.reserve_many(&batch).await)?;
    let expected = "held: unknown A sent?, yours, held: pending A, held: done A paid, yours";
    same("the answers", &got.as_str(), &expected)?;
    says(&fx.a.read(&vacant).await?, "pending B")
}

async fn a_key_that_stands_twice_in_a_batch_is_reserved_once(fx: Fixture) -> Verdict {
    let (k, l) = (name("k"), name("l"));
    let batch = [reserve(&k, B), reserve(&k, A), reserve(&l, C), reserve(&k, B), reserve(&l, A)];
    let got = answers(fx.a.reserve_many(&batch).await)?;
    same("the answers", &got.as_str(), &"yours, held: pending B, yours, yours, held: pending C")?;
    says(&fx.b.read(&k).await?, "pending B")?;
    says(&fx.b.read(&l).await?, "pending C")
}

async fn a_batch_of_results_answers_each_in_order(fx: Fixture) -> Verdict {
    let (own, late, ended, vacant) = (name("own"), name("late"), name("ended"), name("vacant"));
    fx.taken_over(&late).await?;
    fx.held(&own, A).await?;
    fx.succeeded(&ended, B, "paid").await?;
    let batch = [
        done(&late, A, "late"),
        done(&ended, B, "paid"),
        done(&own, A, "own"),
        done(&ended, A, "x"),
        done(&vacant, A, "v"),
    ];
    let got = answers(fx.b.complete_many(&batch).await)?;
    same(
        "the answers",
        &got.as_str(),
        &"stored late, already done, stored, superseded: done B paid, stored",
    )?;
    says(&fx.a.read(&late).await?, "pending B")?;
    says(&fx.a.read(&own).await?, "done A own")?;
    says(&fx.a.read(&vacant).await?, "done A v")
}

async fn a_result_that_stands_twice_in_a_batch_is_stored_once(fx: Fixture) -> Verdict {
    let (k, l) = (name("k"), name("l"));
    fx.held(&k, A).await?;
    fx.held(&l, A).await?;
    let batch = [
        done(&k, A, "first"),
        done(&k, A, "again"),
        unknown(&l, A, "sent?"),
        done(&k, B, "x"),
        done(&l, C, "sent"),
    ];
    let got = answers(fx.b.complete_many(&batch).await)?;
    let expected = "stored, already done, stored, superseded: done A first, superseded: unknown A sent?";
    same("the answers", &got.as_str(), &expected)?;
    says(&fx.a.read(&k).await?, "done A first")?;
    says(&fx.a.read(&l).await?, "done C sent")
}

async fn a_batch_of_extensions_answers_each_in_order(fx: Fixture) -> Verdict {
    let (held, other, vacant, ended) = (name("held"), name("other"), name("vacant"), name("ended"));
    fx.held(&held, A).await?;
    fx.held(&other, B).await?;
    fx.succeeded(&ended, A, "paid").await?;
    let ask = |k: &Name, token: Token| (k.clone(), token, span(LEASE * 2));
    let batch =
        [ask(&ended, A), ask(&held, A), ask(&other, A), ask(&vacant, A), ask(&other, B), ask(&held, A)];
    let got = answers(fx.b.extend_many(&batch).await)?;
    same("the answers", &got.as_str(), &"fenced, extended, fenced, fenced, extended, extended")?;
    fx.elapse(LEASE).await;
    says(&fx.a.read(&held).await?, "pending A")?;
    says(&fx.a.read(&other).await?, "pending B")?;
    says(&fx.a.read(&vacant).await?, "vacant")
}

async fn a_batch_of_releases_answers_each_in_order(fx: Fixture) -> Verdict {
    let (held, other, vacant, late) = (name("held"), name("other"), name("vacant"), name("late"));
    fx.late_success(&late, "paid").await?;
    fx.held(&held, A).await?;
    fx.held(&other, B).await?;
    let ask = |k: &Name, token: Token| (k.clone(), token);
    let batch = [ask(&other, A), ask(&held, A), ask(&vacant, A), ask(&late, B), ask(&held, A)];
    let got = answers(fx.b.release_many(&batch).await)?;
    same("the answers", &got.as_str(), &"fenced, applied, fenced, applied, fenced")?;
    says(&fx.a.read(&held).await?, "vacant")?;
    says(&fx.a.read(&other).await?, "pending B")?;
    says(&fx.a.read(&late).await?, "done A paid")
}

async fn an_empty_batch_has_no_answers(fx: Fixture) -> Verdict {
    same("answers to reserve", &fx.a.reserve_many(&[]).await.len(), &0)?;
    same("answers to complete", &fx.a.complete_many(&[]).await.len(), &0)?;
    same("answers to extend", &fx.a.extend_many(&[]).await.len(), &0)?;
    same("answers to release", &fx.a.release_many(&[]).await.len(), &0)
}

async fn a_batch_of_a_thousand_keeps_its_order(fx: Fixture) -> Verdict {
    let names: Vec<_> = (0..1000).map(|n| name(&format!("key {}", (n * 7919) % 1000))).collect();
    // Every third is somebody else's before.
    for k in names.iter().step_by(3) {
        fx.held(k, A).await?;
    }
    let tokens: Vec<_> = (0..names.len()).map(nth_token).collect();
    let mine = |n: usize| !n.is_multiple_of(3);
    let batch: Vec<_> = names.iter().zip(&tokens).map(|(k, token)| reserve(k, *token)).collect();
    for (n, answer) in fx.b.reserve_many(&batch).await.into_iter().enumerate() {
        says(&answer?, if mine(n) { "yours" } else { "held: pending A" })?;
    }
    let batch: Vec<_> = names.iter().zip(&tokens).map(|(k, token)| (k.clone(), *token, span(TTL))).collect();
    for (n, answer) in fx.b.extend_many(&batch).await.into_iter().enumerate() {
        says(&answer?, if mine(n) { "extended" } else { "fenced" })?;
    }
    let half = names.len() / 2;
    let batch: Vec<_> =
        names.iter().zip(&tokens).map(|(k, token)| done(k, *token, k.key())).take(half).collect();
    for (n, answer) in fx.b.complete_many(&batch).await.into_iter().enumerate() {
        says(&answer?, if mine(n) { "stored" } else { "stored late" })?;
    }
    let batch: Vec<_> = names.iter().zip(&tokens).map(|(k, token)| (k.clone(), *token)).skip(half).collect();
    for (n, answer) in fx.b.release_many(&batch).await.into_iter().enumerate() {
        says(&answer?, if mine(n + half) { "applied" } else { "fenced" })?;
    }
    for (n, k) in names.iter().enumerate() {
        let expected = match (mine(n), n < half) {
            (true, true) => format!("done ? {}", k.key()),
            (true, false) => "vacant".into(),
            (false, _) => "pending A".into(),
        };
        says(&fx.a.read(k).await?, &expected)?;
    }
    Ok(())
}

async fn a_batch_keeps_each_fingerprint_and_receipt(fx: Fixture) -> Verdict {
    let names: Vec<_> = (0..50).map(|n| name(&format!("k{n}"))).collect();
    let fingerprint = |k: &Name| print(k.key());
    let batch: Vec<_> =
        names.iter().map(|k| Reserve { fingerprint: fingerprint(k), ..reserve(k, A) }).collect();
    for answer in fx.a.reserve_many(&batch).await {
        says(&answer?, "yours")?;
    }
    for k in &names {
        let got = fx.b.read(k).await?.map(|record| record.fingerprint);
        same("the fingerprint", &got, &Some(fingerprint(k)))?;
    }
    let result = |k: &Name| Complete { fingerprint: fingerprint(k), ..done(k, A, k.key()) };
    let batch: Vec<_> = names.iter().map(result).collect();
    for answer in fx.a.complete_many(&batch).await {
        says(&answer?, "stored")?;
    }
    for k in &names {
        let Some(record) = fx.b.read(k).await? else { return Err(crate::fixture::failed("a key is vacant")) };
        same("the fingerprint", &record.fingerprint, &fingerprint(k))?;
        says(&record, &format!("done A {}", k.key()))?;
    }
    Ok(())
}

async fn a_batch_of_large_receipts_is_stored_whole(fx: Fixture) -> Verdict {
    let names: Vec<_> = (0..32).map(|n| name(&format!("k{n}"))).collect();
    let text = |n: usize| format!("{n:02}").repeat(32 * 1024);
    let batch: Vec<_> = names.iter().enumerate().map(|(n, k)| done(k, A, &text(n))).collect();
    for answer in fx.a.complete_many(&batch).await {
        says(&answer?, "stored")?;
    }
    for (n, k) in names.iter().enumerate() {
        let kept = fx.b.read(k).await?.map(|record| record.state);
        let Some(RecordState::Settled { receipt: kept, .. }) = kept else {
            return Err(crate::fixture::failed("a key has no result"));
        };
        same("the receipt", &(kept.bytes == receipt(&text(n)).bytes), &true)?;
    }
    Ok(())
}

async fn a_batch_sent_again_is_harmless(fx: Fixture) -> Verdict {
    let names: Vec<_> = (0..8).map(|n| name(&format!("k{n}"))).collect();
    let batch: Vec<_> = names.iter().map(|k| reserve(k, A)).collect();
    for _ in 0..2 {
        for answer in fx.a.reserve_many(&batch).await {
            says(&answer?, "yours")?;
        }
    }
    let batch: Vec<_> = names.iter().map(|k| done(k, A, "paid")).collect();
    for expected in ["stored", "already done"] {
        for answer in fx.b.complete_many(&batch).await {
            says(&answer?, expected)?;
        }
    }
    let batch: Vec<_> = names.iter().map(|k| (k.clone(), A)).collect();
    for answer in fx.a.release_many(&batch).await {
        says(&answer?, "fenced")?;
    }
    says(&fx.b.read(&name("k7")).await?, "done A paid")
}
