//! Schedules, which the engine reads and stores do not.

use super::{manage::count, row};
use crate::{store::PostgresStore, value::Value};
use hapax_core::{
    Namespace, StoreResult, Timestamp,
    queue::{Put, QueueName, Schedule, ScheduleName, Schedules},
};
use sqlx::{Error, postgres::PgRow};

const OP: &str = "keep schedules";

impl PostgresStore {
    pub(super) async fn put(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put> {
        let values = vec![
            row::text(namespace.as_str()),
            row::text(schedule.name.as_str()),
            row::text(schedule.queue.as_str()),
            row::maybe_text(schedule.owner.as_deref()),
            Value::Big(row::integer(schedule.revision)),
            Value::bytes(&schedule.what),
            Value::Big(schedule.next.as_millis()),
        ];
        let stored = self.asked(OP, "queue_put_schedule", values, true, count).await?;
        Ok(if stored > 0 { Put::Stored } else { Put::Refused })
    }

    pub(super) async fn kept(&self, req: &Schedules) -> StoreResult<Vec<Schedule>> {
        let values = vec![row::text(req.namespace.as_str()), row::maybe(req.by.map(Timestamp::as_millis))];
        self.asked(OP, "queue_schedules", values, true, |rows| rows.iter().map(schedule).collect()).await
    }

    /// `seen`: only while owner and revision are still those.
    pub(super) async fn remove(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool> {
        let values = vec![
            row::text(namespace.as_str()),
            row::text(name.as_str()),
            row::maybe_text(seen.and_then(|seen| seen.owner.as_deref())),
            row::maybe(seen.map(|seen| row::integer(seen.revision))),
        ];
        Ok(self.asked(OP, "queue_remove_schedule", values, false, count).await? > 0)
    }

    pub(super) async fn advance(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        (from, to): (Timestamp, Timestamp),
    ) -> StoreResult<bool> {
        let values = vec![
            row::text(namespace.as_str()),
            row::text(name.as_str()),
            Value::Big(from.as_millis()),
            Value::Big(to.as_millis()),
        ];
        Ok(self.asked(OP, "queue_advance_schedule", values, false, count).await? > 0)
    }
}

fn schedule(row: &PgRow) -> Result<Schedule, Error> {
    Ok(Schedule {
        name: row::name(row, "name", ScheduleName::new)?,
        queue: row::name(row, "queue", QueueName::new)?,
        owner: row::string(row, "owner")?,
        revision: row::natural(row, "revision")?,
        what: row::bytes(row, "what")?,
        next: row::instant(row, "next")?,
    })
}
