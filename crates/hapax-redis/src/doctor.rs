//! How the server is, for whoever looks after it: in a Cluster, each of its primaries.

use crate::{
    ask::Ask,
    connect::millis,
    error::Failure,
    lines::Request,
    nodes::{On, Primary, together},
    store::RedisStore,
};
use async_trait::async_trait;
use hapax_core::{
    StoreErrorKind, StoreResult, Timestamp,
    doctor::{Examination, Examine, Severity},
};
use redis::{Cmd, Value, cmd, from_redis_value_ref};
use std::{collections::HashMap, time::Duration};

const OP: &str = "look at the server";

#[async_trait]
impl Examine for RedisStore {
    async fn examine(&self) -> StoreResult<Examination> {
        let key = self.keys().meta("doctor");
        let mut found = Examination::default();
        found.fact("place", self.connector().place.clone());
        let time = self.asked(Ask::Plain(key, cmd("TIME"))).await.map_err(|failure| failure.error(OP))?;
        found.store_time = millis(&time).map(Timestamp::from_millis);
        let missing = self.missing_of(PROBES).await;
        match self.servers().await {
            Ok(servers) => {
                let wait_replicas = self.connector().options.wait_replicas;
                found.server_cpu = servers.iter().map(|(_, server)| server.cpu()).sum();
                let judged = servers.iter().map(|(primary, server)| {
                    let mut found = Examination::default();
                    server.judge(&mut found, wait_replicas);
                    (primary.address.as_str(), found)
                });
                together(&mut found, &judged.collect::<Vec<_>>());
            }
            Err(failure) if failure.kind == StoreErrorKind::Auth => found.find(
                "rights",
                Severity::Info,
                "this user may not ask `INFO`: eviction, persistence and replicas were not looked at",
                "run it as a user who may (`+info`, `+config|get`)",
            ),
            Err(failure) => return Err(failure.error(OP)),
        }
        for right in missing {
            found.find(
                "rights",
                Severity::Error,
                format!("this user may not call `{right}`, which the store needs"),
                format!("ACL SETUSER <user> +{}", right.to_lowercase()),
            );
        }
        for (what, probes) in FOR_OTHERS {
            for right in self.missing_of(probes).await {
                found.find(
                    "rights",
                    Severity::Info,
                    format!("this user may not call `{right}`, which {what} need"),
                    format!("ACL SETUSER <user> +{}, where {what} are used", right.to_lowercase()),
                );
            }
        }
        if self.connector().is_cluster()
            && let Ok(info) = self.asked(Ask::Plain(String::new(), words(&["CLUSTER", "INFO"]))).await
        {
            cluster(&mut found, &Server::of(&text(&info)));
        }
        Ok(found)
    }
}

impl RedisStore {
    async fn asked<R: Request>(&self, request: R) -> Result<Value, Failure> {
        let reply = self.lines.call(&[request], true).await.pop();
        reply.unwrap_or_else(|| Err(Failure::nonsense(&self.connector().place)))
    }

    /// Each primary, and what it says of itself.
    async fn servers(&self) -> Result<Vec<(Primary, Server)>, Failure> {
        let mut servers = Vec::new();
        for primary in self.primaries().await? {
            let mut server = Server::of(&text(&self.asked(On(&primary, cmd("INFO"))).await?));
            for name in ["appendfsync", "min-replicas-to-write"] {
                server.config(self.asked(On(&primary, words(&["CONFIG", "GET", name]))).await);
            }
            servers.push((primary, server));
        }
        Ok(servers)
    }

    /// The commands among these that this user may not call: each is tried where it changes nothing.
    pub(crate) async fn missing_of(&self, probes: &[Probe]) -> Vec<&'static str> {
        let key = self.keys().meta("doctor");
        let mut missing = Vec::new();
        for (command, rest) in probes {
            let mut probe = cmd(command);
            for word in *rest {
                probe.arg(if *word == "KEY" { key.as_str() } else { word });
            }
            let reply = self.lines.call(&[Ask::Plain(key.clone(), probe)], true).await.pop();
            if matches!(reply, Some(Err(failure)) if failure.kind == StoreErrorKind::Auth) {
                missing.push(*command);
            }
        }
        missing
    }
}

