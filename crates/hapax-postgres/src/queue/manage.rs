//! What people do with jobs and queues, by hand and seldom.

use super::{
    add::maybe_state,
    info::meant,
    row::{self, natural},
};
use crate::{store::PostgresStore, value::Value};
use hapax_core::{
    Span, StoreResult,
    queue::{
        Cancelled, Due, Edit, Group, JobRef, Limits, MAX_REDRIVES, PerRate, QueueId, Redrive, Redriven,
        Subscribed, Uid, events::MOST_KEPT,
    },
};
use sqlx::{Error, Row as _, postgres::PgRow};
use std::time::Duration;

const OP: &str = "manage a queue";
/// So many jobs are removed in one transaction: others have their turn between.
const PART: usize = 256;

/// The one row of an answer.
fn one(rows: &[PgRow]) -> Result<&PgRow, Error> {
    rows.first().ok_or_else(|| row::unreadable("no row"))
}

/// The number in the one row of an answer.
pub(super) fn count(rows: &[PgRow]) -> Result<u64, Error> {
    natural(one(rows)?, "count")
}

fn group(group: Option<&Group>) -> Value {
    row::maybe_text(group.map(Group::as_str))
}

fn named(queue: &QueueId, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    row::queue(queue).into_iter().chain(more).collect()
}

impl PostgresStore {
    pub(super) async fn join(&self, queue: &QueueId, name: &Group) -> StoreResult<Subscribed> {
        let read = |rows: &[PgRow]| {
            Ok(match one(rows)?.try_get("said")? {
                "known" => Subscribed::Known,
                "first" => Subscribed::First,
                _ => Subscribed::Another,
            })
        };
        self.asked(OP, "queue_subscribe", named(queue, [row::text(name.as_str())]), true, read).await
    }

    /// In several transactions, where there are many jobs; the group goes with the last.
    pub(super) async fn drop_group(&self, queue: &QueueId, name: &Group) -> StoreResult<Option<u64>> {
        let mut dropped = None;
        loop {
            let values = named(queue, [row::text(name.as_str()), Value::Big(row::size(PART))]);
            let read = |rows: &[PgRow]| {
                let part = |row| Ok::<_, Error>((natural::<u64>(row, "removed")?, row.try_get("is_last")?));
                rows.first().map(part).transpose()
            };
            let part: Option<(u64, bool)> = self.asked(OP, "queue_unsubscribe", values, false, read).await?;
            let Some((removed, is_last)) = part else { return Ok(dropped) };
            dropped = Some(dropped.unwrap_or_default() + removed);
            if is_last {
                return Ok(dropped);
            }
        }
    }

    pub(super) async fn hold_back(
        &self,
        queue: &QueueId,
        name: Option<&Group>,
        paused: bool,
    ) -> StoreResult<u64> {
        let values = named(queue, [group(name), Value::Big(i64::from(paused))]);
        self.asked(OP, "queue_pause", values, true, count).await
    }

