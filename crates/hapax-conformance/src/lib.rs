//! One suite that every store of hapax runs, and that a store of your own can run.
//!
//! A store passes when it answers each step as [`hapax_core::idempotency::machine`] says, from two clients, under many
//! tasks, at the edges of every lease, and when requests arrive twice, late, or without their reply. Cases are named as
//! statements, in five areas:
//!
//! | area | what it checks |
//! |---|---|
//! | `contract` | what each step answers and leaves under the key, row by row; names, receipts, lists, batches |
//! | `races` | two clients and many tasks: one winner, no result lost, no deadlock |
//! | `expiry` | what the end of a lease or of a result changes, to the millisecond; time is moved, nothing sleeps |
//! | `model` | random lists of steps, answered like a plain map; a list that is not is made as short as it gets |
//! | `queue::…` | for stores of queues: adding, order, fences, leases, outcomes, lost answers, groups, dead letters, limits, schedules, histories, books |
//! | `lock::…` | for stores of locks: one holder, fences that rise, leases, lost replies |
//! | `limit::…` | for stores of rate limits: each algorithm, several limits in one decision, never more than the bound |
//! | `faults` | lost replies, doubled and delayed requests: sending a step again under its token is harmless |
//!
//! # A store of your own
//!
//! In `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! hapax-conformance = "0.1"
//!
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! and `tests/conformance.rs`:
//!
//! ```no_run
#![doc = include_str!("../tests/own_store.rs")]
//! ```
//!
//! `cargo test` and nextest list each case and run it alone: `cargo test --test conformance stale_token`. A case that
//! a store [skips](StoreUnderTest::skips) is shown as ignored, and with the reason under `--include-ignored`. Several
//! stores, or one behind several layers, go into one binary with [`Suite`].
//!
//! `HAPAX_TEST_LONG=1` runs more rounds, and 16,000 random lists in place of 400. A list that fails names a seed:
//! `HAPAX_TEST_SEED` set to it gives the same lists again.
//!
//! [`faulty`] holds the decorator that makes a store fail, for tests of what stands above one; [`Insisting`] and
//! [`InsistingQueues`] run the suite on a store whose connections fail.
//!
//! Cases come and go: this crate is not under semantic versioning. It belongs into `dev-dependencies` and nowhere else.

mod cases;
pub mod faulty;
mod fixture;
mod harness;
mod insisting;
mod limit;
mod lists;
mod lock;
mod queue;
mod requests;
mod scenes;
mod shown;
mod suite;
mod urls;

pub use crate::{
    harness::StoreUnderTest,
    insisting::{Faults, Insisting},
    limit::LimitUnderTest,
    lock::{LaterLocks, LockUnderTest},
    queue::{HandedOut, InsistingQueues, QueueClient, QueueUnderTest},
    suite::{Case, Outcome, Suite, cases, limit_cases, lock_cases, main, queue_cases},
    urls::untrue_options,
};
/// For `impl StoreUnderTest for …` without naming the crate in your manifest.
pub use async_trait::async_trait;
/// What `fresh`, `client` and `reopen` may fail with.
pub use hapax_core::BoxError;
