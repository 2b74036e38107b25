//! The Redis store under the suite of all stores: on one server in each of its tongues and through a proxy that
//! cuts, on a Cluster, behind Sentinels.
#![expect(clippy::unwrap_used, reason = "tests")]

mod beside;
mod shift;

use beside::{
    ClusterLimits, ClusterLocks, ClusterQueues, CutLocks, CutQueues, Limits, Limits3, Limits62, Locks,
    Locks3, Locks62, Queues, Queues3, Queues62, SentinelLimits, SentinelLocks, SentinelQueues,
};
use hapax_conformance::{BoxError, Insisting, Outcome, StoreUnderTest, Suite, async_trait};
use hapax_core::{BackendUrl, Token, registry::ConnectOptions};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_testkit::{
    Fault, Proxy, Rotation, check_clock, is_long, missing,
    redis::{PROGRAM, Redis, SharedCluster, SharedSentinel},
    run_off_by_an_hour,
};
use std::{process::ExitCode, sync::Mutex, time::Duration};

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
    newest: shift::Newest,
}

impl Place {
    fn at(url: String) -> Result<Self, BoxError> {
        // Another case may use the same server.
        let prefix = format!("case-{}", Token::random()?.version());
        Ok(Self { url, prefix, newest: shift::Newest::default() })
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

    async fn elapse(&self, servers: &[String], by: Duration) {
        shift::all(servers, &self.prefix, &self.newest, by).await;
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
        if case.starts_with("model::") && !is_long() {
            return Some("on one server alone, and elsewhere with HAPAX_TEST_LONG=1");
        }
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

/// On one server, which this process starts, from a process whose wall clock is wrong.
fn with_wrong_clock(ahead: bool, filter: &str) -> Outcome {
    if let Some(why) = missing(&[PROGRAM]) {
        return Outcome::Ignored(why);
    }
    let server = Redis::start();
    run_off_by_an_hour(ahead, filter, ("HAPAX_TEST_REDIS_URL", &server.url()))
}

/// What times mean for queues: of delays, and of the order that they make.
const TIMES: &str = "redis::queue::order";

/// And for keys: the ends of leases and results.
fn keys() -> &'static str {
    if is_long() { "redis::" } else { "redis::expiry" }
}

fn queues_of_a_client_an_hour_ahead_go_on_alike() -> Outcome {
    with_wrong_clock(true, TIMES)
}

fn queues_of_a_client_an_hour_behind_go_on_alike() -> Outcome {
    with_wrong_clock(false, TIMES)
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
        .with_queues::<CutQueues>("redis_cut")
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
        .also("clocks::a_client_an_hour_ahead_is_answered_alike", || with_wrong_clock(true, keys()))
        .also("clocks::a_client_an_hour_behind_is_answered_alike", || with_wrong_clock(false, keys()))
        .also(
            "clocks::queues_of_a_client_an_hour_ahead_go_on_alike",
            queues_of_a_client_an_hour_ahead_go_on_alike,
        )
        .also(
            "clocks::queues_of_a_client_an_hour_behind_go_on_alike",
            queues_of_a_client_an_hour_behind_go_on_alike,
        )
        .run()
}
