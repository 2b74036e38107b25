//! What is particular to rate limits on Redis. What all stores of limits promise is in the conformance suite.

use crate::support::{at, open, raw, run};
use hapax_core::{
    Applied, Coded as _, Namespace, StoreErrorKind, Token,
    limit::{Algorithm, Answer, Check, Decide, Decided, LimitKey, LimitStore, Quota},
};
use hapax_redis::RedisLimits;
use hapax_testkit::{
    Fault, Proxy,
    redis::{Redis, SharedCluster},
};
use redis::aio::MultiplexedConnection;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

crate::list!("limits", &["flock"];
    a_decision_is_one_command_over_however_many_limits,
    decisions_of_many_callers_share_commands,
    a_decision_whose_reply_was_lost_is_not_sent_again,
    a_dry_run_touches_nothing,
    a_refused_request_writes_nothing,
    every_key_of_a_limit_has_an_end,
    a_long_window_of_many_requests_is_exact,
    a_state_of_the_future_costs_a_window_at_most,
    large_rates_are_limited,
    what_is_no_limit_is_left_alone,
    a_full_server_says_so,
    too_many_limits_at_once_are_refused,
    the_listed_commands_are_enough_for_limits,
    limits_of_several_names_in_a_cluster_are_best_effort,
    what_another_limit_refused_is_given_back_in_a_cluster,
);

const MINUTE: Duration = Duration::from_mins(1);

async fn limits(url: &str) -> RedisLimits {
    RedisLimits::of(&Arc::new(open(url).await))
}

/// Another run may have used the same servers.
async fn of_a_cluster(cluster: &SharedCluster) -> RedisLimits {
    let prefix = Token::random().unwrap().version();
    limits(&format!("{}?prefix=limits-{prefix}", cluster.url())).await
}

fn quota(algorithm: Algorithm, limit: u32) -> Quota {
    Quota::new(algorithm, limit, MINUTE).unwrap()
}

fn check(key: &str, quota: Quota) -> Check {
    Check::new(LimitKey::new(key).unwrap(), quota)
}

fn each(key: &str, limit: u32) -> Vec<Check> {
    Algorithm::ALL.map(|algorithm| check(key, quota(algorithm, limit))).into()
}

fn request(checks: &[Check]) -> Decide {
    Decide { namespace: Namespace::default(), checks: checks.to_vec(), dry_run: false }
}

async fn decide(store: &RedisLimits, checks: &[Check]) -> Decided {
    store.decide(&request(checks)).await.unwrap()
}

async fn one(store: &RedisLimits, check: &Check) -> Answer {
    decide(store, std::slice::from_ref(check)).await.answers.pop().unwrap()
}

async fn calls(probe: &mut MultiplexedConnection, command: &str) -> u64 {
    let stats: String = run(probe, "INFO commandstats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// All that is kept of limits, as it lies there, with its end.
async fn kept(probe: &mut MultiplexedConnection) -> BTreeMap<String, (Vec<u8>, i64)> {
    let keys: Vec<String> = run(probe, "KEYS hapax{r*").await;
    let mut kept = BTreeMap::new();
    for key in keys {
        let (dump, end) = (
            redis::cmd("DUMP").arg(&key).query_async(probe).await.unwrap(),
            redis::cmd("PEXPIRETIME").arg(&key).query_async(probe).await.unwrap(),
        );
        kept.insert(key, (dump, end));
    }
    kept
}

async fn a_decision_is_one_command_over_however_many_limits() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let checks: Vec<_> = ["a", "b", "c", "d"].iter().flat_map(|key| each(key, 2)).collect();
    let _ = decide(&store, &checks).await;
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let decided = decide(&store, &checks).await;
    assert!(decided.allowed(&checks) && !decided.best_effort);
    assert_eq!(calls(&mut probe, "evalsha").await, 1);
}

async fn decisions_of_many_callers_share_commands() {
    let server = Redis::start();
    let store = Arc::new(limits(&server.url()).await);
    let mut probe = raw(&server.url()).await;
    let _ = decide(&store, &each("warm", 1)).await;
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let asks = (0..512).map(|n| {
        let store = Arc::clone(&store);
        let algorithm = Algorithm::ALL.into_iter().cycle().nth(n % 4).unwrap();
        tokio::spawn(async move { one(&store, &check("k", quota(algorithm, 100))).await.allowed })
    });
    let mut passed = 0;
    for ask in asks.collect::<Vec<_>>() {
        passed += u32::from(ask.await.unwrap());
    }
    assert!((400..=404).contains(&passed), "{passed} passed");
    let sent = calls(&mut probe, "evalsha").await;
    assert!(sent < 256, "{sent} commands for 512 decisions");
}

async fn a_decision_whose_reply_was_lost_is_not_sent_again() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let store = limits(&format!("redis://127.0.0.1:{}?timeout=5s", proxy.port())).await;
    let request_of = check("k", quota(Algorithm::FixedWindow, 5));
    // The server knows the script by then: else the first answer is that it does not.
    assert_eq!(one(&store, &request_of).await.remaining, 4);
    proxy.arm(Fault::CutAfter);
    let error = store.decide(&request(std::slice::from_ref(&request_of))).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    assert_eq!(one(&store, &request_of).await.remaining, 2);
    // A look is.
    let look = Decide { dry_run: true, ..request(std::slice::from_ref(&request_of)) };
    let _ = store.decide(&look).await.unwrap();
    proxy.arm(Fault::CutAfter);
    assert_eq!(store.decide(&look).await.unwrap().answers.first().unwrap().remaining, 1);
    assert_eq!(proxy.happened(), 2);
}

