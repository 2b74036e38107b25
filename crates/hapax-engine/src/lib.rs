//! What users of hapax hold: a handle that runs an effect once per key.
//!
//! The layers, from the user down:
//!
//! | module | what it does |
//! |---|---|
//! | `idempotency` | the handle |
//! | `run`, `batch`, `resolve` | what it answers with: futures with settings |
//! | `claim` | a key held by hand, for results that commit with the caller's own rows |
//! | `effect` | one call from first to last: reserve, run, keep the outcome |
//! | [`queue`] | durable jobs |
//! | [`lock`] | locks |
//! | [`limit`] | rate limits |
//! | [`protocol`] | a reservation and its lease, for layers that run effects of their own: mail, HTTP, the command |
//!
//! The promise is at least once with deduplication: between the moment an effect happens and the moment its receipt
//! is stored, a crash lets it happen again once the lease has passed.

mod answer;
mod asking;
mod batch;
mod claim;
mod classify;
mod codec;
mod detached;
mod effect;
mod error;
mod idempotency;
pub mod limit;
pub mod lock;
pub mod protocol;
pub mod queue;
mod resolve;
mod run;

pub use crate::{
    answer::{Answer, KeyState, Replay, Verdict},
    batch::RunMany,
    claim::{Claim, Claimed},
    classify::{Boxed, Chain, Class, Classified, Classify, Concrete, EffectError, EffectExt, Judged},
    codec::{Codec, Json},
    error::{CODES, IdempotencyError},
    idempotency::Idempotency,
    protocol::{Closed, Keeper, Lease, Loss},
    resolve::Resolve,
    run::{Detailed, Run},
};
