//! The way of a request that the SDK has signed: over the connections of all providers.

use crate::provider::http::{Answer, Http, OnCommit, Request, Trouble};
use aws_sdk_sesv2::config::{
    SharedHttpClient,
    http::{HttpRequest, HttpResponse},
};
use aws_smithy_runtime_api::{
    client::{
        http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
        result::ConnectorError,
    },
    http::StatusCode,
};
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use hyper::{
    Method, Uri,
    header::{CONTENT_LENGTH, HOST, HeaderName, USER_AGENT},
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// What one request came to.
type Came = Result<Answer, Trouble>;

/// Carries one request, and keeps what it came to, which the SDK would tell less exactly.
#[derive(Clone)]
pub(super) struct Wire {
    http: Arc<Http>,
    on_commit: OnCommit,
    came: Arc<Mutex<Option<Came>>>,
}

impl Wire {
    pub(super) fn new(http: Arc<Http>, on_commit: OnCommit) -> Self {
        Self { http, on_commit, came: Arc::default() }
    }

    pub(super) fn client(self) -> SharedHttpClient {
        let connector = SharedHttpConnector::new(self);
        http_client_fn(move |_, _| connector.clone())
    }

    /// None where the SDK made no request.
    pub(super) fn came(&self) -> Option<Came> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let this = self.clone();
        HttpConnectorFuture::new(async move {
            let came = match ours(&request, &this.http) {
                Some(request) => this.http.call(&request, Arc::clone(&this.on_commit)).await,
                None => Err(Trouble::no_request("the request of the SDK cannot be sent")),
            };
            let told = came.as_ref().ok().and_then(theirs).ok_or("the answer was kept beside it");
            *this.came.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
            told.map_err(|words| ConnectorError::other(words.into(), None))
        })
    }
}

/// With every header that was signed. The connection has a host, a length and a name of its own; the first is the one that was
/// signed, as both are those of the endpoint, and the others never are.
fn ours(request: &HttpRequest, http: &Http) -> Option<Request> {
    let mut headers = Vec::new();
    for (name, value) in request.headers() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        if ![HOST, CONTENT_LENGTH, USER_AGENT].contains(&name) {
            headers.push((name, value.to_owned()));
        }
    }
    let uri: Uri = request.uri().parse().ok()?;
    Some(Request {
        method: Method::from_bytes(request.method().as_bytes()).ok()?,
        path: uri.path().strip_prefix(&http.endpoint().path(""))?.to_owned(),
        headers,
        body: Bytes::copy_from_slice(request.body().bytes()?),
    })
}

fn theirs(answer: &Answer) -> Option<HttpResponse> {
    let status = StatusCode::try_from(answer.status).ok()?;
    let mut response = HttpResponse::new(status, SdkBody::from(answer.body.to_vec()));
    for (name, value) in &answer.headers {
        if let Ok(value) = value.to_str() {
            response.headers_mut().try_append(name.as_str().to_owned(), value.to_owned()).ok()?;
        }
    }
    Some(response)
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("http", &self.http).finish_non_exhaustive()
    }
}
