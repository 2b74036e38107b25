//! The suite of stores of rate limits.

mod cases;
mod gate;
mod harness;

pub(crate) use cases::{Entry, entries};
pub use harness::LimitUnderTest;
pub(crate) use {gate::Gate, harness::Subject};
