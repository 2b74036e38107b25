//! The vocabulary of hapax: what a key, a token, a lease and a receipt are, and what a store promises.
//!
//! A store keeps one [record](idempotency::Record) under each [`Name`]. Every method of
//! [`IdempotencyStore`](idempotency::IdempotencyStore) is one atomic step; what happened is data, and an error means
//! that the store could not do it. The rules of those steps are written once, as pure functions over a record, in
//! [`idempotency::machine`]; the memory store and the SQLite store run them as they are, other stores are held to
//! them by the conformance suite.
//!
//! Users hold the types of `hapax`, the facade; this crate is for authors of stores and layers.

pub mod backend;
pub mod clock;
pub mod code;
pub mod doctor;
pub mod error;
pub mod fingerprint;
pub mod idempotency;
pub mod key;
pub mod limit;
pub mod lock;
pub mod memory;
pub mod queue;
pub mod registry;
mod stable;
pub mod stranger;
pub mod time;
pub mod token;
pub mod url;

pub use crate::{
    backend::Backend,
    clock::{Clock, ManualClock, SystemClock},
    code::{Category, CodeInfo, Coded, Retry},
    error::{Applied, StoreError, StoreErrorKind, StoreResult},
    fingerprint::{Fingerprint, IntoFingerprint, NoStableForm, stable_hash},
    key::{IntoKey, InvalidKey, Key, Name, Namespace, Scope},
    registry::{Driver, Registry},
    time::{BootTime, InvalidDuration, Now, Span, Timestamp},
    token::{Token, Version},
    url::BackendUrl,
};

/// For `impl IdempotencyStore for …` without naming the crate in your manifest.
pub use async_trait::async_trait;

/// Any error that can cross threads.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// A boxed future that can cross threads.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
