//! The Redis store of hapax: one server, a primary that Sentinel names, or a Cluster. Redis 6.2 or later, Valkey.
//!
//! A record is one string, and a step is one round trip: a reservation is a plain `SET … NX GET PX`, every other step a
//! script that writes down the rule of [`hapax_core::idempotency::machine`] for the server; those of queues, locks and
//! limits follow [`hapax_core::queue::machine`], [`hapax_core::lock::machine`] and [`hapax_core::limit::machine`].
//!
//! - **Time** is the server's. The key's own expiry ends a lease or a result; where a late result lies beside a
//!   reservation, a script compares by the server's clock. The clocks of callers decide nothing.
//! - **Connections** come back by themselves. Every call has a deadline; a step whose reply was lost is sent again under
//!   its token, and says [`Applied::Unknown`](hapax_core::Applied) where it cannot be.
//! - **Memory**: where the server may evict keys, it may forget that an effect ran: `maxmemory-policy noeviction`. A full
//!   server refuses new keys, and still takes results and releases (from Redis 7 on).
//! - **Durability** is the server's: with `appendfsync everysec` a loss of power takes up to a second, and a failover
//!   what had not reached the replica. `wait_replicas` narrows that and does not close it.
//! - **Rights**: a user of the server needs the keys `PREFIX{}*` and the commands `GET SET DEL TIME PTTL EVALSHA EVAL
//!   SCAN ZADD ZSCAN ZREMRANGEBYSCORE PEXPIRE`; `WAIT` for `wait_replicas`; `INFO` and `CONFIG|GET` for `hapax doctor`; for Sentinel `ROLE`, and `SENTINEL` there;
//!   for Cluster `CLUSTER|SLOTS` and what its driver asks (`CLUSTER`, `PING`, `ASKING`, `READONLY`).
//! - **Queues** ([`RedisQueues`]) have their keys under `PREFIX{q*`, all of one queue in one slot, and need besides `HGET HSET
//!   HDEL HLEN HMGET HEXISTS HINCRBY HGETALL HSCAN ZREM ZRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREMRANGEBYRANK ZMSCORE ZSCORE ZCARD
//!   ZCOUNT BITFIELD EXISTS UNLINK RENAME BZPOPMIN RPUSH LTRIM LRANGE LLEN`. Whoever waits for jobs has a connection of its own for it.
//! - **Locks** ([`RedisLocks`]) have their keys under `PREFIX{l*` and need besides `SETRANGE`, and `BZPOPMIN` for whoever waits; **rate
//!   limits** ([`RedisLimits`]) under `PREFIX{r*`, and `PEXPIREAT LLEN LINDEX LSET LTRIM RPUSH RPOP`.
//! - **Listing** goes through all keys of the server, a part at a time; unknown outcomes alone are found without.
//!   Nothing is ever pruned: Redis removes what is over.

mod address;
mod answer;
mod ask;
mod clock;
mod connect;
mod doctor;
mod driver;
mod error;
mod gather;
mod idempotency;
mod keys;
mod layout;
mod limit;
mod line;
mod lines;
mod list;
mod lock;
mod nodes;
mod options;
mod pause;
mod queue;
mod reserve;
mod script;
mod secret;
mod sentinel;
mod step;
mod store;
mod tls;
mod tokens;
mod value;

pub use crate::{
    driver::DRIVER,
    limit::RedisLimits,
    lock::{Guard, RedisLocks},
    options::RedisOptions,
    queue::RedisQueues,
    store::RedisStore,
};
