//! What a layer was told, checked.

use super::{Handlers, Keep, fingerprint::Fingerprinting};
use crate::{
    key::Rules,
    problem::{Problems, Refusal, seconds},
};
use bytes::Bytes;
use hapax_core::{Key, Name, Namespace, Scope, Timestamp};
use hapax_engine::{Keeper, protocol::Terms};
use http::{HeaderName, Method, Response, request, response};
use std::{fmt, sync::Arc, time::Duration};

type OfRequest = Arc<dyn Fn(&request::Parts) -> Option<String> + Send + Sync>;
type OfResponse = Arc<dyn Fn(&response::Parts) -> Keep + Send + Sync>;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) keeper: Keeper,
    pub(super) namespace: Result<Namespace, String>,
    /// Of the handle: the route's, where the layer is given none.
    pub(super) scope: Result<Scope, String>,
    pub(super) terms: Result<Terms, String>,
    /// The first of the other settings that cannot be used.
    pub(super) fault: Option<String>,
    pub(super) caller: OfRequest,
    pub(super) route: Option<OfRequest>,
    pub(super) required: bool,
    pub(super) methods: Vec<Method>,
    pub(super) header: HeaderName,
    pub(super) rules: Rules,
    pub(super) fingerprint: Fingerprinting,
    pub(super) max_request: usize,
    pub(super) max_response: usize,
    pub(super) body_timeout: Duration,
    pub(super) keep: OfResponse,
    pub(super) cookies: bool,
    pub(super) without: Vec<HeaderName>,
    pub(super) open: bool,
    pub(super) retry_after: Duration,
    pub(super) handlers: Handlers,
    pub(super) problems: Problems,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("namespace", &self.namespace)
            .field("scope", &self.scope)
            .field("terms", &self.terms)
            .field("required", &self.required)
            .field("methods", &self.methods)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// What cannot be used, if something cannot.
    pub(super) fn fault(&self) -> Option<&String> {
        let terms = self.terms.as_ref().err();
        self.fault.as_ref().or(terms).or(self.namespace.as_ref().err()).or(self.scope.as_ref().err())
    }

    pub(super) fn set_terms(&mut self, change: impl FnOnce(&mut Terms) -> Result<(), String>) {
        if let Ok(terms) = &mut self.terms
            && let Err(fault) = change(terms)
        {
            self.terms = Err(fault);
        }
    }

    /// The durations, and where the record of a request lies.
    pub(super) fn place(
        &self,
        parts: &request::Parts,
        caller: &str,
        key: &str,
    ) -> Result<(Name, Terms), String> {
        if let Some(fault) = self.fault() {
            return Err(fault.clone());
        }
        let (terms, namespace, handle) = (self.terms.clone()?, self.namespace.clone()?, self.scope.clone()?);
        let route = self.route.as_ref().and_then(|route| route(parts));
        let route = route.filter(|route| !route.is_empty());
        let told = |error: hapax_core::InvalidKey| error.to_string();
        // Injective, as names of queues and groups are joined.
        let scope = Key::join(["http", route.as_deref().unwrap_or(handle.as_str())]).map_err(told)?;
        let scope = Scope::from_shown(scope.as_str()).map_err(told)?;
        let key = Key::join([caller, key]).map_err(told)?;
        Ok((Name::new(&namespace, &scope, &key), terms))
    }

    /// An answer in place of the handler's.
    pub(super) fn refuse(&self, refusal: Refusal) -> Response<Bytes> {
        self.refuse_with(refusal, None, None)
    }

    pub(super) fn refuse_with(
        &self,
        refusal: Refusal,
        detail: Option<String>,
        lease: Option<Duration>,
    ) -> Response<Bytes> {
        let mut problem = self.problems.of(refusal);
        if let Some(detail) = detail {
            problem.detail = detail.into();
        }
        problem.retry_after = match refusal {
            // The end is near in most cases, and never later than the rest of the lease.
            Refusal::InFlight => {
                Some(seconds(lease.map_or(self.retry_after, |rest| rest.min(self.retry_after))))
            }
            Refusal::StoreFailed | Refusal::TooManyInFlight => Some(seconds(self.retry_after)),
            _ => None,
        };
        self.problems.response(&problem)
    }

    /// Until when a result that is kept now answers.
    pub(super) fn until(&self, terms: &Terms) -> Timestamp {
        self.keeper.clock().now().after(terms.ttl.get())
    }
}
