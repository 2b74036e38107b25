//! The layers, as a service and its clients meet them.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod bodies;
mod draft;
mod handlers;
mod limits;
mod responses;
mod services;
mod stores;
mod support;
mod wire;
