//! Integration tests of the command.
#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(target_os = "linux")]
mod child;
