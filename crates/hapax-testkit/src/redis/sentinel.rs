//! A primary, a replica, and three Sentinels that watch them.

use super::Redis;
use crate::{
    shared::{self, Shared},
    supervised::{Life, Supervised, folder, free_port},
    wait,
};
use std::fs;
use tempfile::TempDir;

/// The name under which the Sentinels know the primary.
pub const MASTER: &str = "main";

/// Three Sentinels and what they watch; all end with the test.
#[derive(Debug)]
pub struct RedisSentinel {
    sentinels: Vec<(u16, Supervised)>,
    folder: TempDir,
    servers: Vec<Redis>,
}

impl RedisSentinel {
    /// One primary, one replica.
    pub fn start() -> Self {
        Self::living(Life::Test)
    }

    fn living(life: Life<'_>) -> Self {
        let server = |options: &[&str]| match life {
            Life::Test => Redis::with(options),
            Life::Pipe(pipe) => Redis::by(pipe, options),
        };
        let primary = server(&["--appendonly", "yes", "--appendfsync", "no"]);
        let port = primary.port().to_string();
        let replica = server(&["--replicaof", "127.0.0.1", &port]);
        wait::until("the replica is in step", || {
            replica.ask("INFO replication").contains("master_link_status:up")
        });
        let folder = folder();
        let sentinels: Vec<_> = (0..3)
            .map(|at| {
                let own = free_port();
                let config = folder.path().join(format!("sentinel{at}.conf"));
                let text = format!(
                    "port {own}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
                     sentinel down-after-milliseconds {MASTER} 1000\nsentinel failover-timeout {MASTER} 3000\n"
                );
                fs::write(&config, text).expect("a file for a sentinel");
                let args = [config.display().to_string(), "--sentinel".to_owned()];
                (own, Supervised::start(folder.path(), &format!("sentinel{at}"), super::PROGRAM, &args, life))
            })
            .collect();
        let started = Self { sentinels, folder, servers: vec![primary, replica] };
        wait::until("the sentinels know each other and the replica", || {
            started.sentinels.iter().all(|(port, _)| {
                let known = super::ask(*port, "INFO sentinel").unwrap_or_default();
                known.contains("slaves=1,sentinels=3")
            })
        });
        started
    }

    /// `redis+sentinel://127.0.0.1:PORT,…/main`.
    pub fn url(&self) -> String {
        url(self.sentinels.iter().map(|(port, _)| *port))
    }

    /// The server that is the primary now.
    pub fn primary(&mut self) -> &mut Redis {
        let at = self.servers.iter().position(|server| server.ask("ROLE").contains("master")).unwrap_or(0);
        self.servers.get_mut(at).expect("a server")
    }

    /// Starts what was killed again, and waits until it is the replica of the other.
    pub fn whole_again(&mut self) {
        for server in self.servers.iter_mut().filter(|server| server.ask("PING").is_empty()) {
            server.start_again();
        }
        wait::until("the old primary is a replica, and in step", || {
            let linked = |server: &Redis| server.ask("INFO replication").contains("master_link_status:up");
            self.servers.iter().filter(|server| linked(server)).count() == 1
        });
    }
}

fn url(sentinels: impl Iterator<Item = u16>) -> String {
    let hosts: Vec<_> = sentinels.map(|port| format!("127.0.0.1:{port}")).collect();
    format!("redis+sentinel://{}/{MASTER}", hosts.join(","))
}

/// Sentinels for every test process that asks, each with keys of its own.
#[derive(Debug)]
pub struct SharedSentinel(Shared);

impl SharedSentinel {
    /// Uses those that are there, or starts them.
    pub fn join() -> Self {
        let is_up = |state: &str| ports(state).iter().all(|port| super::ask(*port, "PING").is_some());
        Self(shared::join("redis-sentinel", is_up, |pipe| {
            let started = RedisSentinel::living(Life::Pipe(pipe));
            let _ = started.folder.keep();
            let sentinels = started.sentinels.into_iter().map(|(port, sentinel)| {
                sentinel.leave();
                port
            });
            let servers = started.servers.into_iter().map(Redis::leave);
            let ports: Vec<_> = servers.chain(sentinels).map(|port| port.to_string()).collect();
            ports.join(",")
        }))
    }

    /// `redis://127.0.0.1:PORT` of the primary.
    pub fn primary(&self) -> String {
        let port = ports(&self.0.state).first().copied().unwrap_or_default();
        format!("redis://127.0.0.1:{port}")
    }

    /// `redis+sentinel://127.0.0.1:PORT,…/main`.
    pub fn url(&self) -> String {
        // After the primary and the replica.
        url(ports(&self.0.state).into_iter().skip(2))
    }
}

fn ports(state: &str) -> Vec<u16> {
    state.split(',').filter_map(|port| port.parse().ok()).collect()
}
