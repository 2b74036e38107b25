//! Lost replies, and requests that arrive twice or long after: sending a step again under its token is harmless.

use crate::{
    cases::list,
    faulty::{Fault, Faulty, Request, Step},
    fixture::{Fixture, Stop, Verdict, failed, same, says},
    harness::Client,
    requests::{A, B, C, H, LEASE, R, TTL, did_not, done, happened, name, reserve, retake, span, unknown},
    shown::Shown,
};
use hapax_core::{
    Applied, Name, StoreResult,
    idempotency::{IdempotencyStore, Resolve},
};
use std::{fmt::Debug, sync::Arc};

list!("faults":
    a_reserve_whose_reply_was_lost_is_yours_when_sent_again,
    a_reserve_that_was_not_wanted_any_more_can_be_released,
    a_reserve_nobody_knows_of_ends_with_its_lease,
    a_reserve_that_arrives_after_its_release_ends_with_its_lease,
    a_reserve_that_arrives_after_its_result_changes_nothing,
    a_complete_whose_reply_was_lost_is_already_done,
    a_complete_that_arrives_after_its_resend_changes_nothing,
    a_complete_that_arrives_late_is_kept,
    a_late_complete_whose_reply_was_lost_is_kept_once,
    a_complete_that_replaced_an_unknown_can_be_sent_again,
    a_release_whose_reply_was_lost_is_fenced_and_done,
    a_release_that_arrives_late_does_not_free_the_next_owners_key,
    a_release_that_arrives_twice_keeps_the_late_result,
    an_extend_whose_reply_was_lost_can_be_sent_again,
    an_extend_that_arrives_late_revives_nothing,
    a_retake_whose_reply_was_lost_is_yours_when_sent_again,
    a_retake_that_arrives_after_its_release_gives_the_unknown_back,
    a_drop_whose_reply_was_lost_is_dropped_when_sent_again,
    a_drop_that_arrives_late_takes_nothing,
    a_verdict_whose_reply_was_lost_is_applied_when_sent_again,
    a_verdict_that_arrives_late_finds_the_record_changed,
    a_forced_release_whose_reply_was_lost_is_fenced_when_sent_again,
    every_request_may_arrive_twice,
    every_reply_may_be_lost,
    every_request_may_arrive_after_its_resend,
    no_old_request_changes_a_done_key,
    a_batch_whose_reply_was_lost_is_answered_when_sent_again,
);

/// The first client behind faults; the second sees what came of them.
fn faulty(fx: &Fixture) -> Faulty<Client> {
    Faulty::new(Arc::clone(&fx.a))
}

/// Checks that the call failed in a way that says nothing of its effect.
#[track_caller]
fn unanswered<T: Debug>(answer: StoreResult<T>) -> Verdict {
    match answer {
        Err(error) if error.applied() == Applied::Unknown => Ok(()),
        other => Err(failed(format!("a lost reply is {other:?}"))),
    }
}

/// Sends a request whose reply is lost.
async fn lost(store: &Faulty<Client>, request: &Request) -> Verdict {
    store.inject(request.step(), Fault::LostReply);
    unanswered(request.send(store).await)
}

/// Sends a request that is on its way when its sender gives up.
async fn delayed(store: &Faulty<Client>, request: &Request) -> Verdict {
    store.inject(request.step(), Fault::Delayed);
    unanswered(request.send(store).await)
}

/// Lets the delayed requests arrive; their answers as one text.
async fn arrive(store: &Faulty<Client>) -> Result<String, Stop> {
    let answers: Result<Vec<_>, _> = store.deliver_delayed().await.into_iter().collect();
    Ok(answers?.iter().map(Shown::shown).collect::<Vec<_>>().join(", "))
}

async fn a_reserve_whose_reply_was_lost_is_yours_when_sent_again(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    let request = Request::Reserve(reserve(&k, A));
    lost(&store, &request).await?;
    says(&fx.b.read(&k).await?, "pending A")?;
    says(&request.send(&store).await?, "yours")?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")
}

async fn a_reserve_that_was_not_wanted_any_more_can_be_released(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    lost(&store, &Request::Reserve(reserve(&k, A))).await?;
    says(&store.release(&k, &A).await?, "applied")?;
    fx.held(&k, B).await
}

async fn a_reserve_nobody_knows_of_ends_with_its_lease(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    lost(&store, &Request::Reserve(reserve(&k, A))).await?;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "held: pending A")?;
    fx.elapse(LEASE).await;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "yours")
}

