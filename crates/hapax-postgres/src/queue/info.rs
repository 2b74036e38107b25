//! What is told of jobs and queues.

use super::{
    add, row,
    row::{natural, string},
    step,
};
use crate::{store::PostgresStore, value::Value};
use hapax_core::{
    Namespace, StoreResult,
    queue::{
        Consumer, DeadReason, Group, JobInfo, JobPage, JobRef, JobState, ListJobs, Priority, Progress,
        QueueId, QueueName, QueueStats, history::History,
    },
};
use sqlx::{Error, Row as _, postgres::PgRow};

const OP: &str = "read a queue";

/// The place of a job in a list: its group, and three numbers.
#[derive(Clone, Copy)]
struct Mark([i64; 4]);

impl Mark {
    /// Before all. A minus binds weaker than the cast of a literal, so not the least number.
    const FIRST: Self = Self([-i64::MAX; 4]);

    fn parse(text: &str) -> Option<Self> {
        let parts = text.split('.').map(str::parse).collect::<Result<Vec<i64>, _>>().ok()?;
        parts.try_into().ok().map(Self)
    }

    fn read(row: &PgRow) -> Result<Self, Error> {
        Ok(Self([row.try_get("grp")?, row.try_get("first")?, row.try_get("second")?, row.try_get("third")?]))
    }

    fn text(self) -> String {
        self.0.map(|part| part.to_string()).join(".")
    }
}

/// By the one name or the other.
pub(super) fn meant(job: &JobRef) -> [Value; 2] {
    match job {
        JobRef::Uid(uid) => [Value::bytes(uid.as_bytes()), Value::Bytes(None)],
        JobRef::JobId(id) => [Value::Bytes(None), row::text(id.as_str())],
    }
}

impl PostgresStore {
    pub(super) async fn find_job(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>> {
        let values = row::queue(queue).into_iter().chain(meant(job)).collect();
        self.asked(OP, "queue_find", values, true, |rows| rows.iter().map(info).collect()).await
    }

    pub(super) async fn list_jobs(&self, req: &ListJobs) -> StoreResult<JobPage> {
        let state = match req.state {
            JobState::Ready => 0,
            JobState::Delayed => 1,
            JobState::Running => 2,
            JobState::Dead => 3,
            JobState::Done | JobState::Cancelled => return Ok(JobPage::default()),
        };
        let mut values: Vec<_> = row::queue(&req.queue).into();
        values.extend([row::maybe_text(req.group.as_ref().map(Group::as_str)), Value::Big(state)]);
        let after = req.mark("postgres", Mark::parse)?.unwrap_or(Mark::FIRST);
        values.extend(after.0.map(Value::Big));
        // One more than asked for tells whether there are more.
        values.push(Value::Big(row::size(req.limit).saturating_add(1)));
        let read = |rows: &[PgRow]| {
            let jobs = rows.iter().take(req.limit).map(info).collect::<Result<_, _>>()?;
            let last = rows.get(req.limit.saturating_sub(1)).filter(|_| rows.len() > req.limit);
            Ok(JobPage { jobs, next: last.map(Mark::read).transpose()?.map(Mark::text) })
        };
        self.asked(OP, "queue_list", values, true, read).await
    }

    pub(super) async fn figures(
        &self,
        namespace: &Namespace,
        queue: Option<&QueueName>,
    ) -> StoreResult<Vec<QueueStats>> {
        let values = vec![row::text(namespace.as_str()), row::maybe_text(queue.map(QueueName::as_str))];
        self.asked(OP, "queue_stats", values, true, |rows| rows.iter().map(stats).collect()).await
    }
}

fn info(row: &PgRow) -> Result<JobInfo, Error> {
    let priority = u8::try_from(row.try_get::<i16, _>("priority")?).ok().and_then(Priority::from_number);
    Ok(JobInfo {
        uid: row::uid(row, "uid")?,
        job_id: row::job_id(row)?,
        group: row::named(row, "name", Group::new)?,
        state: add::state(row)?,
        priority: priority.ok_or_else(|| row::unreadable("a priority is 0 to 3"))?,
        counts: step::counts(row)?,
        added_at: row::instant(row, "added_at")?,
        at: row::maybe_instant(row, "at")?.unwrap_or_default(),
        consumer: row::named(row, "consumer", Consumer::new)?,
        taken_at: row::maybe_instant(row, "taken_at")?,
        // A newer version may know others.
        reason: string(row, "reason")?.and_then(|word| DeadReason::parse(&word)),
        error: string(row, "error")?,
        payload: row::bytes(row, "payload")?,
        settings: row::bytes(row, "settings")?,
        result: row::receipt(row)?,
        progress: Progress::read(&row::bytes(row, "progress")?),
        history: History::read(&row::bytes(row, "history")?),
    })
}

pub(super) fn stats(row: &PgRow) -> Result<QueueStats, Error> {
    let now = row::instant(row, "now")?;
    Ok(QueueStats {
        queue: row::name(row, "queue", QueueName::new)?,
        group: row::named(row, "name", Group::new)?,
        ready: natural(row, "ready")?,
        delayed: natural(row, "delayed")?,
        running: natural(row, "running")?,
        dead: natural(row, "dead")?,
        added: natural(row, "added")?,
        done: natural(row, "done")?,
        cancelled: natural(row, "cancelled")?,
        lost: natural(row, "lost")?,
        paused: row.try_get("paused")?,
        oldest: row::maybe_instant(row, "oldest")?.map(|since| now.since(since)),
        seen: row::maybe_instant(row, "seen")?,
    })
}
