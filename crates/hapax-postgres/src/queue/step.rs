//! A worker's step: ends, takes over, hands out.

use super::row::{self, natural, size, span};
use crate::{answer::Answer, step::Step as KeyStep, store::PostgresStore, value::Value};
use hapax_core::{
    StoreResult,
    idempotency::{Complete, Completed, Write},
    queue::{Counts, End, Finish, Finished, MOST, Step, Stepped, Taken, machine},
};
use sqlx::{Error, Row as _, postgres::PgRow};

const OP: &str = "take jobs";
/// Which arguments of the function `complete_named` are bytes; the others are numbers.
const BYTES: [bool; 8] = [true, true, false, true, false, true, true, false];

impl PostgresStore {
    pub(super) async fn take_step(&self, req: &Step) -> StoreResult<Stepped> {
        // Sent again, it would hand out others as well.
        self.asked(OP, "queue_step", values(req), false, |rows| read(rows, &req.finishes)).await
    }
}

fn values(req: &Step) -> Vec<Value> {
    let mut values: Vec<_> = row::queue(&req.queue).into();
    values.extend([
        row::text(req.group.as_str()),
        row::text(req.consumer.as_str()),
        Value::Big(size(req.want.min(MOST))),
        Value::Big(span(req.lease)),
        Value::Big(i64::from(req.max_losses)),
        row::uids(req.finishes.iter().map(|finish| finish.uid)),
        Value::ManyBig(req.finishes.iter().map(|finish| Some(row::integer(finish.delivery))).collect()),
    ]);
    let ends = || req.finishes.iter().map(|finish| &finish.end);
    let big = |of: fn(&End) -> Option<i64>| Value::ManyBig(ends().map(of).collect());
    let bytes = |of: fn(&End) -> Option<&[u8]>| {
        Value::ManyBytes(ends().map(|end| of(end).map(<[u8]>::to_vec)).collect())
    };
    values.extend([
        big(|end| Some(number(end))),
        big(|end| match end {
            End::Retry { after, .. } | End::Snooze { after } => Some(span(*after)),
            End::Done { .. } | End::Dead { .. } => None,
        }),
        bytes(|end| match end {
            End::Dead { reason, .. } => Some(reason.as_str().as_bytes()),
            _ => None,
        }),
        bytes(|end| match end {
            End::Retry { error, .. } | End::Dead { error, .. } => Some(machine::cut(error).as_bytes()),
            End::Done { .. } | End::Snooze { .. } => None,
        }),
        big(|end| match end {
            End::Done { result: Some((_, keep)) } => Some(span(*keep)),
            _ => None,
        }),
        bytes(|end| match end {
            End::Done { result: Some((result, _)) } => Some(result.codec.as_bytes()),
            _ => None,
        }),
        bytes(|end| match end {
            End::Done { result: Some((result, _)) } => Some(&result.bytes),
            _ => None,
        }),
    ]);
    values.extend(keys(&req.finishes));
    values
}

/// The keys in columns, and before them which is whose.
fn keys(finishes: &[Finish]) -> Vec<Value> {
    let mut last = 0;
    let numbers = finishes.iter().map(|finish| {
        last += i64::from(finish.key.is_some());
        finish.key.as_ref().map(|_| last)
    });
    let mut values = vec![Value::ManyBig(numbers.collect())];
    let rows: Vec<_> = finishes.iter().filter_map(|finish| Some(finish.key.as_ref()?.values())).collect();
    for (at, is_bytes) in BYTES.into_iter().enumerate() {
        let column = rows.iter().map(|row| row.get(at));
        values.push(if is_bytes {
            let bytes = column.map(|value| match value {
                Some(Value::Bytes(bytes)) => bytes.clone(),
                Some(Value::Token(token)) => Some(token.to_vec()),
                _ => None,
            });
            Value::ManyBytes(bytes.collect())
        } else {
            let numbers = column.map(|value| match value {
                Some(Value::Big(number)) => Some(*number),
                Some(Value::Int(number)) => Some(i64::from(*number)),
                Some(Value::Small(number)) => number.map(i64::from),
                _ => None,
            });
            Value::ManyBig(numbers.collect())
        });
    }
    values
}

fn number(end: &End) -> i64 {
    match end {
        End::Done { .. } => 0,
        End::Retry { .. } => 1,
        End::Snooze { .. } => 2,
        End::Dead { reason, .. } if machine::is_attempt(*reason) => 3,
        End::Dead { .. } => 4,
    }
}

fn read(rows: &[PgRow], finishes: &[Finish]) -> Result<Stepped, Error> {
    let (mut finished, mut jobs, mut end) = (Vec::with_capacity(finishes.len()), Vec::new(), None);
    for row in rows {
        match row.try_get::<&str, _>("what")? {
            "finished" => {
                let key = finishes.get(finished.len()).and_then(|finish| finish.key.as_deref());
                let job = if row.try_get("applied")? { Write::Applied } else { Write::Fenced };
                finished.push(Finished { job, key: key.map(|key| completed(row, key)).transpose()? });
            }
            "job" => jobs.push(taken(row)?),
            _ => {
                let next_due = row::maybe_instant(row, "next_due")?;
                end = Some((next_due, row.try_get("paused")?, row::instant(row, "now")?));
            }
        }
    }
    match end {
        Some((next_due, paused, now)) if finished.len() == finishes.len() => {
            Ok(Stepped { finished, jobs, next_due, paused, now })
        }
        _ => Err(row::unreadable("a step without all of its answers")),
    }
}

fn completed(row: &PgRow, key: &Complete) -> Result<Completed, Error> {
    KeyStep::read(key, Answer::read(row)?).ok_or_else(|| row::unreadable("no answer to a receipt"))
}

fn taken(row: &PgRow) -> Result<Taken, Error> {
    Ok(Taken {
        uid: row::uid(row, "uid")?,
        job_id: row::job_id(row)?,
        delivery: natural(row, "delivery")?,
        fence: natural(row, "fence")?,
        counts: counts(row)?,
        snoozed_since: row::maybe_instant(row, "snoozed_since")?,
        payload: row::bytes(row, "payload")?,
        settings: row::bytes(row, "settings")?,
        added_at: row::instant(row, "added_at")?,
    })
}

pub(super) fn counts(row: &PgRow) -> Result<Counts, Error> {
    Ok(Counts {
        attempts: natural(row, "attempts")?,
        losses: natural(row, "losses")?,
        snoozes: natural(row, "snoozes")?,
        given_back: natural(row, "given_back")?,
        redriven: natural(row, "redriven")?,
    })
}
