//! Waiting for a lock: on a connection that does nothing else, until its release leaves a mark.
//!
//! Who waits says so in the lock, and a release leaves a mark only then: a lock that nobody waits for costs nothing more. All
//! who wait for one lock on one runtime share a question. A mark is a hint: it may wake one who does not take the lock then,
//! so nobody relies on it for longer than a second.

use super::{Locks, step::Want};
use crate::{
    error::Failure,
    line::{Line, Routed},
};
use hapax_core::{Name, StoreResult};
use redis::Value;
use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::{Handle, Id},
    sync::watch,
    time::Instant,
};

/// After so long a waiter looks for itself.
const LONGEST: Duration = Duration::from_secs(1);
/// For so long it says that it waits: until it says so again, and a little more.
const WANTED: Duration = Duration::from_secs(2);
/// Shorter waits ask nobody.
const SHORT: Duration = Duration::from_millis(10);
/// Where nobody can be asked, a waiter looks after so long at most.
const POLLED: Duration = Duration::from_millis(80);
/// So much later than a server should have answered, it is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many locks are waited for by connections; beyond that, by looking.
const MOST: usize = 32;
/// So many connections are kept while nobody waits on them.
const KEPT: usize = 8;

/// Questions that the server answers when a mark is left.
#[derive(Default)]
pub(super) struct Waiters {
    pool: Mutex<Pool>,
    random: RandomState,
}

#[derive(Default)]
struct Pool {
    /// Connections on which nothing is asked, by the runtimes that drive them.
    lines: Vec<(Id, Line)>,
    /// What is asked, by runtime and key. Nothing is sent before the answer, and then the question is gone.
    asked: HashMap<(Id, String), watch::Receiver<()>>,
    /// So that no two pauses are alike.
    pauses: u64,
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

impl Waiters {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // Nothing that holds it can panic between two changes.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From half of it to all of it: who waits together does not come back together.
    fn jittered(&self, longest: Duration) -> Duration {
        let mut pool = self.pool();
        pool.pauses += 1;
        let part = u32::try_from(self.random.hash_one(pool.pauses) % 1000).unwrap_or_default();
        longest / 2 + longest / 2 * part / 1000
    }

    fn line(&self, runtime: Id) -> Option<Line> {
        let mut pool = self.pool();
        pool.lines.retain(|(_, line)| !line.is_over());
        let at = pool.lines.iter().position(|(known, _)| *known == runtime)?;
        Some(pool.lines.swap_remove(at).1)
    }

    fn put(&self, runtime: Id, line: Line) {
        let mut pool = self.pool();
        if pool.lines.len() < KEPT {
            pool.lines.push((runtime, line));
        }
    }
}

impl Locks {
    pub(super) async fn waited(self: &Arc<Self>, name: &Name, limit: Duration) -> StoreResult<()> {
        // A limit that no clock can show is none.
        let far = Duration::from_hours(24 * 365);
        let over = Instant::now() + limit.min(far);
        loop {
            let rest = self.store.take(&Want(name, WANTED)).await?;
            let left = over.saturating_duration_since(Instant::now());
            if rest.is_zero() || left.is_zero() {
                return Ok(());
            }
            if left <= SHORT {
                tokio::time::sleep(left).await;
                return Ok(());
            }
            // The lease ends, and all who wait for that come: not in the same moment.
            let pause = if rest < LONGEST { rest + self.waiters.jittered(SHORT) } else { LONGEST };
            let Some(mut mark) = self.asked(name) else {
                tokio::time::sleep(self.waiters.jittered(POLLED).min(left)).await;
                return Ok(());
            };
            if let Ok(heard) = tokio::time::timeout(pause.min(left), mark.changed()).await {
                match heard {
                    Ok(()) => return Ok(()),
                    // No mark came, or nobody could be asked.
                    Err(_) => tokio::time::sleep(self.waiters.jittered(POLLED / 4).min(left)).await,
                }
            }
        }
    }

    /// A question for the mark of a lock: one that is asked, or a new one.
    fn asked(self: &Arc<Self>, name: &Name) -> Option<watch::Receiver<()>> {
        let runtime = Handle::try_current().ok()?.id();
        let key = self.store.keys().lock_mark(name);
        let mut pool = self.waiters.pool();
        // One whose runtime is gone has no sender.
        pool.asked.retain(|_, question| question.has_changed().is_ok());
        if let Some(question) = pool.asked.get(&(runtime, key.clone())) {
            return Some(question.clone());
        }
        if pool.asked.len() >= MOST {
            return None;
        }
        let (tell, question) = watch::channel(());
        pool.asked.insert((runtime, key.clone()), question.clone());
        drop(pool);
        let locks = Arc::clone(self);
        tokio::spawn(async move { locks.ask(runtime, key, tell).await });
        Some(question)
    }

    async fn ask(&self, runtime: Id, key: String, tell: watch::Sender<()>) {
        let connector = self.store.connector();
        let line = match self.waiters.line(runtime) {
            Some(line) => Ok(line),
            None => {
                connector.open_to_wait(Instant::now() + self.store.lines.limit(), LONGEST + PATIENCE).await
            }
        };
        let popped = match &line {
            Ok(line) => self.popped(line, &key).await,
            Err(failure) => Err(failure.clone()),
        };
        // From here on nobody joins.
        drop(self.waiters.pool().asked.remove(&(runtime, key.clone())));
        match (popped, line) {
            (Ok(is_marked), Ok(line)) => {
                if is_marked && tell.send(()).is_err() {
                    self.put_back(&line, &key).await;
                }
                self.waiters.put(runtime, line);
            }
            (Err(failure), _) | (_, Err(failure)) => {
                tracing::debug!(error = %failure.error("wait for a lock"), "no mark can be waited for");
            }
        }
    }

    /// A mark that came to nobody is for another waiter.
    async fn put_back(&self, line: &Line, key: &str) {
        let to_cluster = self.store.connector().is_cluster();
        let (mut add, mut expire) = (redis::cmd("ZADD"), redis::cmd("PEXPIRE"));
        add.arg(key).arg(0).arg("f");
        expire.arg(key).arg(u64::try_from(WANTED.as_millis()).unwrap_or(u64::MAX));
        let both = [add, expire].map(|command| Routed::new(to_cluster, key, command));
        // Where that fails, others look for themselves.
        drop(tokio::time::timeout(PATIENCE, line.send(both.into())).await);
    }

    /// Whether a mark was left within a second.
    async fn popped(&self, line: &Line, key: &str) -> Result<bool, Failure> {
        let connector = self.store.connector();
        let mut pop = redis::cmd("BZPOPMIN");
        pop.arg(key).arg(LONGEST.as_secs());
        let answer = line.send_one(Routed::new(connector.is_cluster(), key, pop));
        let Ok(answer) = tokio::time::timeout(LONGEST + PATIENCE, answer).await else {
            return Err(Failure::timeout(&connector.place, LONGEST + PATIENCE));
        };
        match answer {
            Ok(Value::Nil) => Ok(false),
            Ok(Value::Array(_)) => Ok(true),
            Ok(Value::ServerError(error)) => Err(Failure::of_reply(&connector.place, error.into())),
            Ok(_) => Err(Failure::nonsense(&connector.place)),
            Err(error) if error.code().is_some() => Err(Failure::of_reply(&connector.place, error)),
            Err(error) => Err(Failure::lost(&connector.place, error)),
        }
    }
}
