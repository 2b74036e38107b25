//! Bounds of a queue, over all of its workers.

use super::list;
use crate::{
    fixture::{Verdict, holds, same},
    queue::{
        desk::{Desk, texts},
        requests::{LEASE, done, group, job, jobs, later, step},
    },
    requests::{ms, span},
};
use hapax_core::queue::{Limits, PerRate, Step, Wait};

list!("limits":
    limits_are_kept,
    no_more_run_at_once,
    no_more_start_within_a_time,
    a_full_queue_refuses_and_drops_nothing,
    limits_hold_for_each_group,
    waiting_goes_on_while_a_limit_holds,
    a_lost_worker_holds_no_places,
);

async fn limits_are_kept(desk: Desk) -> Verdict {
    same("the limits", &desk.a.limits(&jobs()).await?, &Limits::default())?;
    let per = Some(PerRate::new("/to/0", 2, span(ms(500)))?);
    let limits =
        Limits { concurrency: Some(7), rate: Some((3, span(ms(1000)))), per, max_len: Some(9), events: 5 };
    desk.a.set_limits(&jobs(), &limits).await?;
    same("the limits", &desk.b.limits(&jobs()).await?, &limits)?;
    desk.a.set_limits(&jobs(), &Limits::default()).await?;
    same("the limits", &desk.b.limits(&jobs()).await?, &Limits::default())
}

async fn no_more_run_at_once(desk: Desk) -> Verdict {
    desk.a.set_limits(&jobs(), &Limits { concurrency: Some(2), ..Limits::default() }).await?;
    desk.adds(&["a", "b", "c", "d"].map(job)).await?;
    let first = desk.takes_one("w").await?;
    desk.gets("v", 5, "b").await?;
    desk.gets("w", 5, "").await?;
    desk.ended("w", &first, done()).await?;
    desk.gets("v", 5, "c").await
}

async fn no_more_start_within_a_time(desk: Desk) -> Verdict {
    let limits = Limits { rate: Some((2, span(ms(60_000)))), ..Limits::default() };
    desk.a.set_limits(&jobs(), &limits).await?;
    desk.adds(&["a", "b", "c", "d", "e"].map(job)).await?;
    desk.gets("w", 5, "a b").await?;
    let held = desk.a.step(&step("v", 5)).await?;
    same("what starts", &texts(&held.jobs), &String::new())?;
    let next = held.next_due.map(|due| due.since(held.now));
    if desk.exact() {
        same("when the next may start", &next, &Some(ms(30_000)))?;
    } else {
        same("whether the next time is told", &next.is_some(), &true)?;
    }
    desk.elapse(ms(30_000)).await;
    desk.gets("v", 5, "c").await?;
    desk.elapse(ms(600_000)).await;
    desk.adds(&["f", "g"].map(job)).await?;
    let after = desk.takes("u", 2).await?;
    same("how many start after a pause", &after.len(), &2)?;
    desk.gets("u", 5, "").await
}

async fn a_full_queue_refuses_and_drops_nothing(desk: Desk) -> Verdict {
    desk.a.set_limits(&jobs(), &Limits { max_len: Some(3), ..Limits::default() }).await?;
    desk.adds(&[job("a"), later("b", ms(60_000)), job("c")]).await?;
    same("the answer", &desk.add(job("d")).await?, &"full at 3".into())?;
    same("the same job again", &desk.add(job("a")).await?, &"new".into())?;
    desk.gets("w", 1, "a").await?;
    same("the answer", &desk.add(job("d")).await?, &"new".into())?;
    desk.gets("w", 5, "c d").await
}

async fn waiting_goes_on_while_a_limit_holds(desk: Desk) -> Verdict {
    let wait = |limit| Wait { queue: jobs(), group: step("w", 1).group, limit };
    let limits = [
        Limits { concurrency: Some(1), ..Limits::default() },
        Limits { rate: Some((1, span(ms(600_000)))), ..Limits::default() },
    ];
    for (round, limits) in limits.into_iter().enumerate() {
        desk.a.purge(&jobs()).await?;
        desk.a.set_limits(&jobs(), &limits).await?;
        desk.adds(&[job(&format!("first {round}")), job(&format!("second {round}"))]).await?;
        desk.takes_one("w").await?;
        // One more is ready, and may not start: who waits for it must not be sent around at once.
        let limit = ms(100);
        let before = tokio::time::Instant::now();
        desk.a.wait(&wait(limit)).await?;
        holds(before.elapsed() >= limit, || format!("the wait ended after {:?}", before.elapsed()))?;
    }
    Ok(())
}

async fn limits_hold_for_each_group(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("g")).await?;
    desk.a.subscribe(&jobs(), &group("h")).await?;
    desk.a.set_limits(&jobs(), &Limits { concurrency: Some(1), ..Limits::default() }).await?;
    desk.adds(&["a", "b"].map(job)).await?;
    for who in ["g", "h"] {
        let stepped = desk.b.step(&Step { group: group(who), ..step(who, 5) }).await?;
        same("what starts", &texts(&stepped.jobs), &"a".into())?;
    }
    Ok(())
}

async fn a_lost_worker_holds_no_places(desk: Desk) -> Verdict {
    desk.a.set_limits(&jobs(), &Limits { concurrency: Some(2), ..Limits::default() }).await?;
    desk.adds(&["a", "b", "c", "d"].map(job)).await?;
    same("how many start", &desk.takes("lost", 5).await?.len(), &2)?;
    desk.gets("w", 5, "").await?;
    // Again and again: what a lost worker had is counted once, as its next owner's.
    for round in 1..=2 {
        desk.elapse(LEASE).await;
        let taken = desk.takes(&format!("w{round}"), 5).await?;
        let losses = taken.iter().map(|job| job.counts.losses).collect::<Vec<_>>();
        same("the losses of what starts", &losses, &vec![round; 2])?;
        same("how many run", &desk.stats().await?.running, &2)?;
    }
    for taken in desk.b.list(&crate::queue::requests::list(hapax_core::queue::JobState::Running)).await?.jobs
    {
        desk.a.cancel(&jobs(), &hapax_core::queue::JobRef::Uid(taken.uid)).await?;
    }
    desk.elapse(LEASE).await;
    desk.gets("v", 5, "c d").await
}
