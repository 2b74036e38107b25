//! Answers that get lost, and requests that come too late: what a worker that dies, or that asks again, leaves behind.

use super::list;
use crate::{
    fixture::{Stop, Verdict, holds, same, says},
    queue::{
        desk::{Desk, texts},
        requests::{
            LEASE, beat, by_id, by_uid, dead, done, finish, give_back, group, job, jobs, named, redrive,
            retry, snooze, step,
        },
    },
    requests::{ms, receipt, span},
};
use hapax_core::{
    Span,
    idempotency::Write,
    queue::{Beat, Cancelled, DeadReason, End, JobState, Limits, NewJob, Redriven, Step, Taken},
};

list!("faults":
    a_done_whose_answer_is_lost_is_counted_once,
    a_retry_whose_answer_is_lost_is_one_attempt,
    a_snooze_whose_answer_is_lost_is_counted_once,
    a_death_whose_answer_is_lost_is_one_dead_letter,
    a_step_whose_answer_is_lost_loses_no_job,
    what_a_dead_worker_never_heard_of_runs_after_its_lease,
    a_beat_whose_answer_is_lost_has_renewed,
    a_release_whose_answer_is_lost_is_counted_once,
    a_redrive_whose_answer_is_lost_is_one_job,
    a_cancel_whose_answer_is_lost_removes_one_job,
    a_late_end_does_not_touch_who_took_over,
    a_late_end_does_not_touch_what_others_made_of_the_job,
    a_late_end_does_not_touch_the_next_job_of_the_id,
    a_late_beat_takes_nothing_back,
    a_name_that_is_used_again_owns_nothing,
    a_start_under_a_limit_whose_answer_is_lost_frees_its_place,
);

/// A worker ends its one job, and does not hear of it; it says so again.
async fn twice(desk: &Desk, end: End) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, end.clone()).await?;
    says(&desk.ends("w", &taken, end).await?, "fenced")?;
    // As does one who has heard of its loss meanwhile.
    same("what a beat says", &desk.beats("w", &[&taken]).await?.lost, &vec![taken.uid])
}

async fn figures(desk: &Desk) -> Result<[u64; 6], Stop> {
    let stats = desk.stats().await?;
    Ok([stats.ready, stats.delayed, stats.running, stats.dead, stats.done, stats.lost])
}

async fn a_done_whose_answer_is_lost_is_counted_once(desk: Desk) -> Verdict {
    twice(&desk, End::Done { result: Some((receipt("sent"), span(ms(60_000)))) }).await?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 0, 0, 0, 1, 0])?;
    let result = desk.found(&by_id("id")).await?.and_then(|job| job.result);
    same("its result", &result, &Some(receipt("sent")))
}

async fn a_retry_whose_answer_is_lost_is_one_attempt(desk: Desk) -> Verdict {
    twice(&desk, retry(ms(60_000))).await?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 1, 0, 0, 0, 0])?;
    desk.elapse(ms(60_000)).await;
    let again = desk.takes("w", 5).await?;
    let counts = again.iter().map(|job| (job.counts.attempts, job.counts.losses)).collect::<Vec<_>>();
    same("attempts and losses of what comes again", &counts, &vec![(1, 0)])
}

async fn a_snooze_whose_answer_is_lost_is_counted_once(desk: Desk) -> Verdict {
    twice(&desk, snooze(ms(60_000))).await?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 1, 0, 0, 0, 0])?;
    desk.elapse(ms(60_000)).await;
    let again = desk.takes("w", 5).await?;
    let counts = again.iter().map(|job| (job.counts.attempts, job.counts.snoozes)).collect::<Vec<_>>();
    same("attempts and snoozes of what comes again", &counts, &vec![(0, 1)])
}

async fn a_death_whose_answer_is_lost_is_one_dead_letter(desk: Desk) -> Verdict {
    twice(&desk, dead(DeadReason::Exhausted)).await?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 0, 0, 1, 0, 0])?;
    same("the dead letters", &desk.listed(JobState::Dead).await?, &"x".into())?;
    let attempts = desk.found(&by_uid("x")).await?.map(|job| job.counts.attempts);
    same("its attempts", &attempts, &Some(1))
}

