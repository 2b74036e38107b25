//! HTTP services that are safe to retry, and refuse honestly: two tower layers, for axum, tonic, hyper and whatever else
//! speaks [`http`].
//!
//! | module | what it does |
//! |---|---|
//! | `idempotency` | [`IdempotencyLayer`]: a request with an `Idempotency-Key` is carried out once, and answered again |
//! | `limit` | [`RateLimitLayer`]: so many requests in such a time |
//! | `problem` | what a layer answers in place of the handler |
//! | `client` | the address of a client behind proxies |
//! | `body` | what was read of a body, and its rest |
//!
//! From the outside to the handler: rate limits, authentication, idempotency. A request that is limited has then not
//! taken its key, and a key belongs to a caller who is known.
//!
//! ```
//! use axum::{Router, routing::post};
//! use hapax_engine::{Idempotency, define_limit, limit::{Quota, RateLimiter}};
//! use hapax_http::{IdempotencyLayer, RateLimitLayer, client_ip};
//! use http::request::Parts;
//! use std::{net::IpAddr, time::Duration};
//!
//! define_limit! {
//!     fn by_ip(ip: IpAddr) = "payments:{ip:ip}", Quota::sliding_window(60, Duration::from_secs(60));
//! }
//!
//! fn user_of(request: &Parts) -> Option<String> {
//!     Some(request.headers.get("x-user")?.to_str().ok()?.to_owned())
//! }
//!
//! # fn app(idempotency: &Idempotency, limits: &RateLimiter) -> Router {
//! let once = IdempotencyLayer::new(idempotency, user_of).required();
//! let limit = RateLimitLayer::new(limits, |request| by_ip(client_ip(request, None, 1)));
//! Router::new().route("/payments", post(|| async { "paid" }).layer(once)).layer(limit)
//! # }
//! ```

mod body;
mod client;
mod idempotency;
mod key;
mod limit;
mod problem;

pub use crate::{
    body::Body,
    client::client_ip,
    idempotency::{Handlers, IdempotencyLayer, IdempotencyService, IntoCaller, Keep, ResponseFuture},
    limit::{RateLimitLayer, RateLimitService},
    problem::{CODES, Problem, Refusal},
};
pub use hapax_engine::limit::headers::Legacy;
