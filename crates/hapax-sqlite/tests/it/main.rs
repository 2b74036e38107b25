//! What is particular to the SQLite store. What all stores promise is in the conformance suite.
#![expect(clippy::unwrap_used, reason = "tests")]

mod boot;
mod calls;
mod child;
mod commits;
mod guard;
mod limit;
mod lock;
mod place;
mod processes;
mod prune;
mod queue;
mod support;
mod version;
