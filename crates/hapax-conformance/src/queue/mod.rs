//! The suite of stores of queues.

mod cases;
mod desk;
mod harness;
mod requests;

pub(crate) use cases::{Entry, entries};
pub use harness::{QueueClient, QueueUnderTest};
pub(crate) use {desk::Desk, harness::Subject};
