//! What people do to jobs and queues.

use super::list;
use crate::{
    fixture::{Verdict, failed, holds, same, says},
    queue::{
        desk::{Desk, texts},
        requests::{by_id, by_uid, dead, done, job, jobs, later, list as page, named, retry, step},
    },
    requests::ms,
    shown::Shown,
};
use hapax_core::{
    StoreErrorKind,
    queue::{Cancelled, DeadReason, Due, JobState, ListJobs, NewJob, Wait},
};
use std::time::Duration;

list!("manage":
    a_waiting_job_is_cancelled_at_once,
    a_cancelled_job_frees_its_id,
    the_worker_of_a_cancelled_job_is_told,
    a_cancelled_job_does_not_come_again,
    a_cancelled_job_may_still_be_done,
    what_is_over_cannot_be_cancelled,
    a_waiting_job_gets_another_time,
    a_queue_that_is_held_back_hands_out_nothing,
    a_purged_queue_is_empty,
    figures_are_right,
    jobs_are_listed_in_the_order_of_their_start,
    a_mark_that_no_page_gave_is_refused,
    running_jobs_tell_who_has_them,
    a_queue_that_is_not_there_is_empty,
    waiting_ends_with_a_new_job,
    what_is_over_is_forgotten,
);

async fn a_waiting_job_is_cancelled_at_once(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), later("y", ms(60_000)), job("z")]).await?;
    let removed = Cancelled { removed: 1, ..Cancelled::default() };
    same("the answer", &desk.b.cancel(&jobs(), &by_uid("x")).await?, &removed)?;
    same("the answer", &desk.b.cancel(&jobs(), &by_uid("y")).await?, &removed)?;
    desk.elapse(ms(60_000)).await;
    desk.gets("w", 5, "z").await?;
    same("how many are cancelled", &desk.stats().await?.cancelled, &2)
}

async fn a_cancelled_job_frees_its_id(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    desk.b.cancel(&jobs(), &by_id("id")).await?;
    same("the answer", &desk.add(named("y", "id")).await?, &"new".into())?;
    desk.gets("w", 5, "y").await?;
    // Its own request still finds it.
    same("the answer", &desk.add(NewJob { job_id: None, ..job("x") }).await?, &"new".into())?;
    desk.gets("w", 5, "").await
}

async fn the_worker_of_a_cancelled_job_is_told(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    let taken = desk.takes("w", 2).await?;
    let told = Cancelled { told: 1, ..Cancelled::default() };
    same("the answer", &desk.b.cancel(&jobs(), &by_uid("x")).await?, &told)?;
    let [x, y] = &taken[..] else { return Err(failed("not two jobs")) };
    let beaten = desk.beats("w", &[x, y]).await?;
    same("what is cancelled", &beaten.cancelled, &vec![x.uid])?;
    same("what is lost", &beaten.lost, &Vec::new())
}

async fn a_cancelled_job_does_not_come_again(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id"), job("y"), job("z")]).await?;
    let taken = desk.takes("w", 3).await?;
    for text in ["x", "y", "z"] {
        desk.b.cancel(&jobs(), &by_uid(text)).await?;
    }
    let [x, y, _] = &taken[..] else { return Err(failed("not three jobs")) };
    desk.ended("w", x, retry(ms(1))).await?;
    desk.ended("w", y, dead(DeadReason::Refused)).await?;
    // The third is left by a worker that is lost.
    desk.elapse(Duration::from_mins(10)).await;
    desk.gets("v", 5, "").await?;
    let stats = desk.stats().await?;
    same("the figures", &(stats.cancelled, stats.dead, stats.running, stats.lost), &(3, 0, 0, 0))?;
    same("the answer", &desk.add(named("v", "id")).await?, &"new".into())
}

async fn a_cancelled_job_may_still_be_done(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.b.cancel(&jobs(), &by_uid("x")).await?;
    desk.ended("w", &taken, done()).await?;
    same("how many are done", &desk.stats().await?.done, &1)
}

