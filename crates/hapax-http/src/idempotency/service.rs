//! One request from first to last: its key, its body, the reservation.

use super::{
    carry::{carry_out, whole},
    lasting::Lasting,
    settings::Settings,
    stored::Stored,
};
use crate::{
    Body,
    body::{self, Read},
    key,
    problem::{Refusal, of_idempotency},
};
use bytes::Bytes;
use futures_util::FutureExt;
use hapax_core::{
    BoxFuture, Name, Timestamp,
    idempotency::{Kind, Record, RecordState},
};
use hapax_engine::{
    IdempotencyError,
    protocol::{Begun, Reservation, Terms},
};
use http::{HeaderName, HeaderValue, Request, Response, Version, header::CONNECTION, request::Parts};
use http_body::Body as HttpBody;
use std::{
    fmt,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};
use tower_service::Service;

/// `true` where the response is that of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Until when the response answers: a date of HTTP.
pub(super) const EXPIRES: HeaderName = HeaderName::from_static("idempotent-expires");
/// `false` where the request was carried out and its response is not kept.
pub(super) const KEPT: HeaderName = HeaderName::from_static("idempotent-kept");

/// The service of an [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Clone)]
pub struct IdempotencyService<S> {
    settings: Arc<Settings>,
    inner: S,
}