async fn a_reserve_that_arrives_after_its_release_ends_with_its_lease(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    delayed(&store, &Request::Reserve(reserve(&k, A))).await?;
    says(&store.release(&k, &A).await?, "fenced")?;
    same("the answer", &arrive(&store).await?.as_str(), &"yours")?;
    fx.elapse(LEASE).await;
    says(&fx.b.reserve(&reserve(&k, B)).await?, "yours")?;
    // And past a newer owner's reservation it is refused.
    delayed(&store, &Request::Reserve(reserve(&k, C))).await?;
    same("the answer", &arrive(&store).await?.as_str(), &"held: pending B")?;
    says(&fx.b.read(&k).await?, "pending B")
}

async fn a_reserve_that_arrives_after_its_result_changes_nothing(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    delayed(&store, &Request::Reserve(reserve(&k, A))).await?;
    fx.succeeded(&k, A, "paid").await?;
    let before = fx.b.read(&k).await?;
    same("the answer", &arrive(&store).await?.as_str(), &"held: done A paid")?;
    same("the record", &fx.b.read(&k).await?, &before)
}

async fn a_complete_whose_reply_was_lost_is_already_done(fx: Fixture) -> Verdict {
    for (k, request, record) in [
        (name("ended"), done(&name("ended"), A, "paid"), "done A paid"),
        (name("lost"), unknown(&name("lost"), A, "sent?"), "unknown A sent?"),
    ] {
        let store = faulty(&fx);
        fx.held(&k, A).await?;
        lost(&store, &Request::Complete(request.clone())).await?;
        says(&fx.b.read(&k).await?, record)?;
        fx.elapse(TTL / 2).await;
        says(&store.complete(&request).await?, "already done")?;
        fx.elapse(TTL / 2).await;
        says(&fx.b.read(&k).await?, "vacant")?;
    }
    Ok(())
}

