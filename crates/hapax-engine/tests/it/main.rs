//! The engine over a store that fails when told, on paused time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod batch;
mod codecs;
mod drops;
mod faults;
mod found;
mod limit;
mod lock;
mod outcomes;
mod queue;
mod renewal;
mod resolver;
mod runtimes;
mod settings;
mod support;
mod waiting;
