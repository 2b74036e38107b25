//! The layer, and what can be set.

use super::{
    Handlers, IdempotencyService, IntoCaller, Keep, fingerprint::Fingerprinting, settings::Settings,
};
use crate::{
    key::Rules,
    problem::{Problem, Problems, Refusal},
};
use bytes::Bytes;
use hapax_core::{Fingerprint, Span};
use hapax_engine::{Idempotency, IdempotencyError, protocol::Terms};
use http::{HeaderName, Method, Response, StatusCode, request, response};
use std::{borrow::Cow, sync::Arc, time::Duration};
use tower_layer::Layer;

/// The most bytes of a body that can be asked to be read and kept: a result is one value of the store.
const MOST_BODY: usize = 64 << 20;
/// The most characters of a key that can be asked for.
const MOST_KEY: usize = 4096;

/// Carries a request with an `Idempotency-Key` out once. Later requests under the key get the first response, byte for
/// byte; `docs/http.md` has every rule, and the draft that they follow.
///
/// - The key belongs to a caller and to a route: the closure of [`new`](Self::new) says whose it is, and the scope of the
///   handle names the route unless [`route`](Self::route) does.
/// - The handler is not cancelled when its client goes away: it goes on in a task of its own. Its request has the
///   [`Lease`](hapax_engine::Lease) in its extensions, with a stable key for a provider.
/// - A panic and an error of the service are unknown outcomes: the key is held, and nothing is run again under it.
/// - Put it inside of authentication and of rate limits, and what turns panics into responses outside of it.
///
/// Errors of the settings are answered by each request (500) and told by [`check`](Self::check).
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until a service is put into it"]
pub struct IdempotencyLayer {
    settings: Arc<Settings>,
}

impl IdempotencyLayer {
    /// Keeps keys by the handle `idempotency`, whose durations hold here too, in a scope of the layer's own:
    /// `http:` and the route, or the scope of the handle. `caller` says who sends a request, as a part of the key.
    pub fn new<C, F>(idempotency: &Idempotency, caller: F) -> Self
    where
        C: IntoCaller,
        F: Fn(&request::Parts) -> C + Send + Sync + 'static,
    {
        let settings = Settings {
            keeper: idempotency.keeper().clone(),
            namespace: idempotency.namespace().cloned().map_err(told),
            scope: idempotency.scope().cloned().map_err(told),
            terms: idempotency.terms().map_err(told),
            fault: None,
            caller: Arc::new(move |parts| caller(parts).into_caller()),
            route: None,
            required: false,
            methods: vec![Method::POST, Method::PATCH],
            header: HeaderName::from_static("idempotency-key"),
            rules: Rules { lenient: false, longest: 255 },
            fingerprint: Fingerprinting::default(),
            max_request: 1 << 20,
            max_response: 1 << 20,
            body_timeout: Duration::from_secs(30),
            keep: Arc::new(|response| Keep::by_status(response.status)),
            cookies: false,
            without: Vec::new(),
            open: false,
            retry_after: Duration::from_secs(1),
            handlers: Handlers::default(),
            problems: Problems::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    fn set_bounded(self, what: &str, value: usize, most: usize, change: impl FnOnce(&mut Settings)) -> Self {
        self.set(|settings| {
            if value == 0 || value > most {
                let fault = format!("{what} is {value}: it is 1 to {most}");
                settings.fault.get_or_insert(fault);
            } else {
                change(settings);
            }
        })
    }

    /// Answers a request without a key with 400. Without this it goes to the handler as it is.
    pub fn required(self) -> Self {
        self.set(|settings| settings.required = true)
    }

    /// Takes keys without quotes, too: `Idempotency-Key: 8e03978e`. It is the same key as with them.
    pub fn lenient(self) -> Self {
        self.set(|settings| settings.rules.lenient = true)
    }

    /// The methods that the layer is for (POST and PATCH); requests of others go to the handler as they are.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.set(|settings| settings.methods = methods.into_iter().collect())
    }

    /// The field that carries the key (`Idempotency-Key`).
    pub fn key_header(self, name: HeaderName) -> Self {
        self.set(|settings| settings.header = name)
    }

    /// The most characters of a key (255), 1 to 4,096.
    pub fn max_key_length(self, characters: usize) -> Self {
        self.set_bounded("max_key_length", characters, MOST_KEY, |settings| {
            settings.rules.longest = characters;
        })
    }

    /// Names the route: keys of two routes do not meet. With none, and without this, it is the scope of the handle. A key
    /// that comes back at another target of the same route is refused with 422.
    ///
    /// Name routes by their pattern (with axum, `MatchedPath` in the extensions of the request), never by the path as it
    /// came: a retry whose path is written in another way would be another request.
    pub fn route(self, route: impl Fn(&request::Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.route = Some(Arc::new(route)))
    }

    /// How long a response answers (24 h, or what the handle says).
    pub fn ttl(self, ttl: Duration) -> Self {
        self.set(|settings| {
            settings.set_terms(|terms| {
                Span::new(ttl).map(|span| terms.ttl = span).map_err(|error| error.to_string())
            });
        })
    }

    /// How long an unknown outcome holds its key (24 h, or what the handle says).
    pub fn unknown_ttl(self, ttl: Duration) -> Self {
        self.set(|settings| {
            settings.set_terms(|terms| {
                Span::new(ttl).map(|span| terms.unknown_ttl = span).map_err(|error| error.to_string())
            });
        })
    }

    /// How long a process that died holds a key (60 s, or what the handle says; at least 1 s). While the handler runs
    /// the lease is renewed.
    pub fn lease(self, lease: Duration) -> Self {
        self.set(|settings| {
            settings.set_terms(|terms| {
                let checked = Terms::new(lease, terms.ttl.get(), terms.unknown_ttl.get()).map_err(told)?;
                *terms = checked.wait(terms.wait).ceiling(terms.ceiling);
                Ok(())
            });
        })
    }

    /// Lets a request wait for one under its key that is in flight, and answers it with that one's response. Without this
    /// it is answered with 409 at once, as the draft says.
    pub fn wait(self, limit: Duration) -> Self {
        self.set(|settings| {
            settings.set_terms(|terms| {
                terms.wait = Some(limit);
                Ok(())
            });
        })
    }

    /// What `Retry-After` says to a request that is in flight, or that the store or the number of handlers did not let
    /// through (1 s, in whole seconds, at least one).
    pub fn retry_after(self, after: Duration) -> Self {
        self.set(|settings| settings.retry_after = after)
    }

    /// The fields that tell one request from another, beside method, target and body (`Content-Type` and
    /// `Content-Encoding`).
    pub fn fingerprint_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.set(|settings| settings.fingerprint = Fingerprinting::fields(names))
    }

