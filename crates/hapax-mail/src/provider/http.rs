//! HTTP/1.1 to one provider: no redirects, no proxies, no further attempts, a deadline on each step.
//!
//! Written on hyper's connections and not on a client around them, because the commitment point has to be seen: it is the moment
//! before the last piece of the body is handed to the connection. Until then the request is not whole, and no server acts on it.

mod body;
mod connection;
mod endpoint;
mod trouble;

pub(crate) use endpoint::Endpoint;
pub(crate) use trouble::Trouble;

use body::Pieces;
use bytes::Bytes;
use connection::{Connection, Dialer};
use hyper::{HeaderMap, Method, header::HeaderName};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// Looking up, connecting and the TLS handshake.
const CONNECT: Duration = Duration::from_secs(15);
/// From the first byte of the request to the last of the answer.
const EXCHANGE: Duration = Duration::from_mins(1);
/// A connection is used again if it was idle no longer: servers close theirs after some seconds, and a request that meets the
/// close may have gone.
const IDLE: Duration = Duration::from_secs(3);
/// So many idle connections are kept.
const MOST_IDLE: usize = 32;

/// What is asked. The body is whole before it is sent, so that it can be sent again as it is.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Below the endpoint, with a leading slash.
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: Bytes,
}

/// What was answered, whole.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The way to one provider.
pub(crate) struct Http {
    dialer: Dialer,
    times: Times,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) connect: Duration,
    pub(crate) exchange: Duration,
}

/// What is called immediately before the last piece of a request may leave.
pub(crate) type OnCommit = Arc<dyn Fn() + Send + Sync>;

impl Http {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let times = Times { connect: CONNECT, exchange: EXCHANGE };
        Self { dialer: Dialer::new(endpoint), times, idle: Mutex::default() }
    }

    /// The same for another place.
    pub(crate) fn elsewhere(&self, endpoint: Endpoint) -> Self {
        Self::new(endpoint).within(self.times)
    }

    /// The same with other times.
    pub(crate) fn within(&self, times: Times) -> Self {
        Self { times, ..Self::new(self.endpoint().clone()) }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.dialer.endpoint()
    }

    /// How long a call takes at most. A second connection is made only in place of one that was idle.
    pub(crate) fn longest(&self) -> Duration {
        self.times.connect.saturating_add(self.times.exchange.saturating_mul(2))
    }

    /// Asks, and waits for the whole answer.
    pub(crate) async fn call(&self, request: &Request, on_commit: OnCommit) -> Result<Answer, Trouble> {
        if let Some(connection) = self.take_idle() {
            match self.exchange(connection, request, &on_commit).await {
                // It had been closed by the other side, and nothing that could be acted on has left.
                Err(trouble) if !trouble.committed => {}
                done => return done,
            }
        }
        let connection = match timeout(self.times.connect, self.dialer.dial()).await {
            Ok(dialed) => dialed?,
            Err(_) => return Err(Trouble::connect_timeout()),
        };
        self.exchange(connection, request, &on_commit).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: &Request,
        on_commit: &OnCommit,
    ) -> Result<Answer, Trouble> {
        let (body, committed) = Pieces::new(request.body.clone(), Arc::clone(on_commit));
        let asked = connection.ask(self.dialer.endpoint(), request, body);
        let answer = match timeout(self.times.exchange, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(Trouble::broken(&error, committed.is_set())),
            Err(_) => return Err(Trouble::stalled(committed.is_set())),
        };
        // An answer to half a request leaves the other half in the way.
        let whole = committed.is_set() || request.body.is_empty();
        if whole && connection.is_reusable() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MOST_IDLE {
                idle.push((connection, Instant::now()));
            }
        }
        Ok(answer)
    }

    /// The connection that was used last, if that was just now; the others are closed.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, since)| since.elapsed() < IDLE);
        idle.pop().map(|(connection, _)| connection)
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("endpoint", self.endpoint()).finish_non_exhaustive()
    }
}
