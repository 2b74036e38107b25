//! What the end of a handler does to its job.

use super::list;
use crate::{
    fixture::{Verdict, failed, same},
    queue::{
        desk::Desk,
        requests::{by_uid, dead, done, job, retry, snooze, step},
    },
    requests::ms,
};
use hapax_core::queue::{DeadReason, End, JobState, MAX_ERROR};

list!("outcome":
    a_job_that_is_done_leaves_nothing_behind,
    a_job_that_failed_comes_again,
    a_job_that_is_put_off_uses_no_attempt,
    putting_off_is_counted_from_the_first_time,
    a_dead_job_is_kept_as_it_was,
    an_error_text_is_cut,
    a_step_ends_jobs_and_hands_out_others,
);

async fn a_job_that_is_done_leaves_nothing_behind(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, done()).await?;
    let stats = desk.stats().await?;
    let left = (stats.ready, stats.delayed, stats.running, stats.dead);
    same("what is left", &left, &(0, 0, 0, 0))?;
    same("what was counted", &(stats.added, stats.done), &(1, 1))
}

async fn a_job_that_failed_comes_again(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    for n in 0..3 {
        let taken = desk.takes_one("w").await?;
        same("its attempts", &taken.counts.attempts, &n)?;
        desk.ended("w", &taken, retry(ms(60_000))).await?;
        desk.is(&by_uid("x"), "delayed").await?;
        desk.gets("w", 1, "").await?;
        desk.elapse(ms(60_000)).await;
    }
    let error = desk.found(&by_uid("x")).await?.and_then(|job| job.error);
    same("its error", &error.as_deref(), &Some("it failed"))?;
    same("the payload", &desk.takes_one("w").await?.payload[..], b"x".as_slice())
}

async fn a_job_that_is_put_off_uses_no_attempt(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, snooze(ms(60_000))).await?;
    desk.gets("w", 1, "").await?;
    desk.elapse(ms(60_000)).await;
    let again = desk.takes_one("w").await?;
    same("its counts", &(again.counts.attempts, again.counts.losses, again.counts.snoozes), &(0, 0, 1))
}

async fn putting_off_is_counted_from_the_first_time(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let first = desk.takes_one("w").await?;
    same("since when", &first.snoozed_since, &None)?;
    let mut since = None;
    for n in 0..3 {
        let taken = if n == 0 { first.clone() } else { desk.takes_one("w").await? };
        if n == 2 {
            since = taken.snoozed_since;
        }
        desk.ended("w", &taken, snooze(ms(60_000))).await?;
        desk.elapse(ms(60_000)).await;
    }
    let last = desk.takes_one("w").await?;
    same("since when", &last.snoozed_since.is_some(), &true)?;
    same("since when", &last.snoozed_since, &since)?;
    desk.ended("w", &last, retry(ms(1000))).await?;
    desk.elapse(ms(10_000)).await;
    let failed_once = desk.takes_one("w").await?;
    same("since when", &failed_once.snoozed_since, &None)?;
    same("its counts", &(failed_once.counts.attempts, failed_once.counts.snoozes), &(1, 0))
}

async fn a_dead_job_is_kept_as_it_was(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let first = desk.takes_one("w").await?;
    desk.ended("w", &first, retry(ms(1))).await?;
    desk.elapse(ms(10_000)).await;
    let second = desk.takes_one("w").await?;
    desk.ended("w", &second, dead(DeadReason::Exhausted)).await?;
    desk.gets("w", 1, "").await?;
    let Some(found) = desk.found(&by_uid("x")).await? else { return Err(failed("the job is gone")) };
    same("its state", &found.state, &JobState::Dead)?;
    same("its reason", &found.reason, &Some(DeadReason::Exhausted))?;
    same("its error", &found.error.as_deref(), &Some("no more"))?;
    same("its attempts", &found.counts.attempts, &2)?;
    same("its payload", &found.payload[..], b"x".as_slice())?;
    same("its settings", &found.settings[..], b"settings".as_slice())
}

async fn an_error_text_is_cut(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    let error = "é".repeat(MAX_ERROR);
    let [x, y] = &desk.takes("w", 2).await?[..] else { return Err(failed("not two jobs")) };
    desk.ended("w", x, End::Retry { after: hapax_core::Span::MAX, error: error.clone() }).await?;
    desk.ended("w", y, End::Dead { reason: DeadReason::Refused, error: error.clone() }).await?;
    for text in ["x", "y"] {
        let kept = desk.found(&by_uid(text)).await?.and_then(|job| job.error).unwrap_or_default();
        same("the length", &kept.len(), &MAX_ERROR)?;
        same("whether it is the beginning", &error.starts_with(&kept), &true)?;
    }
    Ok(())
}

async fn a_step_ends_jobs_and_hands_out_others(desk: Desk) -> Verdict {
    desk.adds(&[job("a"), job("b")]).await?;
    let a = desk.takes_one("w").await?;
    let mut req = step("w", 1);
    req.finishes = vec![crate::queue::requests::finish(&a, done())];
    let stepped = desk.a.step(&req).await?;
    same("how many ended", &stepped.finished.len(), &1)?;
    same("what is next", &crate::queue::desk::texts(&stepped.jobs), &"b".into())
}