async fn a_dry_run_touches_nothing() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let checks = each("k", 3);
    let look = Decide { dry_run: true, ..request(&checks) };
    let _ = store.decide(&look).await.unwrap();
    assert!(kept(&mut probe).await.is_empty());
    let _ = decide(&store, &checks).await;
    let before = kept(&mut probe).await;
    for _ in 0..5 {
        let _ = store.decide(&look).await.unwrap();
    }
    assert_eq!((kept(&mut probe).await, before.len()), (before, 4));
}

async fn a_refused_request_writes_nothing() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let checks = each("k", 1);
    assert!(decide(&store, &checks).await.allowed(&checks));
    let before = kept(&mut probe).await;
    for _ in 0..5 {
        assert!(!decide(&store, &checks).await.allowed(&checks));
        for one_of in &checks {
            assert!(one(&store, &Check { cost: 9, ..one_of.clone() }).await.never);
        }
    }
    assert_eq!(kept(&mut probe).await, before);
}

async fn every_key_of_a_limit_has_an_end() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    for shadow in [false, true] {
        let checks: Vec<_> = each("k", 3).into_iter().map(|check| Check { shadow, ..check }).collect();
        for _ in 0..2 {
            let _ = decide(&store, &checks).await;
        }
    }
    let keys = kept(&mut probe).await;
    assert_eq!(keys.len(), 8);
    for (key, (_, end)) in keys {
        assert!(end > 0, "{key} has no end");
    }
    // A window that is over leaves nothing.
    let short = Quota::new(Algorithm::SlidingWindow, 3, Duration::from_millis(1)).unwrap();
    assert!(one(&store, &check("short", short)).await.allowed);
    crate::support::until("it is gone", async || {
        run::<Vec<String>>(&mut probe, "KEYS hapax{r*short*").await.is_empty()
    })
    .await;
}

async fn a_long_window_of_many_requests_is_exact() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let of = |cost, limit| Check { cost, ..check("k", quota(Algorithm::SlidingWindow, limit)) };
    let mut sum = 0;
    for cost in (1..=9).cycle().take(300) {
        assert!(one(&store, &of(cost, 2000)).await.allowed);
        sum += cost;
    }
    let left = one(&store, &of(2000, 2000)).await.remaining;
    assert_eq!(left, 2000 - sum);
    assert!(one(&store, &of(left, 2000)).await.allowed);
    let mut waits = Vec::new();
    for cost in [1, 50, 500, 1000, 2000] {
        let answer = one(&store, &of(cost, 2000)).await;
        assert!(!answer.allowed && answer.remaining == 0, "{answer:?}");
        waits.push(answer.retry_after_ms);
    }
    assert!(waits.is_sorted() && *waits.last().unwrap() <= 60_000, "{waits:?}");
}

async fn a_state_of_the_future_costs_a_window_at_most() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let checks = each("k", 1);
    assert!(decide(&store, &checks).await.allowed(&checks));
    // As if the clock had been set back by an hour since.
    let later = r"
        local function later(value, at)
          return string.sub(value, 1, at - 1) .. struct.pack('>i8', struct.unpack('>i8', value, at) + 3600000)
            .. string.sub(value, at + 8)
        end
        for _, key in ipairs(redis.call('KEYS', 'hapax{r*')) do
          if redis.call('TYPE', key).ok == 'list' then
            redis.call('LSET', key, 0, later(redis.call('LINDEX', key, 0), 1))
          else
            redis.call('SET', key, later(redis.call('GET', key), 13))
          end
          redis.call('PEXPIRE', key, 3660000)
        end
        return 0";
    let _: i64 = redis::cmd("EVAL").arg(later).arg(0).query_async(&mut probe).await.unwrap();
    for one_of in &checks {
        let answer = one(&store, one_of).await;
        // The requests of an exact window that cannot have been are forgotten, all others count from now on.
        let is_exact = one_of.quota.algorithm() == Algorithm::SlidingWindow;
        assert_eq!(answer.allowed, is_exact, "{answer:?}");
        assert!(answer.retry_after_ms <= 120_000 && answer.reset_after_ms <= 120_000, "{answer:?}");
    }
    for (key, (_, end)) in kept(&mut probe).await {
        let now: (i64, i64) = run(&mut probe, "TIME").await;
        assert!(end <= (now.0 + 121) * 1000, "{key} was moved to now");
    }
}

