//! Which job is next.

use super::list;
use crate::{
    fixture::{Verdict, holds, same},
    queue::{
        desk::{Desk, texts},
        requests::{done, finish, give_back, job, jobs, later, step},
    },
    requests::ms,
    suite::long,
};
use hapax_core::queue::{Due, JobState, NewJob, Priority, Step};

list!("order":
    jobs_start_in_the_order_of_their_coming,
    urgent_jobs_come_first,
    a_delayed_job_waits_for_its_time,
    a_job_may_be_due_at_an_instant,
    an_instant_that_is_past_is_now,
    what_is_due_first_comes_first,
    a_job_that_is_given_back_comes_first,
    many_jobs_may_be_due_at_once,
);

async fn jobs_start_in_the_order_of_their_coming(desk: Desk) -> Verdict {
    desk.adds(&[job("c"), job("a")]).await?;
    desk.adds(&[job("b")]).await?;
    desk.gets("w", 2, "c a").await?;
    desk.gets("v", 2, "b").await
}

async fn urgent_jobs_come_first(desk: Desk) -> Verdict {
    for (text, priority) in [
        ("bulk", Priority::Bulk),
        ("normal", Priority::Normal),
        ("low", Priority::Low),
        ("urgent", Priority::Urgent),
        ("normal 2", Priority::Normal),
    ] {
        desk.adds(&[NewJob { priority, ..job(text) }]).await?;
    }
    desk.gets("w", 1, "urgent").await?;
    desk.gets("w", 9, "normal normal 2 low bulk").await
}

async fn a_delayed_job_waits_for_its_time(desk: Desk) -> Verdict {
    desk.adds(&[later("x", ms(60_000))]).await?;
    same("the delayed jobs", &desk.listed(JobState::Delayed).await?, &"x".into())?;
    let early = desk.a.step(&step("w", 1)).await?;
    same("what the worker gets", &texts(&early.jobs), &String::new())?;
    holds(early.next_due.is_some(), || "the step does not say when the next job is due".into())?;
    if let (true, Some(due)) = (desk.exact(), early.next_due) {
        same("how long until then", &due.since(early.now), &ms(60_000))?;
        desk.elapse(ms(59_999)).await;
        desk.gets("w", 1, "").await?;
        desk.elapse(ms(1)).await;
    } else {
        desk.elapse(ms(60_000)).await;
    }
    desk.gets("w", 1, "x").await
}

async fn a_job_may_be_due_at_an_instant(desk: Desk) -> Verdict {
    let now = desk.a.step(&step("w", 0)).await?.now;
    desk.adds(&[NewJob { due: Due::At(now.after(ms(60_000))), ..job("x") }]).await?;
    desk.elapse(ms(30_000)).await;
    desk.gets("w", 1, "").await?;
    desk.elapse(ms(30_000)).await;
    desk.gets("w", 1, "x").await
}

async fn an_instant_that_is_past_is_now(desk: Desk) -> Verdict {
    let past = hapax_core::Timestamp::from_millis(1);
    desk.adds(&[job("a"), NewJob { due: Due::At(past), ..job("b") }]).await?;
    desk.gets("w", 2, "a b").await
}

async fn what_is_due_first_comes_first(desk: Desk) -> Verdict {
    desk.adds(&[later("c", ms(3000)), later("a", ms(1000)), later("b", ms(2000))]).await?;
    desk.elapse(ms(10_000)).await;
    desk.gets("w", 3, "a b c").await
}

async fn a_job_that_is_given_back_comes_first(desk: Desk) -> Verdict {
    desk.adds(&[job("a")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.elapse(ms(10)).await;
    desk.adds(&[job("b"), job("c")]).await?;
    desk.b.give_back(&give_back("w", &[&taken])).await?;
    desk.gets("w", 3, "a b c").await
}

async fn many_jobs_may_be_due_at_once(desk: Desk) -> Verdict {
    let count = if long() { 20_000 } else { 3_000 };
    let all: Vec<_> = (0..count).map(|n| later(&n.to_string(), ms(1000))).collect();
    for batch in all.chunks(hapax_core::queue::MOST) {
        desk.a.add(&jobs(), batch).await?;
    }
    desk.elapse(ms(20_000)).await;
    let (mut ended, mut finishes) = (0, Vec::new());
    loop {
        let stepped = desk.a.step(&Step { finishes, ..step("w", 256) }).await?;
        ended += stepped.finished.len();
        finishes = stepped.jobs.iter().map(|job| finish(job, done())).collect();
        if finishes.is_empty() {
            break;
        }
    }
    same("how many ended", &ended, &count)
}