async fn a_step_whose_answer_is_lost_loses_no_job(desk: Desk) -> Verdict {
    desk.adds(&["a", "b", "c"].map(job)).await?;
    let first = desk.takes_one("w").await?;
    let req = Step { finishes: vec![finish(&first, done())], ..step("w", 2) };
    let unheard = desk.a.step(&req).await?;
    same("what was handed out, and nobody heard of", &texts(&unheard.jobs), &"b c".into())?;
    let again = desk.a.step(&req).await?;
    same(
        "the answer to the end",
        &again.finished.first().map(|finished| finished.job),
        &Some(Write::Fenced),
    )?;
    same("what is handed out", &texts(&again.jobs), &String::new())?;
    // Two beats later both are there again, and no loss is counted.
    desk.elapse(ms(1000)).await;
    let now = desk.beats("w", &[]).await?.now;
    desk.elapse(ms(1000)).await;
    same("how many are freed", &desk.b.beat(&Beat { since: Some(now), ..beat("w", &[]) }).await?.freed, &2)?;
    let after = desk.takes("w", 5).await?;
    same("what comes again", &texts(&after), &"b c".into())?;
    same("the losses", &after.iter().map(|job| job.counts.losses).sum::<u32>(), &0)?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 0, 2, 0, 1, 0])
}

async fn what_a_dead_worker_never_heard_of_runs_after_its_lease(desk: Desk) -> Verdict {
    desk.adds(&["a", "b"].map(job)).await?;
    let unheard = desk.takes("w", 2).await?;
    same("how many nobody heard of", &unheard.len(), &2)?;
    desk.gets("v", 2, "").await?;
    desk.elapse(LEASE).await;
    let after = desk.takes("v", 4).await?;
    same("how many are taken over", &after.len(), &2)?;
    holds(after.iter().all(|job| job.counts.losses == 1), || "no loss is counted".into())
}

async fn a_beat_whose_answer_is_lost_has_renewed(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    for _ in 0..3 {
        desk.elapse(LEASE / 2).await;
        let _unheard = desk.beats("w", &[&taken]).await?;
        same("what is lost", &desk.beats("w", &[&taken]).await?.lost, &Vec::new())?;
    }
    desk.gets("v", 1, "").await?;
    desk.ended("w", &taken, done()).await
}

async fn a_release_whose_answer_is_lost_is_counted_once(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    for expected in [Write::Applied, Write::Fenced] {
        let answer = desk.b.give_back(&give_back("w", &[&taken])).await?;
        same("the answer", &answer, &vec![expected])?;
    }
    let again = desk.takes("v", 5).await?;
    let counts = again.iter().map(|job| (job.counts.given_back, job.counts.losses)).collect::<Vec<_>>();
    same("how often it was given back, and lost", &counts, &vec![(1, 0)])?;
    // Once more, long after: it is another's by now.
    same("the answer", &desk.b.give_back(&give_back("w", &[&taken])).await?, &vec![Write::Fenced])?;
    desk.is(&by_uid("x"), "running").await
}

async fn a_redrive_whose_answer_is_lost_is_one_job(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, dead(DeadReason::Refused)).await?;
    for expected in [Redriven::Ready, Redriven::NotDead] {
        same("the answer", &desk.b.redrive(&redrive(&["x"])).await?, &vec![expected])?;
    }
    let again = desk.takes("w", 5).await?;
    let counts = again.iter().map(|job| job.counts.redriven).collect::<Vec<_>>();
    same("how often it was redriven", &counts, &vec![1])
}

async fn a_cancel_whose_answer_is_lost_removes_one_job(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    desk.b.cancel(&jobs(), &by_id("id")).await?;
    // The id is free, and its next job is another one: who cancels by the id of hapax does not meet it.
    let next = NewJob { uid: crate::queue::requests::uid("next"), ..named("x", "id") };
    same("the answer", &desk.add(next).await?, &"new".into())?;
    let over = Cancelled { over: Some(JobState::Cancelled), ..Cancelled::default() };
    same("the answer", &desk.b.cancel(&jobs(), &by_uid("x")).await?, &over)?;
    desk.is(&by_uid("next"), "ready").await?;
    same("how many are cancelled", &desk.stats().await?.cancelled, &1)
}

/// One job, first of a worker that is lost, then of another.
async fn taken_over(desk: &Desk) -> Result<(Taken, Taken), Stop> {
    desk.adds(&[named("x", "id")]).await?;
    let first = desk.takes_one("w").await?;
    desk.elapse(LEASE).await;
    Ok((first, desk.takes_one("v").await?))
}

/// All that the lost worker could say. None of it counts.
async fn says_all(desk: &Desk, lost: &Taken) -> Verdict {
    for end in [done(), retry(ms(1)), snooze(ms(1)), dead(DeadReason::Exhausted)] {
        says(&desk.ends("w", lost, end).await?, "fenced")?;
    }
    same("a release", &desk.b.give_back(&give_back("w", &[lost])).await?, &vec![Write::Fenced])
}

