//! Connections that come back: one for each runtime that calls.
//!
//! A connection is driven by a task, and a task belongs to a runtime. The engine renews leases on a runtime of its own,
//! which must go on when the application's is blocked or gone: so no two runtimes share a connection.

use crate::{
    connect::SharedConnector,
    error::Failure,
    gather::{Gather, Traffic},
    line::{Line, Routed},
    pause::Pause,
    reserve::Wanted,
    step::Outgoing,
};
use hapax_core::StoreErrorKind;
use redis::{RedisError, Value};
use std::{
    pin::pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::{
    runtime::{Handle, Id},
    time::Instant,
};

/// What is sent: built anew for each attempt.
pub(crate) trait Request: Sync {
    /// The command, for the state in which the servers are known to be.
    fn routed(&self, to_cluster: bool) -> Routed;

    /// Whether an answer asks for the same once more, in another form.
    fn differently(&self, answer: &RedisError) -> bool {
        let _ = answer;
        false
    }
}

/// All connections of a store.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) connector: SharedConnector,
    berths: RwLock<Vec<(Id, Arc<Berth>)>>,
}

/// The connection of one runtime.
#[derive(Debug, Default)]
pub(crate) struct Berth {
    line: RwLock<Option<Arc<Line>>>,
    pub(crate) traffic: Traffic,
    /// Steps that are about to leave.
    pub(crate) steps: Gather<Outgoing>,
    /// Reservations that are about to leave.
    pub(crate) reserves: Gather<Wanted>,
    /// Held while connecting; says how long to wait before the next try, and what the last one met.
    opening: tokio::sync::Mutex<Pause>,
}

impl Berth {
    fn line(&self) -> Option<Arc<Line>> {
        let line = self.line.read().unwrap_or_else(PoisonError::into_inner);
        line.as_ref().filter(|line| !line.is_over()).map(Arc::clone)
    }

    fn put(&self, line: &Arc<Line>) {
        *self.line.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(line));
    }
}

impl Lines {
    pub(crate) fn new(connector: SharedConnector) -> Self {
        Self { connector, berths: RwLock::default() }
    }

    /// Connects, once: for a store that is being opened.
    pub(crate) async fn open(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + self.limit();
        let line = Arc::new(self.connector.open(deadline).await?);
        self.berth()?.put(&line);
        Ok(())
    }

    /// How long a call may take.
    pub(crate) fn limit(&self) -> Duration {
        self.connector.options.timeout
    }

    /// Sends requests in one go, and whatever did not get through or asks for it once more. Each has its own answer:
    /// what the server said, or why it said nothing. With `resend` what may have been done is sent again; the steps
    /// know their own token.
    pub(crate) async fn call<R: Request>(&self, requests: &[R], resend: bool) -> Vec<Result<Value, Failure>> {
        self.call_and_wait(requests, 0, resend).await
    }

    /// [`call`](Self::call) whose last requests are about the others: they are asked again after each of those.
    pub(crate) async fn call_and_wait<R: Request>(
        &self,
        requests: &[R],
        waits: usize,
        resend: bool,
    ) -> Vec<Result<Value, Failure>> {
        let mut calls: Vec<_> = requests.iter().map(Call::new).collect();
        self.finish(&mut calls, waits, resend, Instant::now() + self.limit()).await;
        calls.into_iter().map(|call| call.answer.unwrap_or_else(|| Err(self.nonsense()))).collect()
    }

    /// [`call`](Self::call) with one request, which is the usual.
    pub(crate) async fn call_one<R: Request>(&self, request: &R, resend: bool) -> Result<Value, Failure> {
        let (mut call, deadline) = (Call::new(request), Instant::now() + self.limit());
        if let Some(line) = self.berth()?.line() {
            let sent = pin!(line.send_one(request.routed(self.connector.is_cluster())));
            let outcome = match tokio::time::timeout_at(deadline, sent).await {
                Ok(answer) => self.judge(&line, answer, request),
                Err(_) => self.hangs(&line),
            };
            call.hears(outcome, resend, true);
        }
        if call.answer.is_none() {
            // Apart, so that the usual call stays small.
            Box::pin(self.finish(std::slice::from_mut(&mut call), 0, resend, deadline)).await;
        }
        call.answer.unwrap_or_else(|| Err(self.nonsense()))
    }