async fn what_is_over_cannot_be_cancelled(desk: Desk) -> Verdict {
    same("the answer", &desk.b.cancel(&jobs(), &by_id("nobody")).await?, &Cancelled::default())?;
    desk.adds(&[named("x", "id")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, done()).await?;
    let over = Cancelled { over: Some(JobState::Done), ..Cancelled::default() };
    same("the answer", &desk.b.cancel(&jobs(), &by_id("id")).await?, &over)?;
    desk.is(&by_id("id"), "done").await
}

async fn a_waiting_job_gets_another_time(desk: Desk) -> Verdict {
    desk.adds(&[later("x", ms(60_000)), job("y")]).await?;
    same("in how many groups", &desk.b.reschedule(&jobs(), &by_uid("x"), Due::Now).await?, &1)?;
    let far = Due::After(crate::requests::span(ms(60_000)));
    same("in how many groups", &desk.b.reschedule(&jobs(), &by_uid("y"), far).await?, &1)?;
    let x = desk.takes_one("w").await?;
    same("what is ready", &texts(std::slice::from_ref(&x)), &"x".into())?;
    same("in how many groups", &desk.b.reschedule(&jobs(), &by_uid("x"), far).await?, &0)?;
    desk.gets("w", 5, "").await?;
    desk.elapse(ms(59_000)).await;
    desk.beats("w", &[&x]).await?;
    desk.elapse(ms(1_000)).await;
    desk.gets("w", 5, "y").await
}

async fn a_queue_that_is_held_back_hands_out_nothing(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.b.pause(&jobs(), None, true).await?;
    let stepped = desk.a.step(&step("w", 5)).await?;
    same("what the worker gets", &texts(&stepped.jobs), &String::new())?;
    same("whether it is told", &stepped.paused, &true)?;
    same("the figures say so", &desk.stats().await?.paused, &true)?;
    desk.ended("w", &taken, done()).await?;
    desk.b.pause(&jobs(), None, false).await?;
    desk.gets("w", 5, "y").await
}

async fn a_purged_queue_is_empty(desk: Desk) -> Verdict {
    desk.adds(&[named("a", "a"), job("b"), later("c", ms(60_000)), job("d")]).await?;
    let taken = desk.takes("w", 2).await?;
    let [a, b] = &taken[..] else { return Err(failed("not two jobs")) };
    desk.ended("w", a, dead(DeadReason::Refused)).await?;
    same("how many went", &desk.b.purge(&jobs()).await?, &4)?;
    says(&desk.ends("w", b, done()).await?, "fenced")?;
    desk.elapse(Duration::from_mins(10)).await;
    desk.gets("w", 5, "").await?;
    same("the dead letters", &desk.listed(JobState::Dead).await?, &String::new())?;
    same("the answer", &desk.add(named("e", "a")).await?, &"new".into())
}

async fn figures_are_right(desk: Desk) -> Verdict {
    let all: Vec<_> = ["a", "b", "c", "d", "e"].map(job).into();
    desk.adds(&all).await?;
    desk.adds(&[later("f", Duration::from_hours(1)), later("g", Duration::from_hours(2))]).await?;
    let taken = desk.takes("w", 3).await?;
    let [a, b, _] = &taken[..] else { return Err(failed("not three jobs")) };
    desk.ended("w", a, done()).await?;
    desk.ended("w", b, dead(DeadReason::Refused)).await?;
    desk.b.cancel(&jobs(), &by_uid("g")).await?;
    desk.elapse(ms(5_000)).await;
    let stats = desk.stats().await?;
    let found = (stats.ready, stats.delayed, stats.running, stats.dead);
    same("ready, delayed, running, dead", &found, &(2, 1, 1, 1))?;
    let counted = (stats.added, stats.done, stats.cancelled, stats.lost);
    same("added, done, cancelled, lost", &counted, &(7, 1, 1, 0))?;
    let oldest = stats.oldest.unwrap_or_default();
    holds(oldest >= ms(5_000), || format!("the oldest job waits for {oldest:?}"))?;
    holds(stats.seen.is_some(), || "nobody was seen".into())
}

async fn jobs_are_listed_in_the_order_of_their_start(desk: Desk) -> Verdict {
    let all: Vec<_> = (0..7).map(|n| job(&n.to_string())).collect();
    desk.adds(&all).await?;
    desk.adds(&[later("late", ms(2000)), later("soon", ms(1000))]).await?;
    same("the delayed jobs", &desk.listed(JobState::Delayed).await?, &"soon late".into())?;
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let next = desk.b.list(&ListJobs { after, limit: 3, ..page(JobState::Ready) }).await?;
        found.extend(next.jobs.iter().map(|job| String::from_utf8_lossy(&job.payload).into_owned()));
        match next.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    same("the ready jobs", &found.join(" "), &"0 1 2 3 4 5 6".into())
}

async fn a_mark_that_no_page_gave_is_refused(desk: Desk) -> Verdict {
    // Whether or not the queue is there: who asks so has made a mistake.
    for round in 0..2 {
        for state in JobState::LISTED {
            let req = ListJobs { after: Some("no mark".into()), ..page(state) };
            match desk.b.list(&req).await {
                Ok(_) => return Err(failed(format!("round {round}: a page of {} jobs", state.as_str()))),
                Err(error) => same("the kind", &error.kind(), &StoreErrorKind::Unsupported)?,
            }
        }
        desk.adds(&[job("x")]).await?;
    }
    Ok(())
}

async fn running_jobs_tell_who_has_them(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    desk.takes_one("w").await?;
    let page = desk.b.list(&page(JobState::Running)).await?;
    let [job] = &page.jobs[..] else { return Err(failed("not one running job")) };
    same("its worker", &job.consumer.as_ref().map(ToString::to_string).as_deref(), &Some("w"))?;
    same("its group", &job.group.as_ref().map(ToString::to_string).as_deref(), &Some("main"))
}

async fn a_queue_that_is_not_there_is_empty(desk: Desk) -> Verdict {
    same("what is ready", &desk.listed(JobState::Ready).await?, &String::new())?;
    same("how many went", &desk.b.purge(&jobs()).await?, &0)?;
    same("how many groups", &desk.b.pause(&jobs(), None, true).await?, &0)?;
    same("in how many groups", &desk.b.reschedule(&jobs(), &by_uid("x"), Due::Now).await?, &0)?;
    desk.is(&by_uid("x"), "-").await?;
    let all = desk.b.stats(&jobs().namespace, None).await?;
    same("the queues", &all.len(), &0)
}

async fn waiting_ends_with_a_new_job(desk: Desk) -> Verdict {
    desk.gets("w", 1, "").await?;
    let wait = Wait { queue: jobs(), group: step("w", 1).group, limit: Duration::from_mins(1) };
    let waiting = async { desk.a.wait(&wait).await };
    let adding = async { desk.b.add(&jobs(), &[job("x")]).await };
    let (waited, added) = tokio::join!(waiting, adding);
    waited?;
    added?;
    desk.gets("w", 1, "x").await
}

async fn what_is_over_is_forgotten(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id"), job("y")]).await?;
    for taken in desk.takes("w", 2).await? {
        desk.ended("w", &taken, done()).await?;
    }
    desk.elapse(Duration::from_hours(2)).await;
    desk.b.prune(100).await?;
    desk.is(&by_uid("x"), "-").await?;
    desk.is(&by_uid("y"), "-").await?;
    same("the answer", &desk.add(named("z", "id")).await?.shown(), &"new".into())
}

impl Shown for String {
    fn shown(&self) -> String {
        self.clone()
    }
}