async fn a_late_end_does_not_touch_who_took_over(desk: Desk) -> Verdict {
    let (lost, theirs) = taken_over(&desk).await?;
    says_all(&desk, &lost).await?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 0, 1, 0, 0, 1])?;
    desk.ended("v", &theirs, done()).await?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 0, 0, 0, 1, 1])
}

async fn a_late_end_does_not_touch_what_others_made_of_the_job(desk: Desk) -> Verdict {
    let (lost, theirs) = taken_over(&desk).await?;
    desk.ended("v", &theirs, retry(ms(60_000))).await?;
    says_all(&desk, &lost).await?;
    desk.is(&by_id("id"), "delayed").await?;
    desk.elapse(ms(60_000)).await;
    let theirs = desk.takes_one("v").await?;
    same("its attempts", &theirs.counts.attempts, &1)?;
    desk.ended("v", &theirs, dead(DeadReason::Exhausted)).await?;
    says_all(&desk, &lost).await?;
    desk.is(&by_id("id"), "dead").await?;
    desk.b.redrive(&redrive(&["x"])).await?;
    says_all(&desk, &lost).await?;
    let theirs = desk.takes_one("v").await?;
    desk.ended("v", &theirs, done()).await?;
    says_all(&desk, &lost).await?;
    desk.is(&by_id("id"), "done").await?;
    same("ready, delayed, running, dead, done, lost", &figures(&desk).await?, &[0, 0, 0, 0, 1, 1])
}

async fn a_late_end_does_not_touch_the_next_job_of_the_id(desk: Desk) -> Verdict {
    desk.adds(&[NewJob { remember: span(ms(60_000)), ..named("x", "id") }]).await?;
    let first = desk.takes_one("w").await?;
    desk.elapse(LEASE).await;
    let again = desk.takes_one("v").await?;
    desk.ended("v", &again, done()).await?;
    desk.elapse(ms(60_000)).await;
    desk.adds(&[named("y", "id")]).await?;
    let next = desk.takes_one("w").await?;
    same("what is next", &texts(std::slice::from_ref(&next)), &"y".into())?;
    says_all(&desk, &first).await?;
    desk.is(&by_id("id"), "running").await?;
    desk.ended("w", &next, done()).await
}

async fn a_late_beat_takes_nothing_back(desk: Desk) -> Verdict {
    let (lost, theirs) = taken_over(&desk).await?;
    let late =
        Beat { lease: Span::MAX, since: Some(hapax_core::Timestamp::from_millis(1)), ..beat("w", &[&lost]) };
    let beaten = desk.b.beat(&late).await?;
    same("what is lost, and how many are freed", &(beaten.lost, beaten.freed), &(vec![lost.uid], 0))?;
    // The lease is still the other's own.
    desk.elapse(LEASE).await;
    let third = desk.takes_one("u").await?;
    same("the job, and its losses", &(third.uid, third.counts.losses), &(theirs.uid, 2))
}

async fn a_name_that_is_used_again_owns_nothing(desk: Desk) -> Verdict {
    desk.adds(&["a", "b"].map(job)).await?;
    let before = desk.takes_one("w").await?;
    // The next process of the name knows nothing of that job: its first beat frees nothing, and takes nothing.
    let begins = desk.beats("w", &[]).await?;
    same("what its first beat says", &(begins.lost, begins.freed), &(Vec::new(), 0))?;
    let own = desk.takes_one("w").await?;
    same("what it gets", &texts(std::slice::from_ref(&own)), &"b".into())?;
    desk.ended("w", &own, done()).await?;
    desk.elapse(LEASE).await;
    let again = desk.takes_one("w").await?;
    same("its losses", &(again.uid == before.uid, again.counts.losses), &(true, 1))?;
    says(&desk.ends("w", &before, done()).await?, "fenced")?;
    desk.ended("w", &again, done()).await
}

async fn a_start_under_a_limit_whose_answer_is_lost_frees_its_place(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("main")).await?;
    desk.a.set_limits(&jobs(), &Limits { concurrency: Some(1), ..Limits::default() }).await?;
    desk.adds(&["a", "b"].map(job)).await?;
    let _unheard = desk.takes_one("w").await?;
    desk.gets("v", 2, "").await?;
    // Whether its worker is dead or not, the place is free again.
    desk.elapse(LEASE).await;
    let taken = desk.takes_one("v").await?;
    same("its losses", &taken.counts.losses, &1)?;
    desk.gets("u", 2, "").await?;
    desk.ended("v", &taken, done()).await?;
    desk.gets("u", 2, "b").await
}
