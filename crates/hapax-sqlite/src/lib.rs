//! The embedded store of hapax: one SQLite file that many processes of one machine share.
//!
//! Every step is one transaction: it loads the row of its key, runs the rule of
//! [`hapax_core::idempotency::machine`] on it, and writes back what changed. The rules are not written a second time in
//! SQL.
//!
//! - **Writes** go through one connection. Calls that come while a commit is under way share the next one, so a
//!   thousand callers pay for a few syncs, and a lone one waits for nobody.
//! - **Reads**, and with them replays, write nothing and wait for no writer.
//! - **Time**: leases run on the clock that counts from the start of the machine, and are kept with the id of that
//!   life of the machine: after a restart their owners are dead. How long a result answers is wall-clock time.
//! - **Queues** lie in the same file and are steps of the same writer: they share commits with keys, and a job can end
//!   together with its key. Times at which jobs are due are wall-clock time; their leases run as those of keys do.
//! - **Locks and rate limits** lie there too. A lock's lease runs as that of a key does; a limit counts on the wall clock,
//!   so that a restart of the machine forgets no request. Who asks in vain writes nothing and waits for no writer.
//! - **Transactions of your own**: [`SqliteStore::transaction`] commits your rows and a receipt together.
//! - **Durability**: by default an answer is given once the disk has it; see [`Synchronous`].
//! - **Files**: the database, its log `…-wal`, and `…-shm`. The log may stay when the last process ends, and belongs to
//!   the store: a backup takes all of it, or goes through SQLite (`sqlite3 FILE '.backup COPY'`).

mod anchor;
mod batch;
mod commit;
mod connect;
mod doctor;
mod driver;
mod error;
mod idempotency;
mod limit;
mod list;
mod lock;
mod number;
mod options;
mod patience;
mod place;
mod prune;
mod queue;
mod reader;
mod row;
mod schema;
mod step;
mod store;
mod sweep;
mod unit;
mod within;
mod writer;

pub use crate::{
    driver::DRIVER,
    lock::admit,
    options::{SqliteOptions, Synchronous},
    store::{SqliteStore, Upgraded, upgrade},
    within::OpenTransaction,
};
/// The driver, for the types that stand in a transaction's closure.
pub use rusqlite;
