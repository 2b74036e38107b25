//! Integration tests of the command.
#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(target_os = "linux")]
mod child;

#[cfg(unix)]
mod bench;
#[cfg(unix)]
mod config;
#[cfg(unix)]
mod crowd;
#[cfg(unix)]
mod doctor;
#[cfg(unix)]
mod guard;
#[cfg(unix)]
mod input;
#[cfg(unix)]
mod keys;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
mod limit;
#[cfg(unix)]
mod limits;
#[cfg(target_os = "linux")]
mod lock;
#[cfg(unix)]
mod mail;
#[cfg(unix)]
mod once;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod pages;
#[cfg(unix)]
mod queue;
#[cfg(unix)]
mod sandbox;
#[cfg(unix)]
mod starts;
#[cfg(unix)]
mod stores;
