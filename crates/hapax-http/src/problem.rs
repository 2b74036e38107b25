//! Answers that a layer gives in place of the handler: problem details of RFC 9457.

use bytes::Bytes;
use hapax_core::{CodeInfo, Coded};
use hapax_engine::IdempotencyError;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_TYPE, LINK, RETRY_AFTER},
};
use std::{borrow::Cow, collections::HashMap, fmt, sync::Arc, time::Duration};

/// Where the types of problems are explained unless the service has a page of its own.
const DOCUMENTATION: &str = "https://github.com/hapax-rs/hapax/blob/main/docs/http.md";
/// The type that the draft on rate limits registers.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// The same, for a service that can do less than usual.
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// Why a layer answers in place of the handler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// 400: a key is required, and there is none.
    KeyMissing,
    /// 400: the key cannot be read.
    KeyInvalid,
    /// 403: nobody knows whose key it is.
    CallerUnknown,
    /// 409: a request under the key has not ended.
    InFlight,
    /// 422: the key was used for another request.
    KeyReused,
    /// 500: the request may have been carried out.
    OutcomeUnknown,
    /// 409: the request was carried out; its response is not kept.
    ResponseNotKept,
    /// 409: the request was carried out; its response is kept in a form that cannot be read.
    ResponseUnreadable,
    /// 503: the store could not be asked; the handler did not run.
    StoreFailed,
    /// 503: as many handlers run as may run.
    TooManyInFlight,
    /// 413: the body of the request is too large to be compared with another.
    BodyTooLarge,
    /// 408: the body of the request did not come in time.
    BodyTimedOut,
    /// 400: the body of the request broke off.
    BodyFailed,
    /// 500: the layer is set up wrong.
    Misconfigured,
    /// 429: a rate limit is reached.
    Limited,
    /// 503: the rate limits cannot be asked, and nothing passes meanwhile.
    ReducedCapacity,
    /// 503: the rate limits cannot be asked, and nothing was said for that case.
    LimitFailed,
    /// 500: a rate limit is set up wrong.
    LimitMisconfigured,
}

/// The codes of the layers.
pub const CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "http.key_missing",
        "validation",
        false,
        "the request needs an Idempotency-Key and has none",
        "send one, made once for the request and all its retries",
    ),
    CodeInfo::new(
        "http.key_invalid",
        "validation",
        false,
        "the Idempotency-Key cannot be read",
        "the detail says what it must look like",
    ),
    CodeInfo::new(
        "http.caller_unknown",
        "validation",
        false,
        "the request has a key, and the layer's closure does not say whose",
        "put the layer inside authentication, or name the caller for everybody",
    ),
    CodeInfo::new(
        "http.response_not_kept",
        "conflict",
        false,
        "the request was carried out, and its response was too large, or streamed, to be kept",
        "ask the service for the result in another way; a new key carries it out again",
    ),
    CodeInfo::new(
        "http.too_many_in_flight",
        "unavailable",
        true,
        "as many handlers run as may run at a time; this one did not",
        "try again under the same key",
    ),
    CodeInfo::new(
        "http.body_too_large",
        "validation",
        false,
        "the body of a request with a key is larger than the layer reads",
        "send less, or raise `max_request_body`",
    ),
    CodeInfo::new(
        "http.body_timed_out",
        "validation",
        true,
        "the body of a request with a key did not come in time; the handler did not run",
        "try again under the same key",
    ),
    CodeInfo::new(
        "http.body_failed",
        "validation",
        true,
        "the body of a request with a key broke off; the handler did not run",
        "try again under the same key",
    ),
];

struct Text {
    code: &'static str,
    status: StatusCode,
    title: &'static str,
    detail: &'static str,
}

