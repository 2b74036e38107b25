//! `redis-server`: alone, as a Cluster, and behind Sentinels.

mod cluster;
mod sentinel;
mod single;

pub use cluster::{RedisCluster, SharedCluster};
pub use sentinel::{MASTER, RedisSentinel, SharedSentinel};
pub use single::Redis;

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

/// The program that all of them need.
pub const PROGRAM: &str = "redis-server";

/// Sends one command, written as one line, and returns the first part of what comes back.
pub(crate) fn ask(port: u16, line: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
    let mut bytes = vec![0; 64 * 1024];
    let read = stream.read(&mut bytes).ok()?;
    bytes.truncate(read);
    String::from_utf8(bytes).ok()
}
