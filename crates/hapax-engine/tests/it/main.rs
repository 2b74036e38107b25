//! The engine over a store that fails when told, on paused time.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod batch;
mod drops;
mod faults;
mod found;
mod outcomes;
mod renewal;
mod resolver;
mod support;
mod waiting;