impl Refusal {
    /// The stable code, also in `docs/errors.md`.
    pub fn code(self) -> &'static str {
        self.text().code
    }

    fn text(self) -> Text {
        let (code, status, title, detail) = match self {
            Self::KeyMissing => (
                "http.key_missing",
                StatusCode::BAD_REQUEST,
                "Idempotency-Key is missing",
                "This operation needs an Idempotency-Key: a string between double quotes, made once for the request and all its retries.",
            ),
            Self::KeyInvalid => (
                "http.key_invalid",
                StatusCode::BAD_REQUEST,
                "Idempotency-Key cannot be read",
                "The key cannot be read.",
            ),
            Self::CallerUnknown => (
                "http.caller_unknown",
                StatusCode::FORBIDDEN,
                "The caller is not known",
                "A key belongs to its caller, and nobody knows whose this one is.",
            ),
            Self::InFlight => (
                "idempotency.in_flight",
                StatusCode::CONFLICT,
                "A request is outstanding for this Idempotency-Key",
                "A request with this key has not ended. Send the same request again later: it will be answered with the first one's response.",
            ),
            Self::KeyReused => (
                "idempotency.key_reused",
                StatusCode::UNPROCESSABLE_ENTITY,
                "Idempotency-Key is already used",
                "The key was used for a request with another method, target, header or body. Use a key of its own for each request.",
            ),
            Self::OutcomeUnknown => (
                "idempotency.unknown",
                StatusCode::INTERNAL_SERVER_ERROR,
                "The outcome is not known",
                "The request may have been carried out. It is not carried out again under this key: find out what happened before you send it under another.",
            ),
            Self::ResponseNotKept => (
                "http.response_not_kept",
                StatusCode::CONFLICT,
                "The response is not kept",
                "The request was carried out. Its response was too large, or streamed, and was not kept.",
            ),
            Self::ResponseUnreadable => (
                "idempotency.unreadable",
                StatusCode::CONFLICT,
                "The response cannot be read",
                "The request was carried out. Its response is kept in a form that this server cannot read.",
            ),
            Self::StoreFailed => (
                "idempotency.store_failed",
                StatusCode::SERVICE_UNAVAILABLE,
                "The key could not be reserved",
                "The request was not carried out. Send it again under the same key.",
            ),
            Self::TooManyInFlight => (
                "http.too_many_in_flight",
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many requests are in flight",
                "The request was not carried out. Send it again under the same key.",
            ),
            Self::BodyTooLarge => (
                "http.body_too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is too large",
                "The request was not carried out: its body is larger than a request with a key may have.",
            ),
            Self::BodyTimedOut => (
                "http.body_timed_out",
                StatusCode::REQUEST_TIMEOUT,
                "The body did not come in time",
                "The request was not carried out. Send it again under the same key.",
            ),
            Self::BodyFailed => (
                "http.body_failed",
                StatusCode::BAD_REQUEST,
                "The body broke off",
                "The request was not carried out. Send it again under the same key.",
            ),
            Self::Misconfigured => (
                "idempotency.invalid",
                StatusCode::INTERNAL_SERVER_ERROR,
                "The service is set up wrong",
                "The request was not carried out. The log of the service says why.",
            ),
            Self::Limited => (
                "limit.limited",
                StatusCode::TOO_MANY_REQUESTS,
                "Request cannot be satisfied as assigned quota has been exceeded",
                "The request was not carried out.",
            ),
            Self::ReducedCapacity => (
                "limit.limited",
                StatusCode::SERVICE_UNAVAILABLE,
                "Request cannot be satisfied due to temporary reduced capacity",
                "The request was not carried out. Send it again later.",
            ),
            Self::LimitFailed => (
                "limit.store_failed",
                StatusCode::SERVICE_UNAVAILABLE,
                "The rate limits could not be asked",
                "The request was not carried out. Send it again later.",
            ),
            Self::LimitMisconfigured => (
                "limit.invalid",
                StatusCode::INTERNAL_SERVER_ERROR,
                "The service is set up wrong",
                "The request was not carried out. The log of the service says why.",
            ),
        };
        Text { code, status, title, detail }
    }
}

/// What a client is told in place of the handler's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// Why.
    pub refusal: Refusal,
    /// The stable code: also the member `code`.
    pub code: &'static str,
    /// The status of the answer.
    pub status: StatusCode,
    /// The member `type`: an address that stays the same.
    pub kind: Cow<'static, str>,
    /// The page that explains it: the field `Link`, with `rel="describedby"`.
    pub documentation: Cow<'static, str>,
    /// In a few words, the same each time.
    pub title: &'static str,
    /// In a sentence.
    pub detail: Cow<'static, str>,
    /// When to try again, in whole seconds; none where that would not help.
    pub retry_after: Option<u64>,
    /// The names of the rate limits that refuse: the member `violated-policies`.
    pub violated_policies: Vec<String>,
}

