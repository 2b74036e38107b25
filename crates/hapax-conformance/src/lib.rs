//! One suite that every store of hapax runs, and that a store of your own can run.

mod cases;
pub mod faulty;
mod fixture;
mod harness;
mod requests;
mod scenes;
mod shown;
mod suite;

pub use crate::{
    harness::StoreUnderTest,
    suite::{Case, Outcome, Suite, cases, main},
};
/// For `impl StoreUnderTest for …` without naming the crate in your manifest.
pub use async_trait::async_trait;
/// What `fresh`, `client` and `reopen` may fail with.
pub use hapax_core::BoxError;
