//! Workers that live, and workers that do not.

use super::list;
use crate::{
    fixture::{Verdict, holds, same, says},
    queue::{
        desk::Desk,
        requests::{LEASE, LOSSES, beat, by_uid, done, give_back, job, later, step},
    },
    requests::ms,
};
use hapax_core::{
    idempotency::Write,
    queue::{Beat, DeadReason, GiveBack, JobState, Step},
};

list!("lease":
    a_job_stays_with_a_worker_for_its_lease,
    a_job_of_a_lost_worker_is_taken_over,
    a_beat_keeps_the_jobs_that_it_lists,
    a_beat_never_shortens_a_lease,
    a_beat_tells_what_was_lost,
    a_beat_gives_back_what_came_in_a_lost_answer,
    a_beat_leaves_alone_what_came_since_the_last,
    a_loss_is_no_attempt,
    a_job_whose_workers_are_lost_too_often_is_dead,
    what_is_given_back_is_no_loss,
    who_leaves_gives_everything_back,
    a_job_that_is_given_back_in_time_was_not_lost,
    new_jobs_keep_places_beside_lost_ones,
    a_lost_job_behind_many_that_run_is_found,
    a_job_due_after_several_leases_is_no_loss,
);

async fn a_job_stays_with_a_worker_for_its_lease(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    let early = if desk.exact() { LEASE.saturating_sub(ms(1)) } else { LEASE / 2 };
    desk.elapse(early).await;
    desk.gets("v", 1, "").await?;
    desk.ended("w", &taken, done()).await
}

async fn a_job_of_a_lost_worker_is_taken_over(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.elapse(LEASE).await;
    let again = desk.takes_one("v").await?;
    same("the job", &again.uid, &taken.uid)?;
    same("its losses", &again.counts.losses, &1)?;
    says(&desk.ends("w", &taken, done()).await?, "fenced")?;
    desk.ended("v", &again, done()).await?;
    same("the losses counted", &desk.stats().await?.lost, &1)
}

async fn a_beat_keeps_the_jobs_that_it_lists(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    let taken = desk.takes("w", 2).await?;
    let [x, y] = &taken[..] else { return Err(crate::fixture::failed("not two jobs")) };
    desk.elapse(LEASE / 2).await;
    let beaten = desk.beats("w", &[x]).await?;
    same("what is lost", &beaten.lost, &Vec::new())?;
    desk.elapse(LEASE / 2).await;
    desk.gets("v", 5, "y").await?;
    desk.ended("w", x, done()).await?;
    says(&desk.ends("w", y, done()).await?, "fenced")
}

async fn a_beat_never_shortens_a_lease(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    let brief = Beat { lease: hapax_core::Span::MIN, ..beat("w", &[&taken]) };
    same("what is lost", &desk.b.beat(&brief).await?.lost, &Vec::new())?;
    desk.elapse(LEASE / 2).await;
    desk.gets("v", 1, "").await
}

async fn a_beat_tells_what_was_lost(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    let taken = desk.takes("w", 2).await?;
    let [x, y] = &taken[..] else { return Err(crate::fixture::failed("not two jobs")) };
    desk.elapse(LEASE).await;
    desk.gets("v", 1, "x").await?;
    // The lease of the other is over as well, but nobody has taken it: its worker may keep it.
    let beaten = desk.beats("w", &[x, y]).await?;
    same("what is lost", &beaten.lost, &vec![x.uid])?;
    desk.gets("v", 1, "").await
}

async fn a_beat_gives_back_what_came_in_a_lost_answer(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    let known = desk.takes_one("w").await?;
    let _lost_answer = desk.takes_one("w").await?;
    desk.elapse(ms(1000)).await;
    let first = desk.beats("w", &[&known]).await?;
    same("how many are freed without knowing since when", &first.freed, &0)?;
    desk.elapse(ms(1000)).await;
    let second = Beat { since: Some(first.now), ..beat("w", &[&known]) };
    same("how many are freed", &desk.b.beat(&second).await?.freed, &1)?;
    let again = desk.takes_one("v").await?;
    same("its losses", &again.counts.losses, &0)?;
    same("how often it was given back", &again.counts.given_back, &1)?;
    desk.is(&by_uid("x"), "running").await
}

async fn a_beat_leaves_alone_what_came_since_the_last(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let first = desk.beats("w", &[]).await?;
    let taken = desk.takes_one("w").await?;
    // Composed before the step was answered, and on its way for long.
    let slow = Beat { since: Some(first.now), ..beat("w", &[]) };
    same("how many are freed", &desk.b.beat(&slow).await?.freed, &0)?;
    desk.ended("w", &taken, done()).await
}

