//! What is told of a job.

use super::list;
use crate::{
    fixture::{Stop, Verdict, failed, same},
    queue::{
        desk::Desk,
        requests::{
            LEASE, LOSSES, by_id, by_uid, dead, done, give_back, group, job, jobs, list as page, named,
            redrive, retry, snooze, step, uid, worker,
        },
    },
    requests::{ms, print},
};
use hapax_core::queue::{
    DeadReason, Due, Edit, End, JobRef, JobState, NewJob, OnConflict,
    history::{Event, History, MAX_EVENTS, MAX_TOLD, What},
};

list!("history":
    what_is_usual_is_not_told,
    failures_are_told_with_their_texts,
    what_workers_do_is_told_with_their_names,
    a_job_that_dies_says_why,
    a_cancelled_job_that_runs_says_so,
    what_people_do_is_told,
    a_replaced_job_says_so_and_may_be_replaced_again,
    the_first_event_and_the_last_ones_are_kept,
    each_group_tells_its_own,
    a_history_ends_with_its_job,
);

/// The history of a job of one group.
async fn of(desk: &Desk, job: &JobRef) -> Result<History, Stop> {
    let info = desk.found(job).await?;
    info.map(|info| info.history).ok_or_else(|| failed("nobody knows the job"))
}

/// As words: what, attempts, and who.
fn words(history: &History) -> String {
    let word = |event: &Event| {
        let who = event.consumer.as_ref().map(|who| format!(" by {who}")).unwrap_or_default();
        format!("{} {}{who}", event.what.as_str(), event.attempts)
    };
    history.events.iter().map(word).collect::<Vec<_>>().join(", ")
}

async fn tells(desk: &Desk, job: &JobRef, expected: &str) -> Verdict {
    same("the history", &words(&of(desk, job).await?), &expected.to_owned())
}

async fn what_is_usual_is_not_told(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    tells(&desk, &by_id("id"), "").await?;
    let before = desk.a.step(&step("w", 0)).await?.now;
    let taken = desk.takes_one("w").await?;
    let after = desk.a.step(&step("w", 0)).await?.now;
    let info = desk.found(&by_id("id")).await?.ok_or_else(|| failed("nobody knows the job"))?;
    same("the history", &words(&info.history), &String::new())?;
    same("who has it", &info.consumer, &Some(worker("w")))?;
    // A fence may run a moment ahead of the clock, and a store may tell the time by it.
    match info.taken_at {
        Some(at) if at >= before && at <= after.after(ms(2)) => {}
        other => return Err(failed(format!("it runs since {other:?}, not {before:?} to {after:?}"))),
    }
    desk.ended("w", &taken, done()).await?;
    tells(&desk, &by_id("id"), "").await
}

async fn failures_are_told_with_their_texts(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let long = format!("x{}", "ü".repeat(MAX_TOLD));
    let mut ends = Vec::new();
    for error in ["it failed", "", &long] {
        let taken = desk.takes_one("w").await?;
        let end = match retry(ms(60_000)) {
            End::Retry { after, .. } => End::Retry { after, error: error.to_owned() },
            other => other,
        };
        let before = desk.a.step(&step("w", 0)).await?.now;
        desk.ended("w", &taken, end).await?;
        let after = desk.a.step(&step("w", 0)).await?.now;
        ends.push((before, after));
        desk.elapse(ms(60_000)).await;
    }
    tells(&desk, &by_uid("x"), "retried 1 by w, retried 2 by w, retried 3 by w").await?;
    let history = of(&desk, &by_uid("x")).await?;
    let texts: Vec<_> = history.events.iter().map(|event| event.error.clone()).collect();
    let cut = format!("x{}", "ü".repeat((MAX_TOLD - 1) / 2));
    same("the texts", &texts, &vec![Some("it failed".into()), None, Some(cut)])?;
    for (event, (before, after)) in history.events.iter().zip(ends) {
        if event.at < before || event.at > after {
            return Err(failed(format!("{event:?} is not between {before:?} and {after:?}")));
        }
        same("when it was due again", &event.due, &Some(event.at.after(ms(60_000))))?;
    }
    Ok(())
}

async fn what_workers_do_is_told_with_their_names(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("wörker").await?;
    desk.ended("wörker", &taken, snooze(ms(1000))).await?;
    desk.elapse(ms(1000)).await;
    let taken = desk.takes_one("w").await?;
    desk.b.give_back(&give_back("w", &[&taken])).await?;
    let long = "v".repeat(200);
    desk.takes_one(&long).await?;
    desk.elapse(LEASE).await;
    desk.takes_one("u").await?;
    let expected = format!("snoozed 0 by wörker, given_back 0 by w, lost 0 by {long}");
    tells(&desk, &by_uid("x"), &expected).await?;
    // What is told has the size of a job's own record, and no page of a list carries it.
    let listed = desk.b.list(&page(JobState::Running)).await?;
    let told: Vec<_> = listed.jobs.iter().map(|info| info.history.events.len()).collect();
    same("the histories on a page", &told, &vec![0])
}

async fn a_job_that_dies_says_why(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    for (n, reason) in DeadReason::ALL.into_iter().enumerate() {
        if n > 0 {
            desk.b.redrive(&redrive(&["x"])).await?;
        }
        let taken = desk.takes_one("w").await?;
        desk.ended("w", &taken, dead(reason)).await?;
    }
    let history = of(&desk, &by_uid("x")).await?;
    let deaths = history.events.iter().filter(|event| event.what == What::Dead);
    let reasons: Vec<_> = deaths.map(|event| (event.reason, event.error.clone())).collect();
    let expected = DeadReason::ALL.map(|reason| (Some(reason), Some("no more".into())));
    same("the reasons", &reasons, &expected.to_vec())?;
    let redriven = history.events.iter().filter(|event| event.what == What::Redriven).count();
    same("how often it was redriven", &redriven, &(DeadReason::ALL.len() - 1))
}

