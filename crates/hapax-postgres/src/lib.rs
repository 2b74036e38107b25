//! The PostgreSQL store of hapax: every step is a function of the server, and one round trip.
//!
//! The functions stand in a schema of their own, `hapax` unless told otherwise. They are made when a store is first
//! connected, and follow the rules of [`hapax_core::idempotency::machine`].
//!
//! - **Time** is the server's, at the moment of the step (`clock_timestamp()`). The clocks of callers decide nothing.
//! - **Transactions**: each step is one of its own, read committed, whatever the database's default is. A reservation
//!   that meets the row of its key locked waits 50 ms, and then answers that the key is held.
//!   [`complete_in`](PostgresStore::complete_in) and [`release_in`](PostgresStore::release_in) are a part of the
//!   caller's transaction instead: the receipt is kept when, and only when, the caller's own rows are.
//! - **Poolers**: a step is one message and leaves nothing in the session, so a pooler may give each transaction
//!   another connection. Where it is certain that there is none, and more than a few statements are sent, they are named,
//!   which spares the server the reading: over TCP on Linux, where the server sees the same two ends of the connection as this
//!   process does. `?prepared=on` names them from the first one on, wherever the connection leads, `?prepared=off` none.
//! - **Many callers** at once share statements, and so commits, on two connections; a lone one waits for nobody.
//! - **Connections** come back by themselves. Every call has a deadline, and the server gives up a little before it; a
//!   step whose reply was lost is sent again under its token, and says [`Applied::Unknown`](hapax_core::Applied) where
//!   it cannot be.
//! - **Durability** is the server's: with `synchronous_commit = off` a crash takes the last moments, with asynchronous
//!   replicas a failover does.
//! - **Standbys** take no writes: opening one is an error. When an address leads to a new primary, the next call finds it.
//! - **Rights**: a user needs `USAGE` on the schema and all rights on its tables; to make them, `CREATE` on the
//!   database.
//! - **Queues** lie beside the keys: a step ends jobs, completes their keys and hands out the next in one transaction.
//!   Workers pass over rows that others have locked. [`add_in`](PostgresStore::add_in) adds a job with the caller's own
//!   rows. New jobs are noticed within 250 ms, or at once where the store may `LISTEN`: `?listen_url=` past a pooler, or
//!   `?prepared=on`, which says that there is none.
//! - **Locks and rate limits** lie beside them, and decide by the server's clock too. Who waits for a lock is called when it is
//!   given back where the store may `LISTEN`, and asks again after growing pauses elsewhere. [`admit`] lets a write of the
//!   caller's transaction pass only for the newest holder.
//! - **Other languages** may call `hapax.complete`, `hapax.release`, `hapax.add` and `hapax.admit` in transactions of their own.
//!   Their signatures stay.
//! - **Logs**: a server that logs statements shows keys and receipts in hexadecimal; of named ones it logs them as parameters.
//!
//! Types of sqlx stand in the signatures of [`PostgresOptions::new`] and [`listen`](PostgresOptions::listen), and of the functions that take a transaction.

mod answer;
mod ask;
mod batch;
mod call;
mod columns;
mod direct;
mod doctor;
mod driver;
mod error;
mod gather;
mod home;
mod idempotency;
mod limit;
mod list;
mod lock;
mod named;
mod options;
mod parse;
mod prune;
mod queue;
mod schema;
mod session;
mod sessions;
mod step;
mod store;
mod stranger;
mod value;

pub use crate::{driver::DRIVER, lock::admit, options::PostgresOptions, store::PostgresStore};
