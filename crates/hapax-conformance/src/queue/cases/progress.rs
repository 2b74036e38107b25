//! How far a job is, as its worker says.

use super::list;
use crate::{
    fixture::{Verdict, failed, same},
    queue::{
        desk::Desk,
        requests::{LEASE, beat, by_uid, done, give_back, job, retry, uid},
    },
    requests::ms,
};
use hapax_core::queue::{Beat, Progress, Taken};

list!("progress":
    a_beat_tells_how_far_a_job_is,
    what_was_said_stays_until_something_else_is,
    progress_ends_with_the_hand_out,
    only_who_has_a_job_says_how_far_it_is,
    of_many_jobs_each_has_its_own,
);

/// A beat that says so of the first of its jobs.
fn says(who: &str, held: &[&Taken], progress: Progress) -> Beat {
    let first = held.first().map(|job| (job.uid, progress));
    Beat { progress: first.into_iter().collect(), ..beat(who, held) }
}

async fn shows(desk: &Desk, text: &str, expected: Option<Progress>) -> Verdict {
    let Some(found) = desk.found(&by_uid(text)).await? else { return Err(failed("the job is gone")) };
    same("how far the job is", &found.progress, &expected)
}

async fn a_beat_tells_how_far_a_job_is(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    shows(&desk, "x", None).await?;
    for progress in
        [Progress::of(1, 3).note("päge 1"), Progress::percent(100), Progress::of(u64::MAX, u64::MAX)]
    {
        let beaten = desk.a.beat(&says("w", &[&taken], progress.clone())).await?;
        same("what is lost", &beaten.lost, &Vec::new())?;
        shows(&desk, "x", Some(progress)).await?;
    }
    // It takes nothing from the lease.
    desk.elapse(LEASE / 2).await;
    desk.gets("v", 1, "").await?;
    desk.ended("w", &taken, done()).await
}

async fn what_was_said_stays_until_something_else_is(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    let half = Progress::of(1, 2).note("half");
    desk.a.beat(&says("w", &[&taken], half.clone())).await?;
    desk.beats("w", &[&taken]).await?;
    shows(&desk, "x", Some(half)).await
}

async fn progress_ends_with_the_hand_out(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let first = desk.takes_one("w").await?;
    desk.a.beat(&says("w", &[&first], Progress::percent(50))).await?;
    desk.ended("w", &first, retry(ms(1000))).await?;
    shows(&desk, "x", None).await?;
    desk.elapse(ms(1000)).await;
    let second = desk.takes_one("w").await?;
    shows(&desk, "x", None).await?;
    desk.a.beat(&says("w", &[&second], Progress::percent(60))).await?;
    desk.b.give_back(&give_back("w", &[&second])).await?;
    let third = desk.takes_one("v").await?;
    shows(&desk, "x", None).await?;
    desk.a.beat(&says("v", &[&third], Progress::percent(70))).await?;
    desk.elapse(LEASE).await;
    let fourth = desk.takes_one("u").await?;
    shows(&desk, "x", None).await?;
    desk.a.beat(&says("u", &[&fourth], Progress::percent(80))).await?;
    desk.ended("u", &fourth, done()).await?;
    shows(&desk, "x", None).await
}

async fn only_who_has_a_job_says_how_far_it_is(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    let old = desk.takes_one("w").await?;
    desk.b.give_back(&give_back("w", &[&old])).await?;
    let new = desk.takes_one("v").await?;
    desk.a.beat(&says("w", &[&old], Progress::percent(10))).await?;
    shows(&desk, "x", None).await?;
    // Of a job that is not among those that it has, nothing is said.
    let others = Beat { progress: vec![(uid("y"), Progress::percent(20))], ..beat("v", &[&new]) };
    desk.a.beat(&others).await?;
    shows(&desk, "y", None).await?;
    shows(&desk, "x", None).await
}

async fn of_many_jobs_each_has_its_own(desk: Desk) -> Verdict {
    let names: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    desk.adds(&names.iter().map(|name| job(name)).collect::<Vec<_>>()).await?;
    let taken = desk.takes("w", 200).await?;
    let held: Vec<_> = taken.iter().collect();
    let progress = taken.iter().zip(0..).map(|(job, n)| (job.uid, Progress::of(n, 200))).collect();
    desk.a.beat(&Beat { progress, ..beat("w", &held) }).await?;
    for n in [0, 1, 100, 199] {
        shows(&desk, &n.to_string(), Some(Progress::of(n, 200))).await?;
    }
    Ok(())
}