async fn a_loss_is_no_attempt(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    desk.takes_one("w").await?;
    desk.elapse(LEASE).await;
    let again = desk.takes_one("v").await?;
    same("its attempts", &again.counts.attempts, &0)
}

async fn a_job_whose_workers_are_lost_too_often_is_dead(desk: Desk) -> Verdict {
    desk.adds(&[job("poison"), job("x")]).await?;
    for n in 0..=LOSSES {
        let taken = desk.takes_one("w").await?;
        same("the job", &(taken.uid == by_uid_of("poison"), taken.counts.losses), &(true, n))?;
        desk.elapse(LEASE).await;
    }
    // The poisoned one is gone, and the loop goes on.
    desk.gets("v", 5, "x").await?;
    let Some(found) = desk.found(&by_uid("poison")).await? else {
        return Err(crate::fixture::failed("the job is gone"));
    };
    same("its state", &found.state, &JobState::Dead)?;
    same("its reason", &found.reason, &Some(DeadReason::Lost))?;
    same("its attempts", &found.counts.attempts, &0)
}

fn by_uid_of(text: &str) -> hapax_core::queue::Uid {
    crate::queue::requests::uid(text)
}

async fn what_is_given_back_is_no_loss(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    same("the answer", &desk.b.give_back(&give_back("w", &[&taken])).await?, &vec![Write::Applied])?;
    let again = desk.takes_one("v").await?;
    same("its losses", &again.counts.losses, &0)?;
    same("its attempts", &again.counts.attempts, &0)?;
    same("how often it was given back", &again.counts.given_back, &1)
}

async fn who_leaves_gives_everything_back(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y"), job("z")]).await?;
    let taken = desk.takes("w", 2).await?;
    let theirs = desk.takes_one("v").await?;
    let [x, _] = &taken[..] else { return Err(crate::fixture::failed("not two jobs")) };
    let leaving = GiveBack { leave: true, ..give_back("w", &[x]) };
    same("the answer", &desk.b.give_back(&leaving).await?, &vec![Write::Applied])?;
    desk.gets("u", 5, "x y").await?;
    desk.ended("v", &theirs, done()).await
}

async fn a_job_that_is_given_back_in_time_was_not_lost(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.b.give_back(&give_back("w", &[&taken])).await?;
    desk.elapse(LEASE * 2).await;
    let again = desk.takes_one("v").await?;
    same("its losses", &again.counts.losses, &0)
}

async fn new_jobs_keep_places_beside_lost_ones(desk: Desk) -> Verdict {
    let lost: Vec<_> = (0..8).map(|n| job(&format!("lost {n}"))).collect();
    desk.adds(&lost).await?;
    desk.takes("w", 8).await?;
    desk.elapse(LEASE).await;
    desk.adds(&[job("new 0"), job("new 1")]).await?;
    let stepped = desk.a.step(&Step { want: 4, ..step("v", 4) }).await?;
    let new = stepped.jobs.iter().filter(|job| job.counts.losses == 0).count();
    holds(new == 2, || format!("{new} of 2 new jobs beside {} lost ones", stepped.jobs.len() - new))
}

async fn a_lost_job_behind_many_that_run_is_found(desk: Desk) -> Verdict {
    desk.adds(&[job("early"), job("lost")]).await?;
    let early = desk.takes_one("w").await?;
    let others: Vec<_> = (0..200).map(|n| job(&n.to_string())).collect();
    desk.takes_one("gone").await?;
    desk.adds(&others).await?;
    let mut held = desk.takes("w", 200).await?;
    held.push(early);
    desk.elapse(LEASE / 2).await;
    let all: Vec<_> = held.iter().collect();
    same("what is lost", &desk.beats("w", &all).await?.lost, &Vec::new())?;
    desk.elapse(LEASE / 2).await;
    // Of 202 that run, one has nobody.
    desk.gets("v", 5, "lost").await?;
    desk.gets("v", 5, "").await
}

async fn a_job_due_after_several_leases_is_no_loss(desk: Desk) -> Verdict {
    desk.adds(&[later("x", LEASE * 4)]).await?;
    for _ in 0..3 {
        desk.elapse(LEASE).await;
        desk.gets("w", 5, "").await?;
    }
    desk.elapse(LEASE).await;
    let taken = desk.takes("w", 5).await?;
    same("how often it is there, and its losses", &(taken.len(), desk.stats().await?.lost), &(1, 0))
}