    async fn finish<R: Request>(
        &self,
        calls: &mut [Call<'_, R>],
        waits: usize,
        resend: bool,
        deadline: Instant,
    ) {
        let mut pause = Pause::default();
        loop {
            let mut open: Vec<_> = calls.iter_mut().filter(|call| call.answer.is_none()).collect();
            if open.is_empty() {
                return;
            }
            let round = self.round(&open, deadline).await;
            let may_go_on = pause.fits(deadline);
            let mut rests = false;
            for (call, outcome) in open.iter_mut().zip(round) {
                rests |= call.hears(outcome, resend, may_go_on);
            }
            let (steps, about_them) = calls.split_at_mut(calls.len() - waits);
            if steps.iter().any(|call| call.answer.is_none()) {
                for call in about_them {
                    call.answer = None;
                }
            }
            if rests {
                pause.rest().await;
            }
        }
    }

    async fn round<R: Request>(&self, open: &[&mut Call<'_, R>], deadline: Instant) -> Vec<Outcome> {
        let all = |outcome: Outcome| open.iter().map(|_| outcome.clone()).collect();
        let line = match self.line(deadline).await {
            Ok(line) => line,
            // Whatever could pass had its time.
            Err(failure) => return all(Outcome::Refused(failure.lasting())),
        };
        let to_cluster = self.connector.is_cluster();
        let commands: Vec<_> = open.iter().map(|call| call.request.routed(to_cluster)).collect();
        let sent = pin!(line.send(commands));
        match tokio::time::timeout_at(deadline, sent).await {
            Ok(answers) => {
                let answers = answers.into_iter().zip(open);
                answers.map(|(answer, call)| self.judge(&line, answer, call.request)).collect()
            }
            Err(_) => all(self.hangs(&line)),
        }
    }

    /// A server that is gone without a word must not cost the next caller the same.
    fn hangs(&self, line: &Line) -> Outcome {
        line.end();
        Outcome::Lost(Failure::timeout(&self.connector.place, self.limit()))
    }

    fn judge<R: Request>(&self, line: &Line, answer: Result<Value, RedisError>, request: &R) -> Outcome {
        let error = match answer {
            Ok(Value::ServerError(error)) => error.into(),
            Ok(value) => return Outcome::Answer(value),
            Err(error) => error,
        };
        if error.code().is_none() {
            if !self.connector.is_cluster() {
                line.end();
            }
            return Outcome::Lost(Failure::lost(&self.connector.place, error));
        }
        if request.differently(&error) {
            return Outcome::Again;
        }
        let is_replica = error.code() == Some("READONLY");
        let mut failure = Failure::of_reply(&self.connector.place, error);
        if is_replica {
            // Who is the primary by now, a new connection finds out.
            line.end();
            failure.passes = self.connector.is_sentinel() || self.connector.is_cluster();
        }
        Outcome::Refused(failure)
    }

    /// The connection of this runtime; made where there is none, again and again until the deadline.
    async fn line(&self, deadline: Instant) -> Result<Arc<Line>, Failure> {
        let berth = self.berth()?;
        if let Some(line) = berth.line() {
            return Ok(line);
        }
        let unreachable = || Failure::unreachable(&self.connector.place);
        let opening = tokio::time::timeout_at(deadline, berth.opening.lock()).await;
        let Ok(mut pause) = opening else { return Err(unreachable()) };
        if let Some(line) = berth.line() {
            return Ok(line);
        }
        loop {
            match self.connector.open(deadline).await {
                Ok(line) => {
                    let line = Arc::new(line);
                    berth.put(&line);
                    *pause = Pause::default();
                    return Ok(line);
                }
                Err(failure) if failure.passes && pause.fits(deadline) => {
                    tracing::debug!(place = self.connector.place, error = %failure.error("connect"), "no connection yet");
                    pause.rest().await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn nonsense(&self) -> Failure {
        Failure::nonsense(&self.connector.place)
    }

    pub(crate) fn berth(&self) -> Result<Arc<Berth>, Failure> {
        let id = Handle::try_current().map_err(|_| Failure::no_runtime())?.id();
        let known = self.berths.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, berth)) = known.iter().find(|(known, _)| *known == id) {
            return Ok(Arc::clone(berth));
        }
        drop(known);
        let mut berths = self.berths.write().unwrap_or_else(PoisonError::into_inner);
        // Runtimes that have ended took their connections with them.
        berths
            .retain(|(known, berth)| *known == id || Arc::strong_count(berth) > 1 || berth.line().is_some());
        if let Some((_, berth)) = berths.iter().find(|(known, _)| *known == id) {
            return Ok(Arc::clone(berth));
        }
        let berth = Arc::new(Berth::default());
        berths.push((id, Arc::clone(&berth)));
        Ok(berth)
    }
}

/// A request on its way to an answer.
struct Call<'a, R> {
    request: &'a R,
    answer: Option<Result<Value, Failure>>,
    /// Whether it was sent before, and may have been done.
    in_doubt: bool,
}

impl<'a, R> Call<'a, R> {
    fn new(request: &'a R) -> Self {
        Self { request, answer: None, in_doubt: false }
    }

    /// Answers whether there is to be a pause before the next try.
    fn hears(&mut self, outcome: Outcome, resend: bool, may_go_on: bool) -> bool {
        match outcome {
            Outcome::Answer(value) => self.answer = Some(Ok(value)),
            Outcome::Again => {}
            Outcome::Refused(failure) if failure.passes && may_go_on => return true,
            Outcome::Refused(failure) if self.in_doubt => self.answer = Some(Err(failure.maybe_applied())),
            Outcome::Refused(failure) => self.answer = Some(Err(failure)),
            Outcome::Lost(failure) => {
                let is_over = failure.kind == StoreErrorKind::Timeout;
                if !resend || self.in_doubt || is_over || !may_go_on {
                    self.answer = Some(Err(failure.maybe_applied()));
                }
                self.in_doubt = true;
            }
        }
        false
    }
}

#[derive(Clone, Debug)]
enum Outcome {
    Answer(Value),
    /// To be sent once more, in another form.
    Again,
    /// Not done.
    Refused(Failure),
    /// Done or not.
    Lost(Failure),
}