    /// Tells one request from another in a way of your own: by a part of the body, say.
    pub fn fingerprint_with(
        self,
        of: impl Fn(&request::Parts, &Bytes) -> Fingerprint + Send + Sync + 'static,
    ) -> Self {
        self.set(|settings| settings.fingerprint = Fingerprinting::Own(Arc::new(of)))
    }

    /// The most bytes of the body of a request with a key (1 MiB), 1 to 64 MiB; a larger one is answered with 413.
    pub fn max_request_body(self, bytes: usize) -> Self {
        self.set_bounded("max_request_body", bytes, MOST_BODY, |settings| settings.max_request = bytes)
    }

    /// The most bytes of a body that is kept (1 MiB), 1 to 64 MiB. A larger response goes to its client and is not kept:
    /// later requests are told that theirs was carried out (409).
    pub fn max_response_body(self, bytes: usize) -> Self {
        self.set_bounded("max_response_body", bytes, MOST_BODY, |settings| settings.max_response = bytes)
    }

    /// How long the body of a request with a key may take to come (30 s); then it is answered with 408.
    pub fn body_timeout(self, limit: Duration) -> Self {
        self.set(|settings| settings.body_timeout = limit)
    }

    /// Which responses are kept ([`Keep::by_status`]). A handler that puts a [`Keep`] into the extensions of its response
    /// says it itself.
    pub fn keep_when(self, rule: impl Fn(&response::Parts) -> Keep + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.keep = Arc::new(rule))
    }

    /// Keeps and replays `Set-Cookie`, too. Without this a cookie goes to the first client alone: a session does not
    /// belong into the store, and an old one not to a later client.
    pub fn keep_cookies(self) -> Self {
        self.set(|settings| settings.cookies = true)
    }

    /// Fields of responses that are neither kept nor replayed. Those of the connection never are.
    pub fn without_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.set(|settings| settings.without = names.into_iter().collect())
    }

    /// Carries requests out although the store cannot reserve their keys: without deduplication, and without a lease in
    /// the request. Without this they are answered with 503.
    pub fn run_when_store_is_down(self) -> Self {
        self.set(|settings| settings.open = true)
    }

    /// How many handlers of this layer run at a time (1,024); those beyond are answered with 503. What is answered from
    /// an earlier request needs no handler.
    pub fn max_in_flight(self, most: u32) -> Self {
        self.handled_by(&Handlers::new(most))
    }

    /// Shares the owner of the handlers with other layers.
    pub fn handled_by(self, handlers: &Handlers) -> Self {
        self.set(|settings| settings.handlers = handlers.clone())
    }

    /// The owner of the handlers: wait for them before the program ends.
    pub fn handlers(&self) -> &Handlers {
        &self.settings.handlers
    }

    /// Answers with another status.
    pub fn status(self, refusal: Refusal, status: StatusCode) -> Self {
        self.set(|settings| settings.problems.status(refusal, status))
    }

    /// Where your service explains its keys: the `Link` of every refusal, and the start of its type.
    pub fn documentation(self, url: impl Into<Cow<'static, str>>) -> Self {
        self.set(|settings| settings.problems.documented_at(url))
    }

    /// Answers refusals in a form of your own.
    pub fn problems_as(self, render: impl Fn(&Problem) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.problems.rendered_by(render))
    }

    /// Says at the start of a program what every request would be answered with.
    ///
    /// # Errors
    /// `idempotency.invalid`, naming the setting.
    pub fn check(self) -> Result<Self, IdempotencyError> {
        match self.settings.fault() {
            Some(fault) => Err(IdempotencyError::invalid(fault.clone())),
            None => Ok(self),
        }
    }
}

/// The reason under "the call is not valid".
fn told(error: IdempotencyError) -> String {
    match error {
        IdempotencyError::Invalid { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(Arc::clone(&self.settings), inner)
    }
}
