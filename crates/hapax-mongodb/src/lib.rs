//! The MongoDB store of hapax: every step at most two conditional writes, each safe alone.
//!
//! A record is one document, whose `_id` is made of namespace, scope and key, so that the server itself lets one
//! reservation win. A step first sends the write of the usual case, on the condition that it is the usual case; otherwise
//! it looks, follows the rules of [`hapax_core::idempotency::machine`], and writes on the condition that nothing has
//! changed since, three times at most.
//!
//! - **Time** is the primary's. It says what it is when asked, and the clock that counts from the start of this machine
//!   carries it on, for 30 s, until there is another primary, or until something is to be taken over. What lies within
//!   the round trip is given to whoever holds the key: something is over by the earliest time that it can be there, less a
//!   second, and lasts from the latest. The wall clocks of callers decide nothing.
//! - **Durability**: every write waits for the majority and its journal, every read is of the primary, whatever the URL
//!   says. A standalone server has no majority; `doctor` says so.
//! - **Connections** come back by themselves, and follow the primary. Every call has a deadline, and the server gives up a
//!   little before it; a step whose reply was lost is sent again under its token, and says
//!   [`Applied::Unknown`](hapax_core::Applied) where it cannot be. The driver's own retries are off.
//! - **Locks and rate limits** lie in collections of their own beside that of the keys, named as it is, with `_lock` and
//!   `_limit` added. A decision is over one limit. Who waits for a lock asks now and then: nobody is woken.
//! - **Old records** are removed by the server an hour after they are over, by an index on `gone_at`; nothing depends on
//!   it.
//! - **Rights**: the role `readWrite` on the database.
//! - **Sharding**: the collection is not sharded, or by `_id`.
//!
//! MongoDB 4.4 or later. Types of the driver stand in the signature of [`MongoOptions::new`].

mod batch;
mod call;
mod clock;
mod doctor;
mod driver;
mod error;
mod idempotency;
mod keys;
mod layout;
mod limit;
mod list;
mod lock;
mod options;
mod parse;
mod prune;
mod rules;
mod sessions;
mod step;
mod store;
mod value;
mod watch;
mod write;

pub use crate::{driver::DRIVER, lock::Guard, options::MongoOptions, store::MongoStore};
