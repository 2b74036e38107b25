//! The mail crate from outside.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod builder;
mod files;
mod fingerprints;
mod injection;
mod json_lines;
mod parsers;
mod raw_mails;
mod rendering;
mod support;
