//! The memory store's bound, its counting, and its behaviour under many threads. What each step answers is for the
//! conformance suite.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "memory/bound.rs"]
mod bound;
#[path = "memory/count.rs"]
mod count;
#[path = "memory/requests.rs"]
mod requests;
#[path = "memory/threads.rs"]
mod threads;
