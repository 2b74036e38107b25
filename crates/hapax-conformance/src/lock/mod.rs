//! The suite of stores of locks.

mod cases;
mod door;
mod harness;
mod later;

pub(crate) use cases::{Entry, entries};
pub use harness::LockUnderTest;
pub use later::LaterLocks;
pub(crate) use {door::Door, harness::Subject};
