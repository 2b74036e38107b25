//! A service that counts, and clients for it.

use axum::{
    Router,
    body::{Body, Bytes},
    response::{IntoResponse, Response},
    routing::{any, post},
};
use hapax_core::{Clock, ManualClock, memory::MemoryStore};
use hapax_engine::{Idempotency, limit::RateLimiter};
use hapax_http::IdempotencyLayer;
use http::{HeaderMap, Request, StatusCode, request::Parts};
use http_body_util::BodyExt;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// The callers of the tests say who they are.
pub(crate) fn user_of(parts: &Parts) -> Option<String> {
    Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned())
}

/// A handle on a store in memory, on a clock that the test moves.
pub(crate) fn keys() -> (Idempotency, ManualClock) {
    let clock = ManualClock::new();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let backend = hapax_core::memory::backend(shared);
    let keeper = hapax_engine::Keeper::of(&backend, Duration::from_secs(5));
    (Idempotency::on(keeper, Ok(hapax_core::Namespace::default()), "shop"), clock)
}

/// Rate limits in memory, on a clock that the test moves.
pub(crate) fn limiter() -> (RateLimiter, ManualClock) {
    let clock = ManualClock::new();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    (RateLimiter::of(&hapax_core::memory::backend(shared), Duration::from_secs(5)), clock)
}

/// A store in memory.
pub(crate) fn memory() -> MemoryStore {
    MemoryStore::new(Arc::new(ManualClock::new()))
}

/// A layer with nothing set but its caller.
pub(crate) fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(&keys().0, user_of)
}

/// Counts how often a handler ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A handler that answers 201 with the number of its run and what it was sent.
pub(crate) fn counting(layer: IdempotencyLayer) -> (Router, Runs) {
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = move |body: Bytes| {
        let n = counted.add();
        let said = String::from_utf8_lossy(&body).into_owned();
        async move { (StatusCode::CREATED, [("x-run", n.to_string())], format!("run {n}: {said}")) }
    };
    (Router::new().route("/pay", any(handler.clone())).route("/other", any(handler)).layer(layer), runs)
}

/// A handler that answers what it is given, and counts.
pub(crate) fn answering<R, F>(layer: IdempotencyLayer, answer: F) -> (Router, Runs)
where
    R: IntoResponse,
    F: Fn(usize) -> R + Clone + Send + Sync + 'static,
{
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = move || {
        let n = counted.add();
        let answer = answer.clone();
        async move { answer(n) }
    };
    (Router::new().route("/pay", any(handler)).layer(layer), runs)
}

/// A handler that waits until it is let go.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) runs: Runs,
    began: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let closed = || Arc::new(Semaphore::new(0));
        Self { runs: Runs::default(), began: closed(), open: closed() }
    }

    pub(crate) fn routes(&self, layer: IdempotencyLayer) -> Router {
        let gate = self.clone();
        let handler = move || {
            let gate = gate.clone();
            async move {
                let n = gate.pass().await;
                (StatusCode::CREATED, format!("run {n}"))
            }
        };
        Router::new().route("/pay", post(handler)).layer(layer)
    }

    pub(crate) async fn pass(&self) -> usize {
        let n = self.runs.add();
        self.began.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        n
    }

    /// Waits until a handler has begun.
    pub(crate) async fn began(&self) {
        within(self.began.acquire()).await.unwrap().forget();
    }

    pub(crate) fn let_go(&self) {
        self.open.add_permits(1);
    }
}

/// Fails rather than hang.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.unwrap()
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waited).await.is_ok(), "never so: {what}");
}

/// A request of Ada's: `POST /pay` under a key as it stands in the field.
pub(crate) fn ask(key: &str, body: impl Into<Body>) -> Request<Body> {
    with(&[("idempotency-key", key)], body)
}

/// A request of Ada's with these fields.
pub(crate) fn with(fields: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let request = Request::post("/pay").header("x-user", "ada");
    let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(body.into()).unwrap()
}

/// An answer, read to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The fields but those that the layer adds.
    pub(crate) fn own_headers(&self) -> Vec<(String, Vec<u8>)> {
        let own = self.headers.iter().filter(|(name, _)| !name.as_str().starts_with("idempotent-"));
        own.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
    }

    /// The code of a problem, whose members and fields have to be right.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"));
        assert_eq!(self.header("content-language"), Some("en"));
        let link = self.header("link").unwrap();
        assert!(link.contains("docs/http.md>; rel=\"describedby\""), "{link}");
        let problem = self.problem();
        assert_eq!(problem["status"], self.status.as_u16());
        for member in ["type", "title", "detail", "code"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}");
        }
        problem["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn problem(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) async fn read(response: Response) -> Answer {
    let (parts, body) = response.into_parts();
    let collected = within(body.collect()).await.unwrap();
    let trailers = collected.trailers().cloned();
    Answer { status: parts.status, headers: parts.headers, body: collected.to_bytes(), trailers }
}

/// Sends a request, and reads its answer.
pub(crate) async fn send(app: &Router, request: Request<Body>) -> Answer {
    read(within(app.clone().oneshot(request)).await.unwrap()).await
}
