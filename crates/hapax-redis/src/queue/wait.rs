//! Waiting for jobs: on a connection that does nothing else, until a mark is left or something is due.

use super::{
    Queues,
    call::{Args, Op},
    keys::{Groups, Place},
    script,
};
use crate::{
    error::Failure,
    line::{Line, Routed},
};
use hapax_core::queue::Wait;
use redis::Value;
use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::{Handle, Id},
    time::Instant,
};

/// After so long a waiter looks for itself: whoever took a mark may be gone with it.
const LONGEST: Duration = Duration::from_secs(5);
/// So much later than a server should have answered, it is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many connections are kept while nobody waits on them.
const KEPT: usize = 16;

/// Connections on which nobody waits at the moment, by the runtimes that drive them.
#[derive(Default)]
pub(super) struct Waiters(Mutex<Vec<(Id, Line)>>);

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

impl Waiters {
    fn take(&self, runtime: Id) -> Option<Line> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|(_, line)| !line.is_over());
        let at = lines.iter().position(|(known, _)| *known == runtime)?;
        Some(lines.swap_remove(at).1)
    }

    fn put(&self, runtime: Id, line: Line) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < KEPT {
            lines.push((runtime, line));
        }
    }
}

/// What ended a wait.
enum Woken {
    /// Something is ready.
    Ready,
    /// Something is due earlier than was known.
    Changed,
    Nobody,
}

impl Queues {
    pub(super) async fn waited(&self, req: &Wait) -> Result<(), Failure> {
        let place = self.place(&req.queue);
        let over = Instant::now() + req.limit;
        loop {
            let left = over.saturating_duration_since(Instant::now());
            let Some(ms) = self.next(&place, req).await? else {
                // Nobody has worked for the group, or the queue was forgotten: a step makes it known.
                return Ok(());
            };
            if ms == 0 || left.is_zero() {
                return Ok(());
            }
            let due = u64::try_from(ms).ok().map(Duration::from_millis);
            let limit = left.min(LONGEST).min(due.unwrap_or(LONGEST));
            match self.woken(&place, req, limit).await? {
                Woken::Ready => return Ok(()),
                Woken::Nobody if due == Some(limit) || limit == left => return Ok(()),
                Woken::Changed | Woken::Nobody => {}
            }
        }
    }

    /// In how many milliseconds a step of the group may find something; below 0: nobody knows.
    async fn next(&self, place: &Place, req: &Wait) -> Result<Option<i64>, Failure> {
        if place.groups().own(&req.group).is_none() {
            self.refresh(place).await?;
        }
        let own = |groups: &Groups| Some((groups.own(&req.group)?, Args::new()));
        let Some(mut said) = self.call(place, Op::again(&script::LOOK), own).await? else { return Ok(None) };
        said.number().map(Some).ok_or_else(|| self.nonsense())
    }

    /// A connection that is not put back is closed: a server gives no mark to whoever has gone.
    async fn woken(&self, place: &Place, req: &Wait, limit: Duration) -> Result<Woken, Failure> {
        let runtime = Handle::try_current().map_err(|_| Failure::no_runtime())?.id();
        let connector = &self.lines().connector;
        let line = match self.waiters.take(runtime) {
            Some(line) => line,
            None => connector.open_to_wait(Instant::now() + self.lines().limit(), LONGEST + PATIENCE).await?,
        };
        let own = place.groups().own(&req.group);
        let Some(key) = own.and_then(|own| own.keys.get(14).cloned()) else { return Ok(Woken::Changed) };
        let mut pop = redis::cmd("BZPOPMIN");
        // None at all would be for ever.
        pop.arg(&key).arg(limit.as_secs_f64().max(0.001));
        let answer = line.send_one(Routed::new(connector.is_cluster(), &key, pop));
        let Ok(answer) = tokio::time::timeout(limit + PATIENCE, answer).await else {
            return Err(Failure::timeout(&connector.place, limit + PATIENCE));
        };
        let answer = match answer {
            Ok(Value::ServerError(error)) => Err(error.into()),
            answer => answer,
        };
        let woken = match answer {
            Ok(Value::Nil) => Woken::Nobody,
            Ok(Value::Array(parts)) => match parts.get(1) {
                Some(Value::BulkString(mark)) if mark == b"r" => Woken::Ready,
                _ => Woken::Changed,
            },
            Ok(_) => return Err(self.nonsense()),
            // A server that has become a replica, or has lost the key's slot, lets go of whoever waits.
            Err(error) if matches!(error.code(), Some("UNBLOCKED" | "MOVED")) => return Ok(Woken::Ready),
            Err(error) if error.code().is_some() => return Err(Failure::of_reply(&connector.place, error)),
            Err(error) => return Err(Failure::lost(&connector.place, error)),
        };
        self.waiters.put(runtime, line);
        Ok(woken)
    }
}