async fn a_cancelled_job_that_runs_says_so(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    desk.takes("w", 1).await?;
    desk.b.cancel(&jobs(), &by_uid("x")).await?;
    tells(&desk, &by_uid("x"), "cancelled 0 by w").await?;
    // Of the other nobody says so. It is lost too often, and dies in its worker's name.
    for _ in 0..=LOSSES {
        desk.takes("v", 4).await?;
        desk.elapse(LEASE).await;
    }
    desk.takes("u", 4).await?;
    let lost = "lost 0 by v, ".repeat(3);
    tells(&desk, &by_uid("y"), &format!("{lost}dead 0 by v")).await?;
    let history = of(&desk, &by_uid("y")).await?;
    let last = history.events.last().and_then(|event| event.reason);
    same("why it is dead", &last, &Some(DeadReason::Lost))
}

async fn what_people_do_is_told(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let at = desk.a.step(&step("w", 0)).await?.now.after(ms(3_600_000));
    desk.b.reschedule(&jobs(), &by_id("id"), Due::At(at)).await?;
    desk.b.reschedule(&jobs(), &by_id("id"), Due::Now).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, dead(DeadReason::Refused)).await?;
    let edit = Edit {
        queue: jobs(),
        group: None,
        uid: uid("x"),
        payload: "better".into(),
        fingerprint: print("better"),
    };
    desk.b.edit(&edit).await?;
    desk.b.redrive(&redrive(&["x"])).await?;
    tells(&desk, &by_id("id"), "rescheduled 0, rescheduled 0, dead 1 by w, edited 1, redriven 0").await?;
    let history = of(&desk, &by_id("id")).await?;
    same("its first time", &history.events.first().and_then(|event| event.due), &Some(at))?;
    desk.gets("w", 1, "better").await
}

async fn a_replaced_job_says_so_and_may_be_replaced_again(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let replace = |text| NewJob { on_conflict: OnConflict::Replace, ..named(text, "id") };
    same("the answer", &desk.add(replace("y")).await?, &"replaced".into())?;
    desk.b.reschedule(&jobs(), &by_id("id"), Due::Now).await?;
    same("the answer", &desk.add(replace("z")).await?, &"replaced".into())?;
    tells(&desk, &by_id("id"), "replaced 0, rescheduled 0, replaced 0").await?;
    let taken = desk.takes_one("w").await?;
    same("its payload", &taken.payload, &"z".into())?;
    same("what happened to it", &taken.counts, &hapax_core::queue::Counts::default())?;
    desk.b.give_back(&give_back("w", &[&taken])).await?;
    // A worker has seen it.
    same("the answer", &desk.add(replace("y")).await?, &"reused".into())?;
    tells(&desk, &by_id("id"), "replaced 0, rescheduled 0, replaced 0, given_back 0 by w").await?;
    let taken = desk.takes_one("w").await?;
    same("its payload", &taken.payload, &"z".into())?;
    desk.ended("w", &taken, done()).await
}

async fn the_first_event_and_the_last_ones_are_kept(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("first").await?;
    desk.b.give_back(&give_back("first", &[&taken])).await?;
    let failures = u32::try_from(MAX_EVENTS).unwrap_or_default() + 5;
    for _ in 0..failures {
        let taken = desk.takes_one("w").await?;
        desk.ended("w", &taken, retry(ms(1000))).await?;
        desk.elapse(ms(1000)).await;
    }
    let history = of(&desk, &by_uid("x")).await?;
    same("how many are told", &history.events.len(), &MAX_EVENTS)?;
    same("how many are left out", &history.dropped, &6)?;
    let attempts: Vec<_> = history.events.iter().map(|event| event.attempts).collect();
    let expected: Vec<_> = std::iter::once(0).chain(7..=failures).collect();
    same("the attempts", &attempts, &expected)?;
    same("the first", &history.events.first().map(|event| event.what), &Some(What::GivenBack))
}

async fn each_group_tells_its_own(desk: Desk) -> Verdict {
    for name in ["main", "other"] {
        desk.b.subscribe(&jobs(), &group(name)).await?;
    }
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, retry(ms(1000))).await?;
    let found = desk.b.find(&jobs(), &by_uid("x")).await?;
    let told: Vec<_> = found.iter().map(|info| words(&info.history)).collect();
    same("the histories", &told, &vec!["retried 1 by w".to_owned(), String::new()])
}

async fn a_history_ends_with_its_job(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id"), named("y", "other")]).await?;
    let both = desk.takes("w", 2).await?;
    for job in &both {
        desk.ended("w", job, retry(ms(1000))).await?;
    }
    desk.elapse(ms(1000)).await;
    let both = desk.takes("w", 1).await?;
    for job in &both {
        desk.ended("w", job, done()).await?;
    }
    tells(&desk, &by_id("id"), "").await?;
    desk.b.cancel(&jobs(), &by_id("other")).await?;
    // The id is free, and its next job has nothing to tell.
    let again = NewJob { uid: uid("z"), ..named("y", "other") };
    same("the answer", &desk.add(again).await?, &"new".into())?;
    tells(&desk, &by_id("other"), "").await
}
