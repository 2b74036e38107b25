//! The connections, apart for each runtime: one that is blocked must not hold up another, which may be renewing leases.
//!
//! Not the driver's pool: that asks the server once more after each use, and a step is one round trip here.

use crate::{
    call::Call,
    error::{Failure, Remedy},
    gather::Gather,
    options::PostgresOptions,
    session::Session,
};
use sqlx::{ConnectOptions as _, postgres::PgRow};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    runtime::{Handle, Id},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// A statement is sent so many times at most.
const TRIES: usize = 4;
/// So many statements of many callers are under way at once.
const SLOTS: usize = 2;
/// Connections of runtimes that are gone are forgotten when there are more than this.
const RUNTIMES: usize = 16;

pub(crate) struct Sessions {
    pub(crate) options: PostgresOptions,
    pub(crate) place: String,
    berths: Mutex<Vec<(Id, Arc<Berth>)>>,
}

/// The connections of one runtime.
pub(crate) struct Berth {
    /// For statements of one call.
    room: Arc<Semaphore>,
    /// For those of many callers.
    pub(crate) slots: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    pub(crate) gather: Gather,
}

/// By what right a statement takes a connection.
#[derive(Clone, Copy)]
pub(crate) enum Lane<'a> {
    /// It waits for its turn.
    Alone,
    /// Its caller holds this.
    Slot(#[expect(dead_code, reason = "it is held, not used")] &'a OwnedSemaphorePermit),
}

impl Berth {
    /// Two connections for many callers keep server and client busy at once; more would only make their statements
    /// smaller. Whoever waits for a lock has others.
    fn new(connections: usize) -> Self {
        let slots = SLOTS.min(connections.div_ceil(2));
        let together = Arc::new(Semaphore::new(slots));
        let room = match connections - slots {
            0 => Arc::clone(&together),
            rest => Arc::new(Semaphore::new(rest)),
        };
        Self { room, slots: together, idle: Mutex::default(), gather: Gather::new(slots) }
    }

    fn take(&self) -> Option<Session> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, session: Session) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    /// One was lost, so the others are likely to be.
    fn empty(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What became of the tries so far.
#[derive(Debug, Default)]
struct Tried {
    /// A statement is on its way.
    is_out: bool,
    /// An earlier one may have been done.
    maybe_applied: bool,
}

impl Sessions {
    pub(crate) fn new(options: PostgresOptions) -> Self {
        let place = options.place();
        Self { options, place, berths: Mutex::default() }
    }

    pub(crate) fn berth(&self) -> Result<Arc<Berth>, Failure> {
        let here = Handle::try_current().map_err(|_| Failure::no_runtime())?.id();
        let mut berths = self.berths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, berth)) = berths.iter().find(|(id, _)| *id == here) {
            return Ok(Arc::clone(berth));
        }
        if berths.len() >= RUNTIMES {
            berths.retain(|(_, berth)| Arc::strong_count(berth) > 1);
        }
        let berth = Arc::new(Berth::new(self.options.connections));
        berths.push((here, Arc::clone(&berth)));
        Ok(berth)
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> Result<Session, Failure> {
        let connected = self.options.driver().connect().await;
        let conn = connected.map_err(|error| Failure::of_connect(&self.place, error))?;
        Ok(Session::new(conn, self.options.prepared))
    }

    /// Gives a connection that works to whoever comes next.
    pub(crate) fn keep(&self, session: Session) -> Result<(), Failure> {
        self.berth()?.put(session);
        Ok(())
    }

    /// [`call`](Self::call) by itself, within the time that a call has, and again where its reply was lost.
    pub(crate) async fn call_within_limit(&self, call: &Call<'_>) -> Result<Vec<PgRow>, Failure> {
        self.call(call, true, Instant::now() + self.options.timeout, Lane::Alone).await
    }

    /// Calls, and calls again where that is harmless. A call that is dropped takes its connection with it.
    pub(crate) async fn call(
        &self,
        call: &Call<'_>,
        resend: bool,
        deadline: Instant,
        lane: Lane<'_>,
    ) -> Result<Vec<PgRow>, Failure> {
        let berth = self.berth()?;
        let mut tried = Tried::default();
        let tries = self.tries(&berth, call, resend, deadline, lane, &mut tried);
        let ended = tokio::time::timeout_at(deadline, tries).await;
        let ended = ended.unwrap_or_else(|_| Err(Failure::timeout(&self.place, self.options.timeout)));
        ended.map_err(|failure| {
            let is_out = tried.is_out || tried.maybe_applied;
            if is_out { failure.maybe_applied() } else { failure }
        })
    }

    async fn tries(
        &self,
        berth: &Berth,
        call: &Call<'_>,
        resend: bool,
        deadline: Instant,
        lane: Lane<'_>,
        tried: &mut Tried,
    ) -> Result<Vec<PgRow>, Failure> {
        let _room = match lane {
            // It is never closed.
            Lane::Alone => Some(berth.room.acquire().await.map_err(|_| Failure::no_runtime())?),
            Lane::Slot(_) => None,
        };
        let mut left = TRIES;
        loop {
            left -= 1;
            let mut session = match berth.take() {
                Some(session) => session,
                None => self.connect().await?,
            };
            tried.is_out = true;
            let answer = session.send(call, deadline - Instant::now(), &self.options).await;
            tried.is_out = false;
            let failure = match answer.map_err(|error| Failure::of(&self.place, error)) {
                Ok(rows) => {
                    berth.put(session);
                    return Ok(rows);
                }
                Err(failure) => failure,
            };
            if failure.ends_connection() {
                drop(session);
                berth.empty();
            } else {
                berth.put(session);
            }
            let goes_on = match failure.remedy {
                Remedy::Again => true,
                Remedy::Reconnect => resend || !failure.is_maybe_applied(),
                Remedy::None | Remedy::Look | Remedy::Apart => false,
            };
            if !goes_on || left == 0 {
                return Err(failure);
            }
            tried.maybe_applied |= failure.is_maybe_applied();
            tracing::debug!(place = self.place, error = %failure.error("take a step"), "once more");
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("options", &self.options).finish_non_exhaustive()
    }
}
