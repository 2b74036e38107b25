//! Side effects that are safe to retry.
//!
//! An effect runs once per key: later calls under the key get the first receipt, a failed one frees it, and one whose
//! outcome nobody knows keeps it. The promise is at least once with deduplication: what happens at every point where
//! a process can die is in `docs/guarantees.md`.
//!
//! ```
//! use hapax::EffectExt;
//! # #[derive(serde::Serialize)] struct Order { id: String, cents: u64 }
//! # #[derive(serde::Serialize, serde::Deserialize)] struct Charge { id: String }
//! # async fn charge(order: &Order) -> std::io::Result<Charge> { Ok(Charge { id: order.id.clone() }) }
//!
//! # async fn example() -> anyhow::Result<()> {
//! let hapax = hapax::connect("memory:").await?;
//! let order = Order { id: "o1".into(), cents: 4200 };
//! let receipt = hapax
//!     .idempotency("charge")
//!     .run(&order.id, &order, || charge(&order).by_default())
//!     .await??;
//! # Ok(()) }
//! ```
//!
//! # Crate features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `sqlite` | yes | the embedded store, `sqlite:PATH` |
//! | `redis` | | Redis: one server, Sentinel or Cluster, `redis://HOST` |
//! | `postgres` | | PostgreSQL, `postgres://HOST/DATABASE`; receipts that commit with your own rows |
//! | `mongodb` | | MongoDB, `mongodb://HOST/DATABASE` |
//! | `mail` | yes | [`mail`]: messages, receipts, transports, the idempotent decorator |
//! | `ses` | | Amazon SES beside the other ways to send mail |
//! | `service` | yes | [`service`]: parts of a program that start lazily and once, and stop in order |
//! | `http` | | [`http`]: tower layers for `Idempotency-Key` and rate limits, for axum, tonic and hyper |
//! | `full` | | all of them |

mod connect;
mod examine;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use crate::{
    connect::{Close, Connect, ConnectError, Hapax, connect, registry},
    examine::{Diagnosis, Unfit},
};
pub use hapax_core::{
    BackendUrl, BoxError, BoxFuture, Category, Clock, CodeInfo, Coded, Fingerprint, IntoFingerprint, IntoKey,
    InvalidKey, Key, NoStableForm, Retry, StoreError, StoreErrorKind, Timestamp, Version, async_trait,
    stable_hash,
};
pub use hapax_engine::{
    Answer, Claim, Claimed, Class, Classified, Classify, Closed, Codec, Detailed, EffectError, EffectExt,
    Idempotency, IdempotencyError, Json, Judged, KeyState, Lease, Loss, Replay, Resolve, Run, RunMany,
    Verdict, define_limit,
    limit::{Decision, Limit, LimitError, Permit, Quota, RateLimiter, Secret, WhenDown},
    lock::{Fence, Lock, LockError, LockGuard, Locks},
    queue::{Added, Backoff, Job, JobError, JobOptions, OnError, Queue, QueueDef, QueueError, Ran, Worker},
};

/// For authors of stores and of layers.
pub mod core {
    pub use hapax_core::*;
}

/// The parts of a call, for layers that run effects of their own.
pub mod protocol {
    pub use hapax_engine::protocol::*;
}

/// Durable jobs: what a [`Queue`] is made of, and the store's own vocabulary.
pub mod queue {
    pub use hapax_core::queue::{
        Counts, DeadReason, Due, EventPage, Group, Happening, JobInfo, JobState, Limits, OnConflict,
        Priority, Progress, Put, QueueEvent, QueueName, QueueStats, QueueStore, Uid, history,
    };
    pub use hapax_engine::queue::*;
}

/// Locks: one holder at a time, with a fence.
pub mod lock {
    pub use hapax_core::lock::{Guarded, LockStore, SCOPE};
    pub use hapax_engine::lock::*;
}

/// Rate limits: so much in such a time.
pub mod limit {
    pub use hapax_core::limit::LimitStore;
    pub use hapax_engine::limit::*;
}

/// Mail that is sent once.
#[cfg(feature = "mail")]
pub mod mail {
    pub use hapax_mail::*;
}

/// Services that start lazily and once, and stop in order.
#[cfg(feature = "service")]
pub mod service {
    pub use hapax_service::*;
}

/// HTTP services that are safe to retry, and refuse honestly: tower layers.
#[cfg(feature = "http")]
pub mod http {
    pub use hapax_http::*;
}

/// The Redis store and its options.
#[cfg(feature = "redis")]
pub mod redis {
    pub use hapax_redis::*;
}

/// The MongoDB store and its options.
#[cfg(feature = "mongodb")]
pub mod mongodb {
    pub use hapax_mongodb::*;
}

/// For tests of your own code.
pub mod testing {
    pub use hapax_core::ManualClock;
}

/// Every stable code of this build, in order.
pub fn codes() -> Vec<CodeInfo> {
    let mut codes = [
        hapax_core::error::STORE_CODES,
        hapax_engine::CODES,
        hapax_engine::queue::CODES,
        hapax_engine::lock::CODES,
        hapax_engine::limit::CODES,
    ]
    .concat();
    #[cfg(feature = "mail")]
    codes.extend_from_slice(hapax_mail::CODES);
    #[cfg(feature = "http")]
    codes.extend_from_slice(hapax_http::CODES);
    #[cfg(feature = "service")]
    codes.extend_from_slice(hapax_service::CODES);
    codes.sort_by_key(|info| info.code);
    codes
}
