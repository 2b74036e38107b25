//! Ending a job and completing a key in one step.

use super::list;
use crate::{
    fixture::{Stop, Verdict, failed, same, says},
    queue::{
        desk::Desk,
        requests::{LEASE, by_uid, done, finish, job, step},
    },
    requests::{A, B, done as completed, name, reserve},
    shown::Shown,
};
use hapax_core::{
    idempotency::IdempotencyStore,
    queue::{Finish, Step, Stepped, Taken},
};
use std::sync::Arc;

list!("joint":
    key_and_job_end_together,
    a_lost_job_keeps_its_receipt,
    a_lost_key_does_not_keep_its_job,
);

fn keys(desk: &Desk) -> Result<Arc<dyn IdempotencyStore>, Stop> {
    let keys = desk.client.keys.clone().filter(|keys| desk.a.joins(keys));
    keys.ok_or(Stop::Skipped("keys and jobs are not in one place"))
}

async fn ends(desk: &Desk, job: &Taken, token: hapax_core::Token) -> Result<Stepped, Stop> {
    let key = Some(Box::new(completed(&name("k"), token, "sent")));
    Ok(desk.a.step(&Step { finishes: vec![Finish { key, ..finish(job, done()) }], ..step("w", 0) }).await?)
}

fn both(stepped: &Stepped) -> Result<(String, String), Stop> {
    match &stepped.finished[..] {
        [one] => Ok((one.job.shown(), one.key.as_ref().map_or_else(|| "no key".into(), Shown::shown))),
        _ => Err(failed("not one answer")),
    }
}

async fn key_and_job_end_together(desk: Desk) -> Verdict {
    let keys = keys(&desk)?;
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    says(&keys.reserve(&reserve(&name("k"), A)).await?, "yours")?;
    let ended = both(&ends(&desk, &taken, A).await?)?;
    same("the answers", &ended, &("applied".into(), "stored".into()))?;
    desk.is(&by_uid("x"), "done").await?;
    says(&keys.read(&name("k")).await?, "done A sent")?;
    let again = both(&ends(&desk, &taken, A).await?)?;
    same("the answers", &again, &("fenced".into(), "already done".into()))
}

async fn a_lost_job_keeps_its_receipt(desk: Desk) -> Verdict {
    let keys = keys(&desk)?;
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    says(&keys.reserve(&reserve(&name("k"), A)).await?, "yours")?;
    desk.elapse(LEASE).await;
    let again = desk.takes_one("v").await?;
    let ended = both(&ends(&desk, &taken, A).await?)?;
    same("the answers", &ended, &("fenced".into(), "stored".into()))?;
    says(&keys.read(&name("k")).await?, "done A sent")?;
    desk.ended("v", &again, done()).await
}

async fn a_lost_key_does_not_keep_its_job(desk: Desk) -> Verdict {
    let keys = keys(&desk)?;
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    says(&keys.reserve(&reserve(&name("k"), A)).await?, "yours")?;
    says(&keys.force_release(&name("k")).await?, "applied")?;
    says(&keys.reserve(&reserve(&name("k"), B)).await?, "yours")?;
    let ended = both(&ends(&desk, &taken, A).await?)?;
    same("the answers", &ended, &("applied".into(), "stored late".into()))?;
    desk.is(&by_uid("x"), "done").await
}
