//! The Redis store under the suite of all stores: on one server in each of its tongues and through a proxy that
//! cuts, on a Cluster, behind Sentinels.
#![expect(clippy::unwrap_used, reason = "tests")]

mod shift;

use hapax_conformance::{
    BoxError, Insisting, LimitUnderTest, LockUnderTest, Outcome, QueueClient, QueueUnderTest, StoreUnderTest,
    Suite, async_trait,
};
use hapax_core::{BackendUrl, Token, limit::LimitStore, lock::LockStore, registry::ConnectOptions};
use hapax_redis::{RedisLimits, RedisLocks, RedisOptions, RedisQueues, RedisStore};
use hapax_testkit::{
    Fault, Proxy, Rotation, check_clock, is_long, missing,
    redis::{PROGRAM, Redis, SharedCluster, SharedSentinel},
    run_off_by_an_hour,
};
use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A case keeps megabytes, to see that they come back.
const MAX_RECEIPT: usize = 2 * 1024 * 1024;

/// Redis itself removes what is over, so there is nothing to count.
fn skips(case: &str, needs_ours: bool) -> Option<&'static str> {
    match case {
        "contract::prune_removes_what_is_over"
        | "contract::prune_stops_at_its_limit"
        | "contract::prune_keeps_a_late_result"
        | "contract::prune_never_removes_what_is_live" => Some("Redis itself removes what is over"),
        _ if needs_ours && missing(&[PROGRAM, "flock"]).is_some() => {
            Some("`redis-server` or `flock` is not installed")
        }
        _ => None,
    }
}

/// A server to use in place of one of our own.
fn given() -> Option<String> {
    std::env::var("HAPAX_TEST_REDIS_URL").ok()
}

/// The keys of one case, wherever they are.
struct Place {
    url: String,
    prefix: String,
}

impl Place {
    fn at(url: String) -> Result<Self, BoxError> {
        // Another case may use the same server.
        Ok(Self { url, prefix: format!("case-{}", Token::random()?.version()) })
    }

    async fn client(&self, more: &str) -> Result<RedisStore, BoxError> {
        self.client_at(&self.url, more).await
    }

    async fn client_at(&self, url: &str, more: &str) -> Result<RedisStore, BoxError> {
        let sign = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{sign}prefix={}{more}", self.prefix);
        let options = RedisOptions::from_url(&BackendUrl::parse(&url)?, &ConnectOptions::default())?;
        Ok(RedisStore::connect(options.max_receipt(MAX_RECEIPT)).await?)
    }

    async fn queues(&self, more: &str) -> Result<QueueClient, BoxError> {
        let store = Arc::new(self.client(more).await?);
        Ok(QueueClient::new(Arc::new(RedisQueues::of(&store))).with_keys(store))
    }

    async fn elapse(&self, servers: &[String], by: Duration) {
        for server in servers {
            shift::keys(server, &self.prefix, by).await;
            shift::queue::keys(server, &self.prefix, by).await;
            shift::lock::keys(server, &self.prefix, by).await;
            shift::limit::keys(server, &self.prefix, by).await;
        }
    }
}

/// One server.
struct Single {
    place: Place,
    server: Option<Mutex<Redis>>,
}

impl Single {
    fn new() -> Result<Self, BoxError> {
        if let Some(url) = given() {
            return Ok(Self { place: Place::at(url)?, server: None });
        }
        let server = Redis::start();
        Ok(Self { place: Place::at(server.url())?, server: Some(Mutex::new(server)) })
    }

    fn port(&self) -> Result<u16, BoxError> {
        let server = self.server.as_ref().ok_or("the server has to be one of our own")?;
        Ok(server.lock().unwrap().port())
    }
}

macro_rules! single {
    ($name:ident, $more:literal) => {
        struct $name(Single);

        impl $name {
            fn place(&self) -> &Place {
                &self.0.place
            }

            fn servers(&self) -> Vec<String> {
                vec![self.0.place.url.clone()]
            }
        }

        #[async_trait]
        impl StoreUnderTest for $name {
            type Store = RedisStore;

            async fn fresh() -> Result<Self, BoxError> {
                Single::new().map(Self)
            }

            async fn client(&self) -> Result<RedisStore, BoxError> {
                self.0.place.client($more).await
            }

            async fn elapse(&self, by: Duration) {
                self.0.place.elapse(std::slice::from_ref(&self.0.place.url), by).await;
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                if let Some(server) = &self.0.server {
                    server.lock().unwrap().restart();
                }
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                skips(case, given().is_none())
            }
        }
    };
}

impl Cluster {
    fn place(&self) -> &Place {
        &self.place
    }

    fn servers(&self) -> Vec<String> {
        self.servers.ports().iter().map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }
}

impl Sentinel {
    fn place(&self) -> &Place {
        &self.place
    }

    fn servers(&self) -> Vec<String> {
        vec![self.servers.primary()]
    }
}

impl Cut {
    fn place(&self) -> &Place {
        &self.0.place
    }