async fn large_rates_are_limited() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let day = Duration::from_hours(24);
    for large in [
        Quota::fixed_window(1 << 31, day * 400),
        Quota::sliding_counter(104_000_000, day),
        Quota::sliding_window(10_000, day * 400),
    ] {
        let name = large.to_string();
        let most = Check { cost: large.limit(), ..check(&name, large) };
        assert!(one(&store, &most).await.allowed, "{name}");
        let refused = one(&store, &check(&name, large)).await;
        assert!(!refused.allowed && refused.remaining == 0 && refused.retry_after_ms > 0, "{refused:?}");
    }
    // A million a second: what came in while it was asked is let through, and no more.
    let fast = Quota::token_bucket(1_000_000, Duration::from_secs(1));
    assert!(one(&store, &Check { cost: 1_000_000, ..check("fast", fast) }).await.allowed);
    let answer = one(&store, &Check { cost: 1_000_000, ..check("fast", fast) }).await;
    assert!(answer.allowed || answer.retry_after_ms <= 1000, "{answer:?}");
}

async fn what_is_no_limit_is_left_alone() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "LPUSH hapax{r7:defaultk}f1 x").await;
    let () = run(&mut probe, "SET hapax{r7:defaultk}w1 x").await;
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        let error = store.decide(&request(&[check("k", quota(algorithm, 5))])).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Corrupt, Applied::No), "{error}");
    }
    assert!(one(&store, &check("k", quota(Algorithm::TokenBucket, 5))).await.allowed);
    store.reset(&Namespace::default(), &LimitKey::new("k").unwrap()).await.unwrap();
    assert!(one(&store, &check("k", quota(Algorithm::FixedWindow, 5))).await.allowed);
}

async fn a_full_server_says_so() {
    let server = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
    let store = limits(&server.url()).await;
    let checks = each("k", 5);
    let _ = decide(&store, &checks).await;
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "CONFIG SET maxmemory 1mb").await;
    let error = store.decide(&request(&checks)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("store.full", Applied::No), "{error}");
    let look = Decide { dry_run: true, ..request(&checks) };
    assert!(store.decide(&look).await.unwrap().allowed(&checks));
}

async fn too_many_limits_at_once_are_refused() {
    let server = Redis::start();
    let store = limits(&server.url()).await;
    let many: Vec<_> = (0..5).flat_map(|n| each(&n.to_string(), 5)).collect();
    for checks in [&many[..], &[]] {
        let error = store.decide(&request(checks)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert!(error.to_string().contains("1 to 16"), "{error}");
    }
}

/// As the documentation of the crate lists them.
const COMMANDS: &str =
    "+get +set +del +time +evalsha +eval +llen +lindex +lset +ltrim +rpush +rpop +pexpireat";

async fn the_listed_commands_are_enough_for_limits() {
    let server = Redis::start();
    let keys = "~hapax{}* ~hapax{r*";
    let user = format!("ACL SETUSER ada on >pw resetkeys {keys} resetchannels -@all {COMMANDS}");
    assert!(server.ask(&user).starts_with("+OK"));
    for more in ["", "?protocol=3", "?commands=6.2"] {
        assert!(server.ask("FLUSHALL").starts_with("+OK"));
        let store = limits(&format!("{}{more}", at(&server, "ada:pw"))).await;
        let checks = each("k", 2);
        for expected in [true, true, false] {
            assert_eq!(decide(&store, &checks).await.allowed(&checks), expected);
        }
        store.reset(&Namespace::default(), &LimitKey::new("k").unwrap()).await.unwrap();
        assert!(decide(&store, &checks).await.allowed(&checks));
    }
}

async fn limits_of_several_names_in_a_cluster_are_best_effort() {
    let cluster = SharedCluster::join();
    let store = of_a_cluster(&cluster).await;
    let together = each("together", 3);
    assert!(!decide(&store, &together).await.best_effort);
    let apart = [check("a", quota(Algorithm::FixedWindow, 1)), check("b", quota(Algorithm::TokenBucket, 9))];
    let (first, second) = (decide(&store, &apart).await, decide(&store, &apart).await);
    assert!(first.best_effort && first.allowed(&apart), "{first:?}");
    assert!(second.best_effort && !second.allowed(&apart), "{second:?}");
    let left: Vec<_> = second.answers.iter().map(|answer| (answer.allowed, answer.remaining)).collect();
    assert_eq!(left, [(false, 0), (true, 8)]);
}

async fn what_another_limit_refused_is_given_back_in_a_cluster() {
    let cluster = SharedCluster::join();
    let store = Arc::new(of_a_cluster(&cluster).await);
    for algorithm in Algorithm::ALL {
        let of =
            |key: &str, limit| check(key, Quota::new(algorithm, limit, Duration::from_hours(1000)).unwrap());
        let checks = [of("wide", 1000), of("narrow", 40), of("other", 1000)];
        let asks = (0..200).map(|_| {
            let (store, checks) = (Arc::clone(&store), checks.clone());
            tokio::spawn(async move { decide(&store, &checks).await.allowed(&checks) })
        });
        let mut passed = 0;
        for ask in asks.collect::<Vec<_>>() {
            passed += u32::from(ask.await.unwrap());
        }
        assert_eq!(passed, 40);
        for key in ["wide", "other"] {
            assert_eq!(one(&store, &of(key, 1000)).await.remaining, 1000 - 40 - 1, "{algorithm}");
        }
    }
}
