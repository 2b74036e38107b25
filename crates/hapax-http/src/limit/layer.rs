//! The layer, and what can be set.

use super::RateLimitService;
use crate::problem::{Problem, Problems, Refusal};
use bytes::Bytes;
use hapax_engine::limit::{IntoLimits, Limit, RateLimiter, WhenDown, headers::Legacy};
use http::{Response, StatusCode, request::Parts};
use std::{borrow::Cow, fmt, sync::Arc};
use tower_layer::Layer;

type OfRequest<T> = Arc<dyn Fn(&Parts) -> T + Send + Sync>;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) limiter: RateLimiter,
    pub(super) limits: OfRequest<Vec<Limit>>,
    pub(super) cost: Option<OfRequest<u32>>,
    pub(super) shadow: bool,
    pub(super) shows_shadows: bool,
    pub(super) legacy: Legacy,
    pub(super) problems: Problems,
}

/// Lets requests pass that rate limits let pass, and answers others with 429: with `Retry-After` in whole seconds, and
/// the names of the limits that refuse. All limits of a request are one decision: a request that is refused counts for
/// none of them. Responses have the fields `RateLimit-Policy` and `RateLimit` of the IETF draft.
///
/// The handler finds the [`Decision`](hapax_engine::limit::Decision) in the extensions of its request, and what stands
/// outside of the layer in those of the response.
#[derive(Clone)]
#[must_use = "a layer does nothing until a service is put into it"]
pub struct RateLimitLayer {
    settings: Arc<Settings>,
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("limiter", &self.settings.limiter).finish_non_exhaustive()
    }
}

impl RateLimitLayer {
    /// Asks `limiter` about what `limits` says of a request: a limit, several, or none, and then it passes.
    pub fn new<L, F>(limiter: &RateLimiter, limits: F) -> Self
    where
        L: IntoLimits,
        F: Fn(&Parts) -> L + Send + Sync + 'static,
    {
        let settings = Settings {
            limiter: limiter.clone(),
            limits: Arc::new(move |parts| limits(parts).into_limits()),
            cost: None,
            shadow: false,
            shows_shadows: false,
            legacy: Legacy::None,
            problems: Problems::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// What a request takes (1).
    pub fn cost(self, cost: impl Fn(&Parts) -> u32 + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// What is answered when the store cannot be reached. Without this, and without one of the limiter's own, 503. Responses
    /// have the field `RateLimit-Degraded` then: `open`, `closed` or `local`.
    pub fn when_down(self, answer: WhenDown) -> Self {
        self.set(|settings| settings.limiter = settings.limiter.when_down(answer))
    }

    /// Counts, and lets everything pass: what the limits would do is seen before they do it.
    pub fn shadow(self) -> Self {
        self.set(|settings| settings.shadow = true)
    }

    /// Tells clients, too, which shadows would refuse: the field `RateLimit-Shadow`.
    pub fn show_shadows(self) -> Self {
        self.set(|settings| settings.shows_shadows = true)
    }

    /// Also writes the older fields, for one limit: the one that says most.
    pub fn legacy(self, fields: Legacy) -> Self {
        self.set(|settings| settings.legacy = fields)
    }

    /// Answers with another status.
    pub fn status(self, refusal: Refusal, status: StatusCode) -> Self {
        self.set(|settings| settings.problems.status(refusal, status))
    }

    /// Where your service explains its limits: the `Link` of every refusal.
    pub fn documentation(self, url: impl Into<Cow<'static, str>>) -> Self {
        self.set(|settings| settings.problems.documented_at(url))
    }

    /// Answers refusals in a form of your own. The fields of the limits are added to it.
    pub fn problems_as(self, render: impl Fn(&Problem) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.problems.rendered_by(render))
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimitService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimitService::new(Arc::clone(&self.settings), inner)
    }
}
