//! One request: the decision, and its fields.

use super::layer::Settings;
use crate::{
    Body,
    problem::{Refusal, source},
};
use bytes::Bytes;
use hapax_core::{BoxFuture, Coded};
use hapax_engine::limit::{Decision, Degraded, Limit, LimitError, headers};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Body as HttpBody;
use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Who answered in place of the store.
const DEGRADED: HeaderName = HeaderName::from_static("ratelimit-degraded");
/// The shadows that would refuse.
const SHADOW: HeaderName = HeaderName::from_static("ratelimit-shadow");

/// The service of a [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimitService<S> {
    settings: Arc<Settings>,
    inner: S,
}

impl<S> fmt::Debug for RateLimitService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitService").field("limiter", &self.settings.limiter).finish_non_exhaustive()
    }
}

impl<S> RateLimitService<S> {
    pub(super) fn new(settings: Arc<Settings>, inner: S) -> Self {
        Self { settings, inner }
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimitService<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    ResBody: HttpBody,
{
    type Response = Response<Body<ResBody>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let settings = Arc::clone(&self.settings);
        // The service that was ready is the one that is called.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let (mut parts, body) = request.into_parts();
        let limits = (settings.limits)(&parts);
        Box::pin(async move {
            if limits.is_empty() {
                return Ok(inner.call(Request::from_parts(parts, body)).await?.map(Body::passing));
            }
            let cost = settings.cost.as_ref().map_or(1, |cost| cost(&parts));
            let decision = match settings.ask(limits, cost).await {
                Ok(decision) => decision,
                Err(error) => return Ok(settings.failed(&error).map(|data| Body::whole(data, None))),
            };
            note_shadows(&decision);
            let mut response = if decision.allowed() {
                parts.extensions.insert(decision.clone());
                inner.call(Request::from_parts(parts, body)).await?.map(Body::passing)
            } else {
                settings.refused(&decision).map(|data| Body::whole(data, None))
            };
            settings.add_fields(&decision, response.headers_mut());
            response.extensions_mut().insert(decision);
            Ok(response)
        })
    }
}

impl Settings {
    async fn ask(&self, mut limits: Vec<Limit>, cost: u32) -> Result<Decision, LimitError> {
        let ask = match limits.pop() {
            Some(only) if limits.is_empty() => self.limiter.check(only),
            Some(last) => {
                limits.push(last);
                self.limiter.check_all(limits)
            }
            None => self.limiter.check_all(limits),
        };
        let ask = ask.cost(cost);
        if self.shadow { ask.shadow().await } else { ask.await }
    }

    fn failed(&self, error: &LimitError) -> Response<Bytes> {
        let refusal = match error {
            LimitError::StoreFailed { .. } => Refusal::LimitFailed,
            _ => Refusal::LimitMisconfigured,
        };
        tracing::error!(code = error.code(), error = %source(error), "a rate limit cannot be asked");
        let mut problem = self.problems.of(refusal);
        problem.retry_after = (refusal == Refusal::LimitFailed).then_some(1);
        self.problems.response(&problem)
    }

    fn refused(&self, decision: &Decision) -> Response<Bytes> {
        let is_closed = decision.degraded() == Some(Degraded::Closed) && !decision.never();
        let mut problem =
            self.problems.of(if is_closed { Refusal::ReducedCapacity } else { Refusal::Limited });
        problem.violated_policies = decision.violated().map(str::to_owned).collect();
        problem.retry_after = headers::retry_after(decision);
        if decision.never() {
            problem.code = "limit.never";
            problem.detail =
                "The request was not carried out: it takes more than the limit ever allows.".into();
        } else if let Some(seconds) = problem.retry_after.filter(|_| !is_closed) {
            let unit = if seconds == 1 { "second" } else { "seconds" };
            problem.detail =
                format!("The request was not carried out. It may be sent again in {seconds} {unit}.").into();
        }
        self.problems.response(&problem)
    }

    fn add_fields(&self, decision: &Decision, response: &mut HeaderMap) {
        for (name, value) in headers::headers(decision, self.legacy) {
            let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
                continue;
            };
            // The fields of the draft are lists, to which several layers may add. The others say one thing, and who
            // refuses has said it first.
            if matches!(name.as_str(), "ratelimit" | "ratelimit-policy") {
                response.append(name, value);
            } else {
                response.entry(name).or_insert(value);
            }
        }
        if let Some(degraded) = decision.degraded() {
            response.insert(DEGRADED, HeaderValue::from_static(degraded.as_str()));
        }
        let shadows: Vec<_> = decision.would_violate().map(quoted).collect();
        if self.shows_shadows
            && !shadows.is_empty()
            && let Ok(value) = HeaderValue::try_from(shadows.join(", "))
        {
            response.append(SHADOW, value);
        }
    }
}

fn note_shadows(decision: &Decision) {
    for policy in decision.would_violate() {
        metrics::counter!("hapax_http_shadowed_total", "policy" => policy.to_owned()).increment(1);
        tracing::info!(policy, "a shadow would refuse a request");
    }
}

/// As a string of a structured field, which holds what ASCII can print.
fn quoted(name: &str) -> String {
    let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    let text: String = name.chars().map(printable).collect();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