impl<S> fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<S> IdempotencyService<S> {
    pub(super) fn new(settings: Arc<Settings>, inner: S) -> Self {
        Self { settings, inner }
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for IdempotencyService<S>
where
    S: Service<Request<Body<ReqBody>>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    ReqBody: HttpBody + Send + 'static,
    ReqBody::Data: Send,
    ReqBody::Error: Send,
    ResBody: HttpBody + Send + 'static,
    ResBody::Data: Send,
    ResBody::Error: Send,
{
    type Response = Response<Body<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, ResBody, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let settings = &self.settings;
        if !settings.methods.contains(&parts.method) {
            return self.pass(parts, body);
        }
        let key = match key::find(&parts.headers, &settings.header, settings.rules) {
            Some(Ok(key)) => key,
            Some(Err(why)) => {
                let detail = format!("The field {} cannot be read: {why}.", settings.header);
                return answered(settings.refuse_with(Refusal::KeyInvalid, Some(detail), None));
            }
            None if settings.required => return answered(settings.refuse(Refusal::KeyMissing)),
            None => return self.pass(parts, body),
        };
        let Some(caller) = (settings.caller)(&parts) else {
            return answered(settings.refuse(Refusal::CallerUnknown));
        };
        let (name, terms) = match settings.place(&parts, &caller, &key) {
            Ok(place) => place,
            Err(fault) => {
                tracing::error!(
                    code = "idempotency.invalid",
                    fault,
                    "a layer cannot be used as it is set up"
                );
                return answered(settings.refuse(Refusal::Misconfigured));
            }
        };
        // The service that was ready is the one that is called.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        let call = Call { settings: Arc::clone(settings), name, terms, inner };
        ResponseFuture { state: State::Keyed { future: Box::pin(call.run(parts, body)) } }
    }
}

impl<S> IdempotencyService<S> {
    fn pass<ReqBody, ResBody>(
        &mut self,
        parts: Parts,
        body: ReqBody,
    ) -> ResponseFuture<S::Future, ResBody, S::Error>
    where
        S: Service<Request<Body<ReqBody>>, Response = Response<ResBody>>,
        ReqBody: HttpBody,
        ResBody: HttpBody,
    {
        let future = self.inner.call(Request::from_parts(parts, Body::passing(body)));
        ResponseFuture { state: State::Passing { future } }
    }
}

fn answered<F, B, E>(response: Response<Bytes>) -> ResponseFuture<F, B, E>
where
    B: HttpBody,
{
    ResponseFuture { state: State::Answered { response: Some(response) } }
}

/// A request under a key.
struct Call<S> {
    settings: Arc<Settings>,
    name: Name,
    terms: Terms,
    inner: S,
}

impl<S> Call<S> {
    async fn run<ReqBody, ResBody>(
        self,
        parts: Parts,
        body: ReqBody,
    ) -> Result<Response<Body<ResBody>>, S::Error>
    where
        S: Service<Request<Body<ReqBody>>, Response = Response<ResBody>> + Send + 'static,
        S::Error: Send + 'static,
        S::Future: Send + 'static,
        ReqBody: HttpBody + Send + 'static,
        ReqBody::Data: Send,
        ReqBody::Error: Send,
        ResBody: HttpBody + Send + 'static,
        ResBody::Data: Send,
        ResBody::Error: Send,
    {
        let Self { settings, name, terms, inner } = self;
        let refuse = |refusal| Ok(settings.refuse(refusal).map(whole));
        let version = parts.version;
        let refuse_the_rest = |refusal| {
            let mut response = settings.refuse(refusal).map(whole);
            if version < Version::HTTP_2 {
                // What is left of the body stands in the way of the next request.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        };
        let reading = body::read(body, settings.max_request);
        let (data, trailers) = match tokio::time::timeout(settings.body_timeout, reading).await {
            Ok(Read::Whole { data, trailers }) => (data, trailers),
            Ok(Read::TooLarge(_)) => return refuse_the_rest(Refusal::BodyTooLarge),
            Ok(Read::Failed(_)) => return refuse_the_rest(Refusal::BodyFailed),
            Err(_) => return refuse_the_rest(Refusal::BodyTimedOut),
        };
        let fingerprint = settings.fingerprint.of(&parts, &data);
        let reservation = match settings.keeper.reserve(&name, fingerprint, &terms).await {
            Ok(Begun::Mine(reservation)) => Some(reservation),
            Ok(Begun::Settled(record)) => {
                return Ok(replay(&settings, &record).map(|(data, trailers)| Body::whole(data, trailers)));
            }
            Err(IdempotencyError::StoreFailed { source, .. }) if settings.open => {
                tracing::warn!(key = ?name, error = %source, "running without deduplication, as asked: the store is down");
                None
            }
            Err(error) => {
                let rest = match &error {
                    IdempotencyError::InFlight { retry_after, .. } => Some(*retry_after),
                    _ => None,
                };
                return Ok(settings.refuse_with(of_idempotency(&error), None, rest).map(whole));
            }
        };
        let Some(room) = settings.handlers.room() else {
            give_back(reservation).await;
            return refuse(Refusal::TooManyInFlight);
        };
        let request = Request::from_parts(parts, Body::whole(data, trailers));
        let handling = {
            let settings = Arc::clone(&settings);
            async move {
                let _room = room;
                match reservation {
                    Some(reservation) => carry_out(settings, reservation, request, inner).await,
                    None => unguarded(request, inner).await,
                }
            }
        };
        // Its client may go away: the handler goes on.
        match Lasting::new(AssertUnwindSafe(handling).catch_unwind()).await {
            Ok(answer) => answer,
            // What the service put into the layer panicked, or a handler that nothing guards.
            Err(_panic) => {
                tracing::error!(key = ?name, code = "idempotency.aborted", "a handler ended early");
                refuse(Refusal::OutcomeUnknown)
            }
        }
    }
}

async fn give_back(reservation: Option<Reservation>) {
    if let Some(reservation) = reservation {
        reservation.release().await;
    }
}

/// No reservation, no receipt: the service chose to go on.
async fn unguarded<S, ReqBody, ResBody>(
    request: Request<Body<ReqBody>>,
    mut inner: S,
) -> Result<Response<Body<ResBody>>, S::Error>
where
    S: Service<Request<Body<ReqBody>>, Response = Response<ResBody>>,
    ReqBody: HttpBody,
    ResBody: HttpBody,
{
    let mut response = inner.call(request).await?.map(Body::passing);
    response.headers_mut().insert(KEPT, HeaderValue::from_static("false"));
    Ok(response)
}

/// The answer to a request that was carried out before.
fn replay(settings: &Settings, record: &Record) -> Response<(Bytes, Option<http::HeaderMap>)> {
    let without_trailers = |response: Response<Bytes>| response.map(|data| (data, None));
    let mut response = match &record.state {
        RecordState::Settled { kind: Kind::Unknown, .. } => {
            without_trailers(settings.refuse(Refusal::OutcomeUnknown))
        }
        RecordState::Settled { receipt, .. } => match Stored::read(receipt) {
            Some(Stored { status, headers, trailers, body: Some(data) }) => {
                let mut response = Response::new((data, trailers));
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                response
            }
            Some(Stored { body: None, .. }) => without_trailers(settings.refuse(Refusal::ResponseNotKept)),
            None => without_trailers(settings.refuse(Refusal::ResponseUnreadable)),
        },
        _ => return without_trailers(settings.refuse(Refusal::ResponseUnreadable)),
    };
    metrics::counter!("hapax_replays_total").increment(1);
    tracing::debug!("answered from an earlier request");
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response.headers_mut().insert(EXPIRES, http_date(record.until));
    response
}

/// As a date of HTTP; a part of a second is left out, so that nobody is promised more than holds.
pub(super) fn http_date(at: Timestamp) -> HeaderValue {
    let since = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or_default());
    // The dates of HTTP have four digits for the year.
    let last = Duration::from_secs(253_402_300_799);
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since.min(last));
    HeaderValue::try_from(date).unwrap_or(HeaderValue::from_static("0"))
}

pin_project_lite::pin_project! {
    /// The response to a request.
    #[must_use = "futures do nothing unless awaited"]
    pub struct ResponseFuture<F, B, E> where B: HttpBody {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProj]
    enum State<F, B, E> where B: HttpBody {
        Passing { #[pin] future: F },
        Keyed { future: BoxFuture<'static, Result<Response<Body<B>>, E>> },
        Answered { response: Option<Response<Bytes>> },
    }
}

impl<F, B: HttpBody, E> fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture(…)")
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: HttpBody,
{
    type Output = Result<Response<Body<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Passing { future } => future.poll(cx).map(|ended| Ok(ended?.map(Body::passing))),
            StateProj::Keyed { future } => future.as_mut().poll(cx),
            StateProj::Answered { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response.map(whole))),
                None => Poll::Pending,
            },
        }
    }
}
