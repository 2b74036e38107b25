//! A worker lives, and has these jobs; or it gives them back.

use super::row::{self, integer, span};
use crate::{store::PostgresStore, value::Value};
use hapax_core::{
    StoreResult,
    idempotency::Write,
    queue::{Beat, Beaten, GiveBack, Uid},
};
use sqlx::{Error, Row as _, postgres::PgRow};

impl PostgresStore {
    pub(super) async fn keep_jobs(&self, req: &Beat) -> StoreResult<Beaten> {
        let mut values: Vec<_> = row::queue(&req.queue).into();
        values.extend([
            row::text(req.group.as_str()),
            row::text(req.consumer.as_str()),
            Value::Big(span(req.lease)),
            row::maybe(req.since.map(hapax_core::Timestamp::as_millis)),
        ]);
        values.extend(held(&req.held));
        values.extend([
            row::uids(req.progress.iter().map(|(uid, _)| *uid)),
            Value::ManyBytes(req.progress.iter().map(|(_, progress)| Some(progress.to_bytes())).collect()),
        ]);
        self.asked("beat", "queue_beat", values, true, beaten).await
    }

    pub(super) async fn take_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>> {
        let mut values: Vec<_> = row::queue(&req.queue).into();
        values.extend([
            row::text(req.group.as_str()),
            row::text(req.consumer.as_str()),
            Value::Big(i64::from(req.leave)),
        ]);
        values.extend(held(&req.jobs));
        let read = |rows: &[PgRow]| {
            let mut answers = vec![Write::Fenced; req.jobs.len()];
            for row in rows {
                let nth: usize = row::natural(row, "nth")?;
                let place = nth.checked_sub(1).and_then(|at| answers.get_mut(at));
                *place.ok_or_else(|| row::unreadable("an answer to no job"))? = Write::Applied;
            }
            Ok(answers)
        };
        self.asked("give jobs back", "queue_give_back", values, false, read).await
    }
}

fn held(jobs: &[(Uid, u64)]) -> [Value; 2] {
    let deliveries = jobs.iter().map(|(_, delivery)| Some(integer(*delivery))).collect();
    [row::uids(jobs.iter().map(|(uid, _)| *uid)), Value::ManyBig(deliveries)]
}

fn beaten(rows: &[PgRow]) -> Result<Beaten, Error> {
    let mut answer = Beaten::default();
    for row in rows {
        match row.try_get::<&str, _>("what")? {
            "lost" => answer.lost.push(row::uid(row, "uid")?),
            "cancelled" => answer.cancelled.push(row::uid(row, "uid")?),
            _ => {
                answer.freed = row::natural(row, "freed")?;
                answer.now = row::instant(row, "now")?;
            }
        }
    }
    Ok(answer)
}
