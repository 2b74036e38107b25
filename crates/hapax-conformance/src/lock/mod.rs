//! The suite of stores of locks.

mod cases;
mod door;
mod harness;

pub(crate) use cases::{Entry, entries};
pub use harness::LockUnderTest;
pub(crate) use {door::Door, harness::Subject};
