//! Three primaries, each with a replica.

use super::{Redis, ask};
use crate::{
    shared::{self, Shared},
    supervised::free_port,
    wait,
};

const SLOTS: u16 = 16_384;
const PRIMARIES: u16 = 3;

/// A Cluster of six nodes that ends with its test.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Three primaries and three replicas.
    pub fn start() -> Self {
        Self::of((0..2 * PRIMARIES).map(|_| Redis::with(&options(&free_port().to_string()))).collect())
    }

    fn of(nodes: Vec<Redis>) -> Self {
        let cluster = Self { nodes };
        cluster.join();
        cluster
    }

    fn join(&self) {
        let share = SLOTS / PRIMARIES;
        for (at, node) in self.nodes.iter().enumerate().take(PRIMARIES.into()) {
            let at = u16::try_from(at).unwrap_or(0);
            let last = if at + 1 == PRIMARIES { SLOTS - 1 } else { (at + 1) * share - 1 };
            said(&node.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1)), "+OK");
            said(&node.ask(&format!("CLUSTER ADDSLOTSRANGE {} {last}", at * share)), "+OK");
        }
        let Some(first) = self.nodes.first() else { return };
        for node in self.nodes.iter().skip(1) {
            let bus = bus_of(node);
            said(&first.ask(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port())), "+OK");
        }
        let count = self.nodes.len();
        wait::until("all nodes know each other", || {
            self.nodes.iter().all(|node| info(node).contains(&format!("cluster_known_nodes:{count}\r\n")))
        });
        let (primaries, replicas) = self.nodes.split_at(PRIMARIES.into());
        for (replica, primary) in replicas.iter().zip(primaries) {
            let id = primary.ask("CLUSTER MYID");
            let id = id.split("\r\n").nth(1).unwrap_or_default().to_owned();
            wait::until("the replica knows its primary", || {
                replica.ask(&format!("CLUSTER REPLICATE {id}")).starts_with("+OK")
            });
        }
        wait::until("the cluster is up", || {
            self.nodes.iter().all(|node| info(node).contains("cluster_state:ok"))
        });
        wait::until("replicas are in step", || {
            replicas.iter().all(|replica| replica.ask("INFO replication").contains("master_link_status:up"))
        });
    }

    /// `redis+cluster://127.0.0.1:PORT,127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// All nodes; the first three began as primaries.
    pub fn nodes(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }

    /// The ports of the nodes that are primaries now.
    pub fn primaries(&self) -> Vec<u16> {
        let is_primary = |node: &&Redis| ask(node.port(), "ROLE").is_some_and(|role| role.contains("master"));
        self.nodes.iter().filter(is_primary).map(Redis::port).collect()
    }
}

/// The port of the bus is given: by default it is 10,000 higher, which is none for many.
fn options(bus: &str) -> Vec<&str> {
    vec![
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "1000",
        "--cluster-port",
        bus,
        "--cluster-replica-validity-factor",
        "0",
        "--appendonly",
        "yes",
        "--appendfsync",
        "no",
    ]
}

/// Three primaries for every test process that asks, each with keys of its own.
#[derive(Debug)]
pub struct SharedCluster(Shared);

impl SharedCluster {
    /// Uses those that are there, or starts them.
    pub fn join() -> Self {
        let is_up = |state: &str| {
            ports(state)
                .iter()
                .all(|port| ask(*port, "CLUSTER INFO").is_some_and(|info| info.contains("cluster_state:ok")))
        };
        Self(shared::join("redis-cluster", is_up, |pipe| {
            let node = |_| Redis::by(pipe, &options(&free_port().to_string()));
            let cluster = RedisCluster::of((0..PRIMARIES).map(node).collect());
            let ports: Vec<_> = cluster.nodes.into_iter().map(|node| node.leave().to_string()).collect();
            ports.join(",")
        }))
    }

    /// Where the primaries listen on 127.0.0.1.
    pub fn ports(&self) -> Vec<u16> {
        ports(&self.0.state)
    }

    /// `redis+cluster://127.0.0.1:PORT,…`.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }
}

fn ports(state: &str) -> Vec<u16> {
    state.split(',').filter_map(|port| port.parse().ok()).collect()
}

fn info(node: &Redis) -> String {
    node.ask("CLUSTER INFO")
}

fn bus_of(node: &Redis) -> String {
    let answer = node.ask("CONFIG GET cluster-port");
    answer.split("\r\n").nth(4).unwrap_or_default().to_owned()
}

#[track_caller]
fn said(answer: &str, expected: &str) {
    assert!(answer.starts_with(expected), "{answer}");
}
