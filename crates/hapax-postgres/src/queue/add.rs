//! Adding jobs: in a step of its own, or within a caller's transaction.

use super::row::{self, integer};
use crate::{call::Call, error::Failure, store::PostgresStore, value::Value};
use hapax_core::{
    StoreResult,
    queue::{Added, JobState, NewJob, OnConflict, QueueId},
};
use sqlx::{Connection as _, Error, PgConnection, Row as _, postgres::PgRow};
use std::time::Duration;

const OP: &str = "add jobs";
const FUNCTION: &str = "queue_add";

impl PostgresStore {
    pub(super) async fn add_jobs(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>> {
        // Sent again, each job is known by its id.
        self.asked(OP, FUNCTION, values(queue, jobs), true, |rows| read(rows, jobs.len())).await
    }

    /// `add` as a part of the caller's transaction: the jobs are there when, and only when, its other rows are.
    ///
    /// `conn` is a connection to the database of the store with a transaction open; a `&mut Transaction` of sqlx is one
    /// too. Roll back unless each answer is one that the caller can live with: [`Added::Full`] and [`Added::Reused`]
    /// mean that the job is not there. After an error roll back too. Who adds a job of the same job id meanwhile waits
    /// for the transaction, for one second; where the queue has a largest length, everybody who adds does. No worker sees
    /// the jobs before the commit.
    ///
    /// Codes: `store.unavailable`, `store.timeout`, `store.auth`, `store.version`. Dropped before its end, the
    /// transaction may hold the jobs or not: roll back.
    pub async fn add_in(
        &self,
        conn: &mut PgConnection,
        queue: &QueueId,
        jobs: &[NewJob],
    ) -> StoreResult<Vec<Added>> {
        let (limit, place) = (self.limit(), &self.sessions.place);
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Failure::no_runtime().error(OP));
        }
        let is_within = conn.is_in_transaction();
        let values = values(queue, jobs);
        let call = Call::one(self.schema(), FUNCTION, &values);
        // Bound: the caller's connection may log what it sends.
        let sent = call.send_bound(conn, self.sessions.options.is_prepared());
        let answers = match tokio::time::timeout(limit, sent).await {
            Ok(rows) => {
                rows.and_then(|rows| read(&rows, jobs.len())).map_err(|error| Failure::of(place, error))
            }
            Err(_) => Err(Failure::timeout(place, limit).maybe_applied()),
        };
        answers.map_err(|failure| if is_within { failure.undone() } else { failure }.error(OP))
    }
}

fn values(queue: &QueueId, jobs: &[NewJob]) -> Vec<Value> {
    let big = |of: fn(&NewJob) -> i64| Value::ManyBig(jobs.iter().map(|job| Some(of(job))).collect());
    let bytes =
        |of: fn(&NewJob) -> &[u8]| Value::ManyBytes(jobs.iter().map(|job| Some(of(job).to_vec())).collect());
    let ids = jobs.iter().map(|job| job.job_id.as_ref().map(|id| id.as_str().as_bytes().to_vec()));
    let mut values: Vec<_> = row::queue(queue).into();
    values.extend([
        bytes(|job| job.uid.as_bytes()),
        Value::ManyBytes(ids.collect()),
        big(|job| row::digest(&job.fingerprint).0),
        Value::ManyBytes(jobs.iter().map(|job| row::digest(&job.fingerprint).1).collect()),
        bytes(|job| &job.payload),
        big(|job| row::due(job.due).0),
        Value::ManyBig(jobs.iter().map(|job| row::due(job.due).1).collect()),
        big(|job| i64::from(job.priority.number())),
        bytes(|job| &job.settings),
        big(|job| integer(job.remember.as_millis())),
        big(|job| match job.on_conflict {
            OnConflict::Refuse => 0,
            OnConflict::Keep => 1,
            OnConflict::Replace => 2,
        }),
    ]);
    values
}

/// The answers in the order of the jobs.
fn read(rows: &[PgRow], count: usize) -> Result<Vec<Added>, Error> {
    let mut answers: Vec<Option<Added>> = vec![None; count];
    for row in rows {
        let nth: usize = row::natural(row, "nth")?;
        let place = nth.checked_sub(1).and_then(|at| answers.get_mut(at));
        *place.ok_or_else(|| row::unreadable("an answer to no job"))? = Some(added(row)?);
    }
    answers.into_iter().collect::<Option<_>>().ok_or_else(|| row::unreadable("a job without an answer"))
}

fn added(row: &PgRow) -> Result<Added, Error> {
    Ok(match row.try_get::<&str, _>("said")? {
        "new" => Added::New { due: row::instant(row, "due")? },
        "replaced" => Added::Replaced { uid: row::uid(row, "uid")?, due: row::instant(row, "due")? },
        "duplicate" => {
            Added::Duplicate { uid: row::uid(row, "uid")?, state: state(row)?, result: row::receipt(row)? }
        }
        "reused" => Added::Reused { uid: row::uid(row, "uid")?, fingerprint: row::fingerprint(row)? },
        "full" => {
            let oldest = row.try_get::<Option<i64>, _>("oldest")?.and_then(|ms| u64::try_from(ms).ok());
            Added::Full {
                depth: row::natural(row, "depth")?,
                oldest: Duration::from_millis(oldest.unwrap_or_default()),
            }
        }
        said => return Err(row::unreadable(format!("`{said}` is no answer to a job"))),
    })
}

/// How far a job is.
pub(super) fn state(row: &PgRow) -> Result<JobState, Error> {
    maybe_state(row)?.ok_or_else(|| row::unreadable("a job has no state"))
}

pub(super) fn maybe_state(row: &PgRow) -> Result<Option<JobState>, Error> {
    const ALL: [JobState; 6] = [
        JobState::Ready,
        JobState::Delayed,
        JobState::Running,
        JobState::Dead,
        JobState::Done,
        JobState::Cancelled,
    ];
    let number = row.try_get::<Option<i16>, _>("state")?;
    Ok(number.and_then(|number| ALL.get(usize::try_from(number).ok()?).copied()))
}
