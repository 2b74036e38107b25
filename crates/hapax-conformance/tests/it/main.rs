//! The suite itself: that it passes a sound store, and finds what is wrong with the others.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod faulty;
mod flaws;
mod plain;
mod suite;