    fn servers(&self) -> Vec<String> {
        vec![self.0.place.url.clone()]
    }

    async fn met_by_faults(&self, more: &str) -> Result<(RedisStore, Option<Rotation>), BoxError> {
        let proxy = Proxy::before(self.0.port()?);
        // A machine may be busy.
        let url = format!("redis://127.0.0.1:{}?timeout=30s", proxy.port());
        let store = self.0.place.client_at(&url, more).await?;
        Ok((store, Some(Rotation::new(proxy, FAULTS).sparse())))
    }
}

single!(Resp2, "");
single!(Resp3, "&protocol=3");
single!(Only62, "&commands=6.2");

/// One server, and requests that may be sent twice meet a fault on their way: all of them in turn.
struct Cut(Single);

const FAULTS: &[Fault] = &[Fault::CutAfter, Fault::Twice, Fault::CutBefore, Fault::CutReply];

/// What a lost reply could make a difference to. The others are run with `HAPAX_TEST_LONG`.
const CUT_AREAS: [&str; 4] = ["contract::", "expiry::", "lock::contract::", "lock::expiry::"];

#[async_trait]
impl StoreUnderTest for Cut {
    type Store = Insisting<RedisStore, Rotation>;

    async fn fresh() -> Result<Self, BoxError> {
        Single::new().map(Self)
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        let (store, faults) = self.met_by_faults("").await?;
        Ok(Insisting::new(store, faults.ok_or("no proxy")?))
    }

    async fn elapse(&self, by: Duration) {
        self.0.place.elapse(std::slice::from_ref(&self.0.place.url), by).await;
    }

    fn exact_time() -> bool {
        false
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        if let Some(server) = &self.0.server {
            server.lock().unwrap().restart();
        }
        Ok(true)
    }

    fn skips(case: &str) -> Option<&'static str> {
        if given().is_some() {
            return Some("a server is given, and no proxy");
        }
        if case.contains("races::") {
            return Some("what a caller makes of an answer holds where it is alone");
        }
        let is_run = is_long() || CUT_AREAS.iter().any(|area| case.starts_with(area));
        if is_run { skips(case, true) } else { Some("through a proxy with HAPAX_TEST_LONG=1 alone") }
    }
}

/// A Cluster of primaries.
struct Cluster {
    place: Place,
    servers: SharedCluster,
}

#[async_trait]
impl StoreUnderTest for Cluster {
    type Store = RedisStore;

    async fn fresh() -> Result<Self, BoxError> {
        let servers = SharedCluster::join();
        Ok(Self { place: Place::at(servers.url())?, servers })
    }

    async fn client(&self) -> Result<RedisStore, BoxError> {
        self.place.client("").await
    }

    async fn elapse(&self, by: Duration) {
        self.place.elapse(&self.servers(), by).await;
    }

    fn exact_time() -> bool {
        false
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    fn skips(case: &str) -> Option<&'static str> {
        skips(case, true)
    }
}

/// A primary that Sentinels name.
struct Sentinel {
    place: Place,
    servers: SharedSentinel,
}

#[async_trait]
impl StoreUnderTest for Sentinel {
    type Store = RedisStore;

    async fn fresh() -> Result<Self, BoxError> {
        let servers = SharedSentinel::join();
        Ok(Self { place: Place::at(servers.url())?, servers })
    }

    async fn client(&self) -> Result<RedisStore, BoxError> {
        self.place.client("").await
    }

    async fn elapse(&self, by: Duration) {
        self.place.elapse(&self.servers(), by).await;
    }

    fn exact_time() -> bool {
        false
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    fn skips(case: &str) -> Option<&'static str> {
        skips(case, true)
    }
}

/// The queues beside the keys of a store under test.
macro_rules! queues {
    ($name:ident, $keys:ident, $more:literal, $is_usual:literal) => {
        struct $name($keys);

        #[async_trait]
        impl QueueUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                <$keys as StoreUnderTest>::fresh().await.map(Self)
            }

            async fn client(&self) -> Result<QueueClient, BoxError> {
                self.0.place().queues($more).await
            }

            async fn elapse(&self, by: Duration) {
                StoreUnderTest::elapse(&self.0, by).await;
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                StoreUnderTest::reopen(&self.0).await
            }

            fn skips(case: &str) -> Option<&'static str> {
                is_spared(case, $is_usual).or_else(|| <$keys as StoreUnderTest>::skips(case))
            }
        }
    };
}

queues!(Queues, Resp2, "", true);
queues!(Queues3, Resp3, "&protocol=3", false);
queues!(Queues62, Only62, "&commands=6.2", false);
queues!(ClusterQueues, Cluster, "", false);
queues!(SentinelQueues, Sentinel, "", false);

/// Where nothing is in the way.
macro_rules! plain {
    ($($name:ident),*) => {
        $(impl $name {
            async fn met_by_faults(&self, more: &str) -> Result<(RedisStore, Option<Rotation>), BoxError> {
                Ok((self.place().client(more).await?, None))
            }
        })*
    };
}