impl Problem {
    /// As `application/problem+json`.
    pub fn response(&self) -> Response<Bytes> {
        let mut body = serde_json::json!({
            "type": self.kind,
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
        });
        if let Some(members) = body.as_object_mut().filter(|_| !self.violated_policies.is_empty()) {
            members.insert("violated-policies".into(), self.violated_policies.clone().into());
        }
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let link = format!("<{}>; rel=\"describedby\"; type=\"text/html\"", self.documentation);
        if let Ok(link) = HeaderValue::try_from(link) {
            headers.insert(LINK, link);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

type Render = Arc<dyn Fn(&Problem) -> Response<Bytes> + Send + Sync>;

/// How refusals are told.
#[derive(Clone)]
pub(crate) struct Problems {
    documentation: Cow<'static, str>,
    statuses: HashMap<Refusal, StatusCode>,
    render: Option<Render>,
}

impl Default for Problems {
    fn default() -> Self {
        Self { documentation: Cow::Borrowed(DOCUMENTATION), statuses: HashMap::new(), render: None }
    }
}

impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problems")
            .field("documentation", &self.documentation)
            .field("statuses", &self.statuses)
            .finish_non_exhaustive()
    }
}

impl Problems {
    pub(crate) fn documented_at(&mut self, url: impl Into<Cow<'static, str>>) {
        self.documentation = url.into();
    }

    pub(crate) fn status(&mut self, refusal: Refusal, status: StatusCode) {
        self.statuses.insert(refusal, status);
    }

    pub(crate) fn rendered_by(
        &mut self,
        render: impl Fn(&Problem) -> Response<Bytes> + Send + Sync + 'static,
    ) {
        self.render = Some(Arc::new(render));
    }

    pub(crate) fn of(&self, refusal: Refusal) -> Problem {
        let Text { code, status, title, detail } = refusal.text();
        let kind = match refusal {
            Refusal::Limited => Cow::Borrowed(QUOTA_EXCEEDED),
            Refusal::ReducedCapacity => Cow::Borrowed(REDUCED_CAPACITY),
            // `idempotency.in_flight` is explained at `#idempotency-in-flight`.
            _ => Cow::Owned(format!("{}#{}", self.documentation, code.replace(['.', '_'], "-"))),
        };
        Problem {
            refusal,
            code,
            status: self.statuses.get(&refusal).copied().unwrap_or(status),
            kind,
            documentation: self.documentation.clone(),
            title,
            detail: Cow::Borrowed(detail),
            retry_after: None,
            violated_policies: Vec::new(),
        }
    }

    pub(crate) fn response(&self, problem: &Problem) -> Response<Bytes> {
        metrics::counter!("hapax_http_refused_total", "code" => problem.code).increment(1);
        tracing::debug!(
            code = problem.code,
            status = problem.status.as_u16(),
            "a request is answered by a layer"
        );
        match &self.render {
            Some(render) => render(problem),
            None => problem.response(),
        }
    }
}

/// What an answer of hapax means to a client.
pub(crate) fn of_idempotency(error: &IdempotencyError) -> Refusal {
    match error {
        IdempotencyError::InFlight { .. } => Refusal::InFlight,
        IdempotencyError::KeyReused { .. } => Refusal::KeyReused,
        IdempotencyError::Unknown { .. } => Refusal::OutcomeUnknown,
        IdempotencyError::Unreadable { .. } => Refusal::ResponseUnreadable,
        IdempotencyError::StoreFailed { .. } => Refusal::StoreFailed,
        other => {
            tracing::error!(code = other.code(), error = %source(other), "a request under a key cannot be answered");
            Refusal::Misconfigured
        }
    }
}

/// The innermost reason.
pub(crate) fn source(error: &dyn std::error::Error) -> &dyn std::error::Error {
    let mut error = error;
    while let Some(next) = error.source() {
        error = next;
    }
    error
}

/// Whole seconds, at least one, a part of one as a whole one.
pub(crate) fn seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}