async fn a_complete_that_arrives_after_its_resend_changes_nothing(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.held(&k, A).await?;
    delayed(&store, &Request::Complete(done(&k, A, "paid"))).await?;
    says(&store.complete(&done(&k, A, "paid")).await?, "stored")?;
    fx.elapse(LEASE).await;
    let before = fx.b.read(&k).await?;
    same("the answer", &arrive(&store).await?.as_str(), &"already done")?;
    if fx.exact() {
        same("the record", &fx.b.read(&k).await?, &before)?;
    }
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn a_complete_that_arrives_late_is_kept(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.held(&k, A).await?;
    delayed(&store, &Request::Complete(done(&k, A, "paid"))).await?;
    fx.elapse(LEASE).await;
    fx.held(&k, B).await?;
    same("the answer", &arrive(&store).await?.as_str(), &"stored late")?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn a_late_complete_whose_reply_was_lost_is_kept_once(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.taken_over(&k).await?;
    let request = Request::Complete(done(&k, A, "paid"));
    lost(&store, &request).await?;
    says(&request.send(&store).await?, "stored late")?;
    says(&fx.b.release(&k, &B).await?, "applied")?;
    says(&request.send(&store).await?, "already done")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn a_complete_that_replaced_an_unknown_can_be_sent_again(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.unsure(&k, A, "sent?").await?;
    let request = Request::Complete(done(&k, B, "sent"));
    lost(&store, &request).await?;
    says(&request.send(&store).await?, "already done")?;
    says(&fx.b.read(&k).await?, "done B sent")
}

async fn a_release_whose_reply_was_lost_is_fenced_and_done(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.held(&k, A).await?;
    let request = Request::Release(k.clone(), A);
    lost(&store, &request).await?;
    says(&request.send(&store).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn a_release_that_arrives_late_does_not_free_the_next_owners_key(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.held(&k, A).await?;
    delayed(&store, &Request::Release(k.clone(), A)).await?;
    says(&store.release(&k, &A).await?, "applied")?;
    fx.held(&k, B).await?;
    same("the answer", &arrive(&store).await?.as_str(), &"fenced")?;
    says(&fx.b.read(&k).await?, "pending B")?;
    delayed(&store, &Request::Release(k.clone(), A)).await?;
    says(&fx.b.complete(&done(&k, B, "paid")).await?, "stored")?;
    same("the answer", &arrive(&store).await?.as_str(), &"fenced")?;
    says(&fx.b.read(&k).await?, "done B paid")
}

async fn a_release_that_arrives_twice_keeps_the_late_result(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.late_success(&k, "paid").await?;
    store.inject(Step::Release, Fault::Duplicate);
    says(&store.release(&k, &B).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

async fn an_extend_whose_reply_was_lost_can_be_sent_again(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.held(&k, A).await?;
    fx.elapse(LEASE / 2).await;
    let request = Request::Extend(k.clone(), A, span(LEASE));
    lost(&store, &request).await?;
    says(&request.send(&store).await?, "extended")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.read(&k).await?, "pending A")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn an_extend_that_arrives_late_revives_nothing(fx: Fixture) -> Verdict {
    let store = faulty(&fx);
    let (freed, passed, ended) = (name("freed"), name("passed"), name("ended"));
    fx.held(&passed, A).await?;
    fx.elapse(LEASE).await;
    fx.held(&freed, A).await?;
    fx.held(&ended, A).await?;
    for k in [&freed, &passed, &ended] {
        delayed(&store, &Request::Extend(k.clone(), A, span(TTL))).await?;
    }
    says(&store.release(&freed, &A).await?, "applied")?;
    says(&store.complete(&done(&ended, A, "paid")).await?, "stored")?;
    same("the answers", &arrive(&store).await?.as_str(), &"fenced, fenced, fenced")?;
    says(&fx.b.read(&freed).await?, "vacant")?;
    says(&fx.b.read(&passed).await?, "vacant")?;
    says(&fx.b.read(&ended).await?, "done A paid")
}

async fn a_retake_whose_reply_was_lost_is_yours_when_sent_again(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.unsure(&k, A, "sent?").await?;
    let request = Request::RetakeUnknown(retake(&k, R));
    lost(&store, &request).await?;
    says(&request.send(&store).await?, "yours")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.b.read(&k).await?, "unknown A sent?")
}

async fn a_retake_that_arrives_after_its_release_gives_the_unknown_back(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.unsure(&k, A, "sent?").await?;
    delayed(&store, &Request::RetakeUnknown(retake(&k, R))).await?;
    says(&store.release(&k, &R).await?, "fenced")?;
    same("the answer", &arrive(&store).await?.as_str(), &"yours")?;
    fx.elapse(LEASE).await;
    says(&fx.b.read(&k).await?, "unknown A sent?")?;
    // And past a verdict it is refused.
    delayed(&store, &Request::RetakeUnknown(retake(&k, C))).await?;
    says(&fx.b.resolve(&happened(&k, H, "sent")).await?, "applied")?;
    same("the answer", &arrive(&store).await?.as_str(), &"changed: done H sent")?;
    says(&fx.b.read(&k).await?, "done H sent")
}

async fn a_drop_whose_reply_was_lost_is_dropped_when_sent_again(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.retaken(&k, "sent?").await?;
    let request = Request::DropUnknown(k.clone(), R);
    lost(&store, &request).await?;
    says(&request.send(&store).await?, "dropped")?;
    says(&fx.b.read(&k).await?, "pending R")?;
    says(&fx.b.release(&k, &R).await?, "applied")?;
    says(&fx.b.read(&k).await?, "vacant")
}

async fn a_drop_that_arrives_late_takes_nothing(fx: Fixture) -> Verdict {
    let store = faulty(&fx);
    let (ended, freed, success) = (name("ended"), name("freed"), name("success"));
    for k in [&ended, &freed, &success] {
        fx.retaken(k, "sent?").await?;
        delayed(&store, &Request::DropUnknown(k.clone(), R)).await?;
    }
    says(&fx.b.complete(&unknown(&ended, R, "sent again?")).await?, "stored")?;
    says(&fx.b.release(&freed, &R).await?, "applied")?;
    says(&fx.b.complete(&done(&success, B, "sent")).await?, "stored late")?;
    same("the answers", &arrive(&store).await?.as_str(), &"fenced, fenced, refused")?;
    says(&fx.b.read(&ended).await?, "unknown R sent again?")?;
    says(&fx.b.read(&freed).await?, "unknown A sent?")?;
    says(&fx.b.release(&success, &R).await?, "applied")?;
    says(&fx.b.read(&success).await?, "done B sent")
}

async fn a_verdict_whose_reply_was_lost_is_applied_when_sent_again(fx: Fixture) -> Verdict {
    let (yes, no) = (name("yes"), name("no"));
    let store = faulty(&fx);
    for (k, verdict) in [(&yes, happened(&yes, H, "sent")), (&no, did_not(&no, H))] {
        fx.unsure(k, A, "sent?").await?;
        lost(&store, &Request::Resolve(verdict)).await?;
    }
    says(&store.resolve(&happened(&yes, H, "sent")).await?, "applied")?;
    says(&fx.b.read(&yes).await?, "done H sent")?;
    // A key that was freed keeps no trace of who freed it.
    says(&store.resolve(&did_not(&no, H)).await?, "changed: vacant")?;
    says(&fx.b.read(&no).await?, "vacant")
}

async fn a_verdict_that_arrives_late_finds_the_record_changed(fx: Fixture) -> Verdict {
    let store = faulty(&fx);
    let (ended, asked, newer) = (name("ended"), name("asked"), name("newer"));
    for k in [&ended, &asked, &newer] {
        fx.unsure(k, A, "sent?").await?;
        let verdict = Resolve { version: Some(A.version()), ..did_not(k, H) };
        delayed(&store, &Request::Resolve(verdict)).await?;
    }
    says(&fx.b.complete(&done(&ended, B, "sent")).await?, "superseded: unknown A sent?")?;
    says(&fx.b.retake_unknown(&retake(&asked, R)).await?, "yours")?;
    says(&fx.b.resolve(&did_not(&newer, C)).await?, "applied")?;
    fx.unsure(&newer, B, "again?").await?;
    let expected = "changed: done B sent, changed: pending R, changed: unknown B again?";
    same("the answers", &arrive(&store).await?.as_str(), &expected)?;
    says(&fx.b.read(&ended).await?, "done B sent")?;
    says(&fx.b.read(&asked).await?, "pending R")?;
    says(&fx.b.read(&newer).await?, "unknown B again?")
}

async fn a_forced_release_whose_reply_was_lost_is_fenced_when_sent_again(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    fx.late_success(&k, "paid").await?;
    let request = Request::ForceRelease(k.clone());
    lost(&store, &request).await?;
    says(&request.send(&store).await?, "fenced")?;
    says(&fx.b.read(&k).await?, "done A paid")
}

/// Each step of a long life, with the answer of its second copy and what lies under the key then.
fn life(k: &Name) -> Vec<(Request, &'static str, &'static str)> {
    vec![
        (Request::Reserve(reserve(k, A)), "yours", "pending A"),
        (Request::Extend(k.clone(), A, span(LEASE)), "extended", "pending A"),
        (Request::Release(k.clone(), A), "fenced", "vacant"),
        (Request::Reserve(reserve(k, B)), "yours", "pending B"),
        (Request::ForceRelease(k.clone()), "fenced", "vacant"),
        (Request::Complete(unknown(k, B, "sent?")), "already done", "unknown B sent?"),
        (Request::RetakeUnknown(retake(k, R)), "yours", "pending R"),
        (Request::Complete(unknown(k, A, "other?")), "stored late", "pending R"),
        (Request::DropUnknown(k.clone(), R), "dropped", "pending R"),
        (Request::Complete(unknown(k, R, "again?")), "already done", "unknown R again?"),
        (Request::Resolve(happened(k, H, "sent")), "applied", "done H sent"),
        (Request::Complete(done(k, C, "too")), "superseded: done H sent", "done H sent"),
    ]
}

async fn every_request_may_arrive_twice(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    for (request, answer, record) in life(&k) {
        store.inject(request.step(), Fault::Duplicate);
        says(&request.send(&store).await?, answer)?;
        says(&fx.b.read(&k).await?, record)?;
    }
    Ok(())
}

async fn every_reply_may_be_lost(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    for (request, answer, record) in life(&k) {
        lost(&store, &request).await?;
        says(&fx.b.read(&k).await?, record)?;
        says(&request.send(&store).await?, answer)?;
        says(&fx.b.read(&k).await?, record)?;
    }
    Ok(())
}

async fn every_request_may_arrive_after_its_resend(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    for (request, answer, record) in life(&k) {
        delayed(&store, &request).await?;
        let _of_the_resend = request.send(&store).await?;
        same("the answer", &arrive(&store).await?.as_str(), &answer)?;
        says(&fx.b.read(&k).await?, record)?;
    }
    Ok(())
}

async fn no_old_request_changes_a_done_key(fx: Fixture) -> Verdict {
    let (k, store) = (name("k"), faulty(&fx));
    for (request, ..) in life(&k) {
        let _ = request.send(&store).await?;
    }
    let before = fx.b.read(&k).await?;
    says(&before, "done H sent")?;
    let sent = store.sent();
    for request in sent.iter().chain(sent.iter().rev()) {
        let _ = request.send(&fx.a).await?;
        same("the record", &fx.b.read(&k).await?, &before)?;
    }
    Ok(())
}

async fn a_batch_whose_reply_was_lost_is_answered_when_sent_again(fx: Fixture) -> Verdict {
    let store = faulty(&fx);
    let names: Vec<Name> = (0..5).map(|n| name(&format!("k{n}"))).collect();
    fx.held(&name("k2"), B).await?;
    let reserves: Vec<_> = names.iter().map(|k| reserve(k, A)).collect();
    store.inject(Step::Reserve, Fault::LostReply);
    for answer in store.reserve_many(&reserves).await {
        unanswered(answer)?;
    }
    for (n, answer) in store.reserve_many(&reserves).await.into_iter().enumerate() {
        says(&answer?, if n == 2 { "held: pending B" } else { "yours" })?;
    }
    let completes: Vec<_> = names.iter().map(|k| done(k, A, "paid")).collect();
    store.inject(Step::Complete, Fault::LostReply);
    for answer in store.complete_many(&completes).await {
        unanswered(answer)?;
    }
    for (n, answer) in store.complete_many(&completes).await.into_iter().enumerate() {
        says(&answer?, if n == 2 { "stored late" } else { "already done" })?;
    }
    Ok(())
}
