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
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::{Handle, Id},
    sync::oneshot,
    time::Instant,
};

/// After so long a waiter looks for itself: whoever took a mark may be gone with it.
const LONGEST: Duration = Duration::from_secs(5);
/// So much later than a server should have answered, it is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many connections are kept while nobody waits on them.
const KEPT: usize = 16;
/// Where the key of the marks stands among those of a group that comes first.
const MARKS: usize = 15;

/// Questions that the server answers when a mark is left. A worker that is called away leaves its question where it is:
/// the next wait takes it up, and a connection is not made for each job.
#[derive(Default)]
pub(super) struct Waiters(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    /// Connections on which nothing is asked, by the runtimes that drive them.
    lines: Vec<(Id, Line)>,
    /// Questions that nobody waits for at the moment, by runtime and key.
    left: Vec<(Id, String, Asked)>,
    number: u64,
}

/// A question, and where its answer comes.
struct Asked {
    number: u64,
    answer: oneshot::Receiver<Result<Woken, Failure>>,
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

impl Waiters {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // Nothing that holds it can panic between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn left(&self, runtime: Id, key: &str) -> Option<Asked> {
        let mut pool = self.pool();
        let is_it = |(known, of, _): &(Id, String, Asked)| *known == runtime && of == key;
        let at = pool.left.iter().position(is_it)?;
        Some(pool.left.swap_remove(at).2)
    }

    /// Whether nobody waits for this question; it is then gone.
    fn is_left(&self, number: u64) -> bool {
        let mut pool = self.pool();
        let at = pool.left.iter().position(|(_, _, asked)| asked.number == number);
        at.map(|at| pool.left.swap_remove(at)).is_some()
    }
}

/// A question that somebody waits for; left where it is when he goes away.
struct Waiting<'a> {
    waiters: &'a Waiters,
    runtime: Id,
    key: &'a str,
    asked: Option<Asked>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Also where the answer has just come: whoever is called away from a wait takes a step, or waits again.
        if let Some(asked) = self.asked.take() {
            self.waiters.pool().left.push((self.runtime, self.key.to_owned(), asked));
        }
    }
}

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Woken {
    /// Something is ready.
    Ready,
    /// Something is due earlier than was known.
    Changed,
    /// The server has waited for as long as it was asked to.
    Nobody,
    /// The waiter has waited for as long as he wants.
    Over,
}

impl Queues {
    pub(super) async fn waited(self: &Arc<Self>, req: &Wait) -> Result<(), Failure> {
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
                Woken::Over if due == Some(limit) || limit == left => return Ok(()),
                Woken::Changed | Woken::Nobody | Woken::Over => {}
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

    async fn woken(self: &Arc<Self>, place: &Place, req: &Wait, limit: Duration) -> Result<Woken, Failure> {
        let runtime = Handle::try_current().map_err(|_| Failure::no_runtime())?.id();
        let own = place.groups().own(&req.group);
        let Some(key) = own.and_then(|own| own.keys.get(MARKS).cloned()) else { return Ok(Woken::Changed) };
        let asked = loop {
            let Some(mut left) = self.waiters.left(runtime, &key) else {
                break self.ask_for_a_mark(runtime, &key).await?;
            };
            match left.answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => break left,
                Ok(Ok(woken @ (Woken::Ready | Woken::Changed))) => return Ok(woken),
                // It was over before anybody came back.
                Ok(_) | Err(oneshot::error::TryRecvError::Closed) => {}
            }
        };
        let mut waiting = Waiting { waiters: &self.waiters, runtime, key: &key, asked: Some(asked) };
        let Some(asked) = &mut waiting.asked else { return Ok(Woken::Nobody) };
        match tokio::time::timeout(limit, &mut asked.answer).await {
            Ok(answer) => {
                waiting.asked = None;
                answer.unwrap_or_else(|_| Err(Failure::gone()))
            }
            Err(_) => Ok(Woken::Over),
        }
    }

    async fn ask_for_a_mark(self: &Arc<Self>, runtime: Id, key: &str) -> Result<Asked, Failure> {
        let connector = &self.lines().connector;
        let line = match self.waiters.line(runtime) {
            Some(line) => line,
            None => connector.open_to_wait(Instant::now() + self.lines().limit(), LONGEST + PATIENCE).await?,
        };
        let (tell, answer) = oneshot::channel();
        let number = {
            let mut pool = self.waiters.pool();
            pool.number += 1;
            pool.number
        };
        let (queues, key) = (Arc::clone(self), key.to_owned());
        tokio::spawn(async move {
            let woken = queues.popped(&line, &key).await;
            if queues.waiters.is_left(number) {
                queues.put_back(&line, &key, woken.as_ref()).await;
            } else if let Err(woken) = tell.send(woken.clone()) {
                queues.put_back(&line, &key, woken.as_ref()).await;
            }
            if woken.is_ok() {
                queues.waiters.put(runtime, line);
            }
        });
        Ok(Asked { number, answer })
    }

    /// A mark that came to nobody is for another worker.
    async fn put_back(&self, line: &Line, key: &str, woken: Result<&Woken, &Failure>) {
        let (score, mark) = match woken {
            Ok(Woken::Ready) => (0, "r"),
            Ok(Woken::Changed) => (1, "d"),
            _ => return,
        };
        let mut add = redis::cmd("ZADD");
        add.arg(key).arg(score).arg(mark);
        let sent = line.send_one(Routed::new(self.lines().connector.is_cluster(), key, add));
        // Where that fails, others look for themselves.
        let _ = tokio::time::timeout(PATIENCE, sent).await;
    }

    async fn popped(&self, line: &Line, key: &str) -> Result<Woken, Failure> {
        let connector = &self.lines().connector;
        let mut pop = redis::cmd("BZPOPMIN");
        pop.arg(key).arg(LONGEST.as_secs());
        let answer = line.send_one(Routed::new(connector.is_cluster(), key, pop));
        let Ok(answer) = tokio::time::timeout(LONGEST + PATIENCE, answer).await else {
            return Err(Failure::timeout(&connector.place, LONGEST + PATIENCE));
        };
        let answer = match answer {
            Ok(Value::ServerError(error)) => Err(error.into()),
            answer => answer,
        };
        match answer {
            Ok(Value::Nil) => Ok(Woken::Nobody),
            Ok(Value::Array(parts)) => match parts.get(1) {
                Some(Value::BulkString(mark)) if mark == b"r" => Ok(Woken::Ready),
                _ => Ok(Woken::Changed),
            },
            Ok(_) => Err(self.nonsense()),
            Err(error) if error.code().is_some() => Err(Failure::of_reply(&connector.place, error)),
            Err(error) => Err(Failure::lost(&connector.place, error)),
        }
    }
}
