//! Applications made of services, from outside, on paused time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cancel;
mod cycles;
mod drops;
mod events;
mod failures;
mod hooks;
mod limits;
mod order;
mod report;
mod start;
mod support;