    pub(super) async fn cancel_job(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled> {
        let read = |rows: &[PgRow]| {
            let row = one(rows)?;
            Ok(Cancelled {
                removed: natural(row, "removed")?,
                told: natural(row, "told")?,
                over: maybe_state(row)?,
            })
        };
        self.asked(OP, "queue_cancel", named(queue, meant(job)), false, read).await
    }

    pub(super) async fn postpone(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64> {
        let (after, at) = row::due(due);
        let values = named(queue, meant(job).into_iter().chain([Value::Big(after), row::maybe(at)]));
        self.asked(OP, "queue_reschedule", values, true, count).await
    }

    pub(super) async fn revive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>> {
        let more = [
            group(req.group.as_ref()),
            Value::Big(i64::from(MAX_REDRIVES)),
            Value::Big(i64::from(req.force)),
            row::uids(req.uids.iter().copied()),
        ];
        let read = |rows: &[PgRow]| {
            let one = |row: &PgRow| {
                Ok(match row.try_get("said")? {
                    "ready" => Redriven::Ready,
                    "too_often" => Redriven::TooOften,
                    "duplicate" => Redriven::Duplicate { uid: row::uid(row, "uid")? },
                    _ => Redriven::NotDead,
                })
            };
            rows.iter().map(one).collect()
        };
        self.asked(OP, "queue_redrive", named(&req.queue, more), false, read).await
    }

    pub(super) async fn edit_dead(&self, req: &Edit) -> StoreResult<bool> {
        let (version, digest) = row::digest(&req.fingerprint);
        let more = [
            group(req.group.as_ref()),
            Value::bytes(req.uid.as_bytes()),
            Value::bytes(&req.payload),
            Value::Int(i32::try_from(version).unwrap_or_default()),
            Value::Bytes(digest),
        ];
        let edited = self.asked(OP, "queue_edit", named(&req.queue, more), true, count).await?;
        Ok(edited > 0)
    }

    pub(super) async fn drop_letters(
        &self,
        queue: &QueueId,
        name: Option<&Group>,
        uids: &[Uid],
    ) -> StoreResult<u64> {
        let values = named(queue, [group(name), row::uids(uids.iter().copied())]);
        self.asked(OP, "queue_drop_dead", values, false, count).await
    }

    /// In several transactions, where there are many jobs; none that is added meanwhile.
    pub(super) async fn clear(&self, queue: &QueueId) -> StoreResult<u64> {
        let (mut removed, mut newest, mut after) = (0, 0, (0, Vec::new()));
        loop {
            let more = [
                Value::Big(newest),
                Value::Big(after.0),
                Value::Bytes(Some(after.1)),
                Value::Big(row::size(PART)),
            ];
            let read = |rows: &[PgRow]| {
                let row = one(rows)?;
                let last = (row.try_get::<Option<i64>, _>("grp")?, row.try_get::<Option<Vec<u8>>, _>("uid")?);
                Ok((natural::<usize>(row, "removed")?, row.try_get("newest")?, last))
            };
            let (part, before, last) = self.asked(OP, "queue_purge", named(queue, more), false, read).await?;
            removed += part;
            match last {
                (Some(group), Some(uid)) if part == PART => (newest, after) = (before, (group, uid)),
                _ => return Ok(u64::try_from(removed).unwrap_or(u64::MAX)),
            }
        }
    }

    pub(super) async fn bound(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()> {
        let rate = limits.rate.map(|(count, window)| (i64::from(count), row::span(window)));
        let more = [
            row::maybe(limits.concurrency.map(i64::from)),
            Value::ManyBig(vec![rate.map(|(count, _)| count), rate.map(|(_, window)| window)]),
            row::maybe(limits.max_len.map(row::integer)),
            Value::Big(limits.events.min(MOST_KEPT).into()),
            row::maybe_text(limits.per.as_ref().map(PerRate::to_text).as_deref()),
        ];
        self.asked(OP, "queue_set_limits", named(queue, more), true, count).await.map(drop)
    }

    pub(super) async fn bounds(&self, queue: &QueueId) -> StoreResult<Limits> {
        let read = |rows: &[PgRow]| {
            let Some(row) = rows.first() else { return Ok(Limits::default()) };
            let number = |name: &str| row.try_get::<Option<i64>, _>(name);
            let count = number("rate")?.and_then(|count| u32::try_from(count).ok());
            let window = number("rate_window")?.and_then(|ms| u64::try_from(ms).ok());
            let window = window.and_then(|ms| Span::new(Duration::from_millis(ms)).ok());
            Ok(Limits {
                concurrency: number("concurrency")?.and_then(|most| u32::try_from(most).ok()),
                rate: count.zip(window),
                max_len: number("max_len")?.and_then(|most| u64::try_from(most).ok()),
                events: natural(row, "events")?,
                per: row::string(row, "per")?.as_deref().and_then(PerRate::read),
            })
        };
        self.asked(OP, "queue_limits", named(queue, []), true, read).await
    }

    pub(super) async fn forget_jobs(&self, limit: usize) -> StoreResult<usize> {
        let mut gone = 0;
        while gone < limit {
            let part = PART.min(limit - gone);
            let forgotten =
                self.asked(OP, "queue_prune", vec![Value::Big(row::size(part))], false, count).await?;
            let forgotten = usize::try_from(forgotten).unwrap_or(part);
            gone += forgotten;
            if forgotten < part {
                break;
            }
        }
        Ok(gone)
    }
}
