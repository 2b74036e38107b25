//! The mail crate from outside.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod batch_ends;
mod batches;
mod bounds;
mod builder;
mod decorators;
mod drops;
mod faults;
mod files;
mod fingerprints;
mod injection;
mod jobs;
mod json_lines;
mod keys;
mod kit;
mod leases;
mod logs;
mod mailers;
mod options;
mod outboxes;
mod providers;
mod raw_mails;
mod raw_sends;
mod rendering;
mod smtp;
mod stops;
mod support;
mod unknowns;