/// A command and what follows it, in a form that changes nothing; `KEY`: a key that nobody uses.
pub(crate) type Probe = (&'static str, &'static [&'static str]);

/// What locks and limits call besides; not `RPUSH`, which has no such form.
const FOR_OTHERS: &[(&str, &[Probe])] = &[
    ("locks", &[("SETRANGE", &["KEY", "0", ""]), ("BZPOPMIN", &["KEY", "0.001"])]),
    (
        "rate limits",
        &[
            ("LLEN", &["KEY"]),
            ("LINDEX", &["KEY", "0"]),
            ("LSET", &["KEY", "0", ""]),
            ("LTRIM", &["KEY", "0", "-1"]),
            ("RPOP", &["KEY"]),
            ("PEXPIREAT", &["KEY", "1"]),
        ],
    ),
];

/// What the store calls.
const PROBES: &[Probe] = &[
    ("GET", &["KEY"]),
    ("SET", &["KEY", "", "XX"]),
    ("DEL", &["KEY"]),
    ("PTTL", &["KEY"]),
    ("PEXPIRE", &["KEY", "1"]),
    ("EVALSHA", &["0000000000000000000000000000000000000000", "1", "KEY"]),
    ("EVAL", &["return 1", "1", "KEY"]),
    ("SCAN", &["0", "COUNT", "1"]),
    ("ZADD", &["KEY", "XX", "0", "none"]),
    ("ZSCAN", &["KEY", "0"]),
    ("ZREMRANGEBYSCORE", &["KEY", "0", "0"]),
];

fn words(words: &[&str]) -> Cmd {
    let mut command = cmd(words.first().copied().unwrap_or_default());
    command.arg(words.get(1..).unwrap_or_default());
    command
}

fn text(value: &Value) -> String {
    from_redis_value_ref(value).unwrap_or_default()
}

/// What a server says of itself: names and values.
struct Server(HashMap<String, String>);

impl Server {
    /// Lines of `name:value`.
    fn of(info: &str) -> Self {
        let pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// An answer to `CONFIG GET`; where it is refused, nothing is known.
    fn config(&mut self, reply: Result<Value, Failure>) {
        let pairs = reply.ok().and_then(|value| from_redis_value_ref::<HashMap<String, String>>(&value).ok());
        self.0.extend(pairs.unwrap_or_default());
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Processor time that it has used.
    fn cpu(&self) -> Option<Duration> {
        let seconds = |name| self.get(name)?.parse::<f64>().ok();
        Duration::try_from_secs_f64(seconds("used_cpu_user")? + seconds("used_cpu_sys")?).ok()
    }

    fn judge(&self, found: &mut Examination, wait_replicas: u32) {
        self.version(found);
        self.memory(found);
        self.persistence(found);
        self.replicas(found, wait_replicas);
    }

    fn version(&self, found: &mut Examination) {
        let Some(version) = self.get("redis_version") else { return };
        found.fact("version", format!("Redis {version}"));
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        if version < (6, 2) {
            found.find(
                "version",
                Severity::Error,
                "Redis before 6.2 does not know the commands of the store",
                "use Redis 6.2 or later, best 7 or later, or Valkey",
            );
        } else if version < (7, 0) {
            found.find(
                "version",
                Severity::Warning,
                "before Redis 7 a server without memory refuses results too, and each reservation costs a script",
                "use Redis 7 or later, or Valkey",
            );
        }
    }

    fn memory(&self, found: &mut Examination) {
        let (most, used) = (self.number("maxmemory").unwrap_or(0), self.number("used_memory").unwrap_or(0));
        let policy = self.get("maxmemory_policy").unwrap_or("noeviction");
        found.fact("eviction", policy);
        if policy != "noeviction" {
            let severity = if most > 0 { Severity::Error } else { Severity::Warning };
            found.find(
                "eviction",
                severity,
                format!("`maxmemory-policy` is `{policy}`: the server may forget that an effect ran, and it runs again"),
                "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
            );
        }
        if most > 0 && used.saturating_mul(10) > most.saturating_mul(9) {
            found.find(
                "memory",
                Severity::Warning,
                format!(
                    "{} % of `maxmemory` are used: without room no key can be reserved",
                    used.saturating_mul(100) / most
                ),
                "raise `maxmemory`, or keep receipts for less long",
            );
        }
    }

    fn persistence(&self, found: &mut Examination) {
        let has_log = self.get("aof_enabled") == Some("1");
        let sync = self.get("appendfsync");
        let text = if has_log {
            format!("append-only file, sync {}", sync.unwrap_or("unknown"))
        } else {
            "no append-only file".into()
        };
        found.fact("persistence", text);
        if !has_log {
            found.find(
                "persistence",
                Severity::Warning,
                "without an append-only file a restart forgets what ran since the last snapshot, and it runs again",
                "CONFIG SET appendonly yes, and the same in redis.conf",
            );
        } else if sync == Some("no") {
            found.find(
                "persistence",
                Severity::Warning,
                "`appendfsync no`: a loss of power forgets whatever the system had not written by itself",
                "CONFIG SET appendfsync everysec, or always",
            );
        } else if sync == Some("everysec") {
            found.find(
                "persistence",
                Severity::Info,
                "`appendfsync everysec`: a loss of power forgets up to two seconds",
                "CONFIG SET appendfsync always, where an effect must not run again even then",
            );
        }
        for (name, what) in
            [("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")]
        {
            if self.get(name).is_some_and(|status| status != "ok") {
                found.find(
                    "persistence",
                    Severity::Error,
                    format!("the last write of the {what} failed: the server refuses writes, or loses them"),
                    "look into the log of the server: most often the disk is full",
                );
            }
        }
    }

    fn replicas(&self, found: &mut Examination, wait_replicas: u32) {
        if self.get("role") == Some("slave") {
            found.find(
                "role",
                Severity::Error,
                "this server is a replica, which takes no writes",
                "name the primary, or use redis+sentinel:// or redis+cluster://, which find it",
            );
            return;
        }
        let replicas = self.number("connected_slaves").unwrap_or(0);
        found.fact("replicas", replicas.to_string());
        if replicas < u64::from(wait_replicas) {
            found.find(
                "replicas",
                Severity::Error,
                format!(
                    "the URL waits for {wait_replicas} replicas and the server has {replicas}: no key can be reserved, and \
                     each call ends with an error after half of its time"
                ),
                format!("bring the replicas back, or write `?wait_replicas={replicas}`"),
            );
        }
        if replicas > 0
            && wait_replicas == 0
            && self.get("min-replicas-to-write").is_none_or(|least| least == "0")
        {
            found.find(
                "replicas",
                Severity::Warning,
                "a failover may forget what the replica had not got yet, and it runs again",
                "`?wait_replicas=1` in the URL, and CONFIG SET min-replicas-to-write 1",
            );
        }
    }
}

fn cluster(found: &mut Examination, server: &Server) {
    let (state, slots) =
        (server.get("cluster_state").unwrap_or("unknown"), server.number("cluster_slots_ok"));
    found.fact("cluster", format!("{state}, {} of 16384 slots served", slots.unwrap_or(0)));
    if state != "ok" || slots != Some(16_384) {
        found.find(
            "cluster",
            Severity::Error,
            "not all slots of the Cluster are served: some keys cannot be reserved",
            "redis-cli --cluster check HOST:PORT",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "# Server\r\nredis_version:7.0.15\r\nused_memory:1000\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
        aof_enabled:1\r\naof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\nrole:master\r\nconnected_slaves:0\r\n";

    /// What is found when some of it is otherwise.
    fn judged(changes: &[(&str, &str)], wait_replicas: u32) -> Vec<(&'static str, Severity)> {
        let mut server = Server::of(SOUND);
        server.0.insert("appendfsync".into(), "always".into());
        server.0.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut found = Examination::default();
        server.judge(&mut found, wait_replicas);
        found.findings.iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    #[test]
    fn a_sound_server_has_no_findings() {
        assert_eq!(judged(&[], 0), []);
    }

    #[test]
    fn eviction_is_an_error_where_it_can_happen() {
        let lru = ("maxmemory_policy", "allkeys-lru");
        assert_eq!(judged(&[lru], 0), [("eviction", Severity::Warning)]);
        assert_eq!(judged(&[lru, ("maxmemory", "100000")], 0), [("eviction", Severity::Error)]);
        assert_eq!(judged(&[("maxmemory", "1100")], 0), [("memory", Severity::Warning)]);
    }

    #[test]
    fn persistence_is_looked_at() {
        assert_eq!(judged(&[("aof_enabled", "0")], 0), [("persistence", Severity::Warning)]);
        assert_eq!(judged(&[("appendfsync", "no")], 0), [("persistence", Severity::Warning)]);
        assert_eq!(judged(&[("appendfsync", "everysec")], 0), [("persistence", Severity::Info)]);
        assert_eq!(judged(&[("aof_last_write_status", "err")], 0), [("persistence", Severity::Error)]);
    }

    #[test]
    fn replicas_and_roles_are_looked_at() {
        let (one, least) = (("connected_slaves", "1"), ("min-replicas-to-write", "1"));
        assert_eq!(judged(&[one], 0), [("replicas", Severity::Warning)]);
        assert_eq!(judged(&[one], 1), []);
        assert_eq!(judged(&[one], 2), [("replicas", Severity::Error)]);
        assert_eq!(judged(&[], 1), [("replicas", Severity::Error)]);
        assert_eq!(judged(&[one, least], 0), []);
        assert_eq!(judged(&[("role", "slave")], 0), [("role", Severity::Error)]);
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(judged(&[("redis_version", "6.0.20")], 0), [("version", Severity::Error)]);
        assert_eq!(judged(&[("redis_version", "6.2.14")], 0), [("version", Severity::Warning)]);
        assert_eq!(judged(&[("redis_version", "10.1.0")], 0), []);
    }

    #[test]
    fn a_cluster_with_holes_is_an_error() {
        let judged = |text: &str| {
            let mut found = Examination::default();
            cluster(&mut found, &Server::of(text));
            found.severity()
        };
        assert_eq!(judged("cluster_state:ok\r\ncluster_slots_ok:16384\r\n"), None);
        assert_eq!(judged("cluster_state:fail\r\ncluster_slots_ok:10922\r\n"), Some(Severity::Error));
    }
}
