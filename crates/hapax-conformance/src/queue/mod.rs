//! The suite of stores of queues.

mod cases;
mod desk;
mod harness;
mod insisting;
mod requests;

pub(crate) use cases::{Entry, entries};
pub use harness::{QueueClient, QueueUnderTest};
pub use insisting::{HandedOut, InsistingQueues};
pub(crate) use {desk::Desk, harness::Subject};
