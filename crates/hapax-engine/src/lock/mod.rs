//! Locks: one holder at a time, for as long as its lease is renewed.
//!
//! | module | what it does |
//! |---|---|
//! | `handle` | the handle |
//! | `hold` | a lock that is held: from the grant to the release that proves it |
//! | `acquire` | asks for it, and waits for it |
//! | `run` | the future of [`Locks::with_lock`] |
//!
//! A lease is a promise about time: a holder that is paused may go on beside the next one. [`Lock::lost`] tells it as
//! soon as it is known, and [`Lock::fence`] lets whoever is written to refuse it.

mod acquire;
mod error;
mod handle;
mod hold;
mod run;

pub use hapax_core::lock::{Fence, HolderInfo, LockInfo, LockPage};

pub use self::{
    error::{CODES, LockError},
    handle::Locks,
    hold::{Lock, LockGuard},
    run::WithLock,
};
