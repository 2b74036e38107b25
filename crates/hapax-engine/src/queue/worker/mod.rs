//! Workers: they take jobs, run handlers, and end jobs.

mod ahead;
mod beat;
mod builder;
mod core;
mod ends;
mod handle;
mod held;
mod per;
mod run;
mod step;
mod stop;
mod turn;

pub(super) use {beat::MANUAL_PAUSE, turn::run_handler};
pub use {
    builder::WorkerBuilder,
    handle::{Ran, Worker},
};