plain!(Resp2, Resp3, Only62, Cluster, Sentinel);

/// Whether a case that takes long is left out of a usual run.
fn is_spared(case: &str, is_usual: bool) -> Option<&'static str> {
    let is_heavy = case.contains("::races::") || case.contains("::model::");
    (is_heavy && !is_usual && !is_long())
        .then_some("on one server alone, and elsewhere with HAPAX_TEST_LONG=1")
}

/// The locks beside the keys of a store under test.
macro_rules! locks {
    ($name:ident, $keys:ident, $more:literal, $is_usual:literal) => {
        struct $name {
            keys: $keys,
            passed: Arc<AtomicU64>,
        }

        #[async_trait]
        impl LockUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                let keys = <$keys as StoreUnderTest>::fresh().await?;
                Ok(Self { keys, passed: Arc::default() })
            }

            async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
                let (store, faults) = self.keys.met_by_faults($more).await?;
                let inner = RedisLocks::of(&Arc::new(store));
                Ok(Arc::new(shift::lock::Later { inner, passed: Arc::clone(&self.passed), faults }))
            }

            async fn elapse(&self, by: Duration) {
                StoreUnderTest::elapse(&self.keys, by).await;
                self.passed.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                StoreUnderTest::reopen(&self.keys).await
            }

            async fn lose_everything(&self) -> Result<bool, BoxError> {
                for server in self.keys.servers() {
                    shift::lose(&server, &self.keys.place().prefix).await;
                }
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                is_spared(case, $is_usual).or_else(|| <$keys as StoreUnderTest>::skips(case))
            }
        }
    };
}

locks!(Locks, Resp2, "", true);
locks!(Locks3, Resp3, "&protocol=3", false);
locks!(Locks62, Only62, "&commands=6.2", false);
locks!(CutLocks, Cut, "", false);
locks!(ClusterLocks, Cluster, "", false);
locks!(SentinelLocks, Sentinel, "", false);

/// The limits beside the keys of a store under test.
macro_rules! limits {
    ($name:ident, $keys:ident, $more:literal, $is_usual:literal) => {
        struct $name($keys);

        #[async_trait]
        impl LimitUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                <$keys as StoreUnderTest>::fresh().await.map(Self)
            }

            async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
                Ok(Arc::new(RedisLimits::of(&Arc::new(self.0.place().client($more).await?))))
            }

            async fn elapse(&self, by: Duration) {
                StoreUnderTest::elapse(&self.0, by).await;
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                StoreUnderTest::reopen(&self.0).await
            }

            fn skips(case: &str) -> Option<&'static str> {
                is_spared(case, $is_usual).or_else(|| <$keys as StoreUnderTest>::skips(case))
            }
        }
    };
}

limits!(Limits, Resp2, "", true);
limits!(Limits3, Resp3, "&protocol=3", false);
limits!(Limits62, Only62, "&commands=6.2", false);
limits!(ClusterLimits, Cluster, "", false);
limits!(SentinelLimits, Sentinel, "", false);

/// On one server, which this process starts, from a process whose wall clock is wrong.
fn with_wrong_clock(ahead: bool) -> Outcome {
    if let Some(why) = missing(&[PROGRAM]) {
        return Outcome::Ignored(why);
    }
    let server = Redis::start();
    let filter = if is_long() { "redis::" } else { "redis::expiry" };
    run_off_by_an_hour(ahead, filter, ("HAPAX_TEST_REDIS_URL", &server.url()))
}

fn main() -> ExitCode {
    check_clock();
    Suite::new()
        .with::<Resp2>("redis")
        .with::<Resp3>("redis_resp3")
        .with::<Only62>("redis_6_2")
        .with::<Cut>("redis_cut")
        .with::<Cluster>("redis_cluster")
        .with::<Sentinel>("redis_sentinel")
        .with_queues::<Queues>("redis")
        .with_queues::<Queues3>("redis_resp3")
        .with_queues::<Queues62>("redis_6_2")
        .with_queues::<ClusterQueues>("redis_cluster")
        .with_queues::<SentinelQueues>("redis_sentinel")
        .with_locks::<Locks>("redis")
        .with_locks::<Locks3>("redis_resp3")
        .with_locks::<Locks62>("redis_6_2")
        .with_locks::<CutLocks>("redis_cut")
        .with_locks::<ClusterLocks>("redis_cluster")
        .with_locks::<SentinelLocks>("redis_sentinel")
        .with_limits::<Limits>("redis")
        .with_limits::<Limits3>("redis_resp3")
        .with_limits::<Limits62>("redis_6_2")
        .with_limits::<ClusterLimits>("redis_cluster")
        .with_limits::<SentinelLimits>("redis_sentinel")
        .also("clocks::a_client_an_hour_ahead_is_answered_alike", || with_wrong_clock(true))
        .also("clocks::a_client_an_hour_behind_is_answered_alike", || with_wrong_clock(false))
        .run()
}
