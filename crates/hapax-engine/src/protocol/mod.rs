//! Reservations for layers that run effects of their own.
//!
//! A [`Keeper`] belongs to one store. [`Keeper::reserve`] answers with a [`Reservation`], which is renewed until it
//! ends, or with the record that holds the key. A reservation ends in one of three ways: [`Reservation::complete`],
//! [`Reservation::release`], or a drop, which frees the key when the effect had not begun and keeps it as unknown when
//! it had. What the store refuses at that point is retried on the keeper's own thread; [`Keeper::close`] waits for it.

mod background;
pub(crate) mod call;
mod keeper;
mod lease;
pub(crate) mod renewer;
mod reservation;
pub(crate) mod runner;
mod terms;
mod unreadable;
mod waiters;

pub use background::Closed;
pub use keeper::{Begun, Keeper};
pub use lease::{Lease, LeaseView, Loss};
pub use reservation::{Kept, Reservation};
pub use terms::Terms;
pub(crate) use unreadable::{UNENCODABLE, unencodable};
