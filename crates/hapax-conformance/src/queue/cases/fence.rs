//! Who may say what becomes of a job.

use super::list;
use crate::{
    fixture::{Verdict, holds, same, says},
    queue::{
        desk::Desk,
        requests::{LEASE, by_uid, done, give_back, job, redrive, retry},
    },
    requests::ms,
};
use hapax_core::{
    idempotency::Write,
    queue::{DeadReason, End, Taken},
};

list!("fence":
    every_hand_out_has_a_number_of_its_own,
    fences_grow_with_every_step,
    an_older_hand_out_changes_nothing,
    another_worker_changes_nothing,
    a_finish_sent_again_changes_nothing,
);

async fn every_hand_out_has_a_number_of_its_own(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let mut numbers = Vec::new();
    let first = desk.takes_one("w").await?;
    numbers.push(first.delivery);
    desk.ended("w", &first, retry(ms(1))).await?;
    desk.elapse(ms(10_000)).await;
    let second = desk.takes_one("w").await?;
    numbers.push(second.delivery);
    desk.b.give_back(&give_back("w", &[&second])).await?;
    let third = desk.takes_one("w").await?;
    numbers.push(third.delivery);
    desk.elapse(LEASE).await;
    let fourth = desk.takes_one("v").await?;
    numbers.push(fourth.delivery);
    desk.ended("v", &fourth, End::Dead { reason: DeadReason::Refused, error: String::new() }).await?;
    desk.b.redrive(&redrive(&["x"])).await?;
    numbers.push(desk.takes_one("v").await?.delivery);
    holds(numbers.is_sorted_by(|a, b| a < b), || format!("numbers of hand-outs: {numbers:?}"))
}

async fn fences_grow_with_every_step(desk: Desk) -> Verdict {
    desk.adds(&[job("a"), job("b"), job("c")]).await?;
    let mut fences = Vec::new();
    for who in ["w", "v", "w"] {
        fences.push(desk.takes_one(who).await?.fence);
    }
    holds(fences.is_sorted_by(|a, b| a < b), || format!("fences: {fences:?}"))
}

async fn an_older_hand_out_changes_nothing(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let first = desk.takes_one("w").await?;
    desk.b.give_back(&give_back("w", &[&first])).await?;
    let second = desk.takes_one("w").await?;
    for end in [done(), retry(ms(1)), End::Dead { reason: DeadReason::Refused, error: String::new() }] {
        says(&desk.ends("w", &first, end).await?, "fenced")?;
    }
    same("what a beat says", &desk.beats("w", &[&first]).await?.lost, &vec![first.uid])?;
    same("a release", &desk.b.give_back(&give_back("w", &[&first])).await?, &vec![Write::Fenced])?;
    desk.is(&by_uid("x"), "running").await?;
    desk.ended("w", &second, done()).await
}

async fn another_worker_changes_nothing(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken: Taken = desk.takes_one("w").await?;
    says(&desk.ends("v", &taken, done()).await?, "fenced")?;
    same("what a beat says", &desk.beats("v", &[&taken]).await?.lost, &vec![taken.uid])?;
    same("a release", &desk.b.give_back(&give_back("v", &[&taken])).await?, &vec![Write::Fenced])?;
    desk.ended("w", &taken, done()).await
}

async fn a_finish_sent_again_changes_nothing(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, retry(ms(60_000))).await?;
    says(&desk.ends("w", &taken, retry(ms(60_000))).await?, "fenced")?;
    let Some(found) = desk.found(&by_uid("x")).await? else {
        return Err(crate::fixture::failed("the job is gone"));
    };
    same("its attempts", &found.counts.attempts, &1)
}
