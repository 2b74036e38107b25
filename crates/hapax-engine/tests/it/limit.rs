//! Rate limits over memory, and over a store that cannot be reached.

use crate::support::{Logs, PausedClock, ms, secs};
use async_trait::async_trait;
use futures_util::FutureExt;
use hapax_core::{
    Backend, Coded, Namespace, StoreError, StoreErrorKind, StoreResult,
    limit::{Decide, Decided, LimitKey, LimitStore},
    memory::{MemoryLimits, MemoryStore},
};
use hapax_engine::{
    define_limit,
    limit::{
        Degraded, Limit, LimitError, Quota, RateLimiter, Secret, WhenDown,
        headers::{Legacy, headers, retry_after},
    },
};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tracing::Level;

const MINUTE: Duration = Duration::from_mins(1);

define_limit! {
    /// Five tries a minute from one address.
    fn login_by_ip(ip: IpAddr) = "login:{ip:ip}", Quota::sliding_window(5, MINUTE);
    fn login_by_user(user: Secret<&str>) = "login:{user:secret}", Quota::token_bucket(2, MINUTE);
    fn by_pair(a: &str, b: &str) = "{a:text}:{b:text}", Quota::fixed_window(1, MINUTE);
    fn by_number(n: u64) = "n{n:int}", Quota::fixed_window(1, MINUTE);
    fn site() = "site", Quota::sliding_counter(100, MINUTE);
}

fn limiter() -> RateLimiter {
    on(Arc::new(MemoryLimits::new(Arc::new(PausedClock::new()))))
}

fn on(store: Arc<dyn LimitStore>) -> RateLimiter {
    let clock = Arc::new(PausedClock::new());
    let keys = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
    RateLimiter::of(&Backend::new("memory", keys).with_limits(store).with_clock(clock), secs(5))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A store that is not there.
#[derive(Debug)]
struct Gone(StoreErrorKind);

#[async_trait]
impl LimitStore for Gone {
    async fn decide(&self, _: &Decide) -> StoreResult<Decided> {
        Err(StoreError::new(self.0, "gone", "decide", "it is not there"))
    }
    async fn reset(&self, _: &Namespace, _: &LimitKey) -> StoreResult<()> {
        Err(StoreError::new(self.0, "gone", "reset", "it is not there"))
    }
    async fn prune(&self, _: usize) -> StoreResult<usize> {
        Ok(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_says_and_a_require_refuses() {
    let limits = limiter();
    for left in (0..5).rev() {
        let decision = limits.check(login_by_ip(ip("203.0.113.7"))).await.unwrap();
        assert!(decision.allowed() && decision.remaining() == left);
    }
    let refused = limits.check(login_by_ip(ip("203.0.113.7"))).await.unwrap();
    assert!(!refused.allowed() && refused.retry_after() == MINUTE && !refused.never());
    assert_eq!(refused.violated().collect::<Vec<_>>(), ["login_by_ip"]);
    let error = limits.require(login_by_ip(ip("203.0.113.7"))).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), ("limit.limited", hapax_core::Retry::After(MINUTE)));
    let permit = limits.require(login_by_ip(ip("203.0.113.8"))).await.unwrap();
    assert_eq!(permit.decision().limit(), 5);
    limits.reset(&login_by_ip(ip("203.0.113.7"))).await.unwrap();
    assert!(limits.check(login_by_ip(ip("203.0.113.7"))).await.unwrap().allowed());
}

#[tokio::test(start_paused = true)]
async fn a_decision_in_memory_is_there_at_the_first_poll() {
    let decision = limiter().check(site()).now_or_never().expect("it had to wait");
    assert!(decision.unwrap().allowed());
}

#[tokio::test(start_paused = true)]
async fn several_limits_count_together_or_not_at_all() {
    let limits = limiter();
    let ask = || [login_by_ip(ip("::1")), login_by_user(Secret("ada")), site()];
    for _ in 0..2 {
        limits.require_all(ask()).await.unwrap();
    }
    let refused = limits.check_all(ask()).await.unwrap();
    assert_eq!(refused.violated().collect::<Vec<_>>(), ["login_by_user"]);
    assert_eq!((refused.limit(), refused.remaining(), refused.retry_after()), (2, 0, secs(30)));
    let left: Vec<_> = refused.policies().iter().map(|policy| policy.answer.remaining).collect();
    assert_eq!(left, [3, 0, 98]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_nothing_and_a_cost_counts_so_much() {
    let limits = limiter();
    let dry = limits.check(site()).cost(60).dry_run().await.unwrap();
    assert!(dry.allowed() && dry.dry_run() && dry.remaining() == 40 && dry.cost() == 60);
    assert_eq!(limits.check(site()).cost(60).await.unwrap().remaining(), 40);
    let never = limits.require(site()).cost(101).await.unwrap_err();
    assert_eq!((never.code(), never.retry()), ("limit.never", hapax_core::Retry::Never));
}

#[tokio::test(start_paused = true)]
async fn a_shadow_is_seen_and_lets_everything_pass() {
    let limits = limiter();
    for n in 0..4 {
        let decision = limits.check_all([site(), by_pair("a", "b").shadow()]).await.unwrap();
        assert!(decision.allowed());
        assert_eq!(decision.would_violate().collect::<Vec<_>>().is_empty(), n == 0);
        assert!(headers(&decision, Legacy::None).iter().all(|(_, value)| !value.contains("by_pair")));
    }
    let alone = limits.check(by_pair("a", "b")).shadow().await.unwrap();
    assert!(alone.allowed() && alone.would_violate().count() == 1);
    assert!(limits.check(by_pair("a", "b")).await.unwrap().allowed(), "the real one has counted nothing");
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_let_through_when_told() {
    let clock = PausedClock::new();
    let limits = on(Arc::new(MemoryLimits::new(Arc::new(clock))));
    for _ in 0..2 {
        limits.require(login_by_user(Secret("ada"))).await.unwrap();
    }
    let started = tokio::time::Instant::now();
    let permit = limits.require(login_by_user(Secret("ada"))).wait(MINUTE).await.unwrap();
    assert!((secs(30)..secs(31)).contains(&started.elapsed()), "{:?}", started.elapsed());
    assert!(permit.decision().allowed());
    let never = limits.check(login_by_user(Secret("ada"))).cost(3).wait(MINUTE).now_or_never();
    assert!(never.expect("it waits for what never comes").unwrap().never());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_answered_as_it_was_said() {
    let limits = on(Arc::new(Gone(StoreErrorKind::Unavailable)));
    let error = limits.check(site()).await.unwrap_err();
    assert_eq!(error.code(), "limit.store_failed");

    let (logs, _guard) = Logs::capture();
    let open = limits.when_down(WhenDown::Open).check(site()).await.unwrap();
    assert!(open.allowed() && open.degraded() == Some(Degraded::Open));
    assert_eq!(logs.levels("limit.degraded"), [Level::WARN]);
    let closed = limits.check(site()).when_down(WhenDown::Closed).await.unwrap();
    assert!(!closed.allowed() && closed.degraded() == Some(Degraded::Closed));
    assert_eq!(retry_after(&closed), Some(1));

    let local = limits.when_down(WhenDown::local(25));
    let mut passed = 0;
    for _ in 0..10 {
        let decision = local.check(site()).await.unwrap();
        assert_eq!(decision.degraded(), Some(Degraded::Local));
        passed += u32::from(decision.allowed());
    }
    assert_eq!(passed, 4, "its share of 100");

    let unable = on(Arc::new(Gone(StoreErrorKind::Unsupported))).when_down(WhenDown::Open);
    assert!(matches!(unable.check(site()).await, Err(LimitError::StoreFailed { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_says_so() {
    let limits = limiter();
    let error = limits.check(site()).cost(0).await.unwrap_err();
    assert!(error.to_string().contains("dry_run"), "{error}");
    let error = limits.check_all([site(), site()]).await.unwrap_err();
    assert!(error.to_string().contains("twice"), "{error}");
    for count in [0, 17] {
        let many: Vec<_> = (0..count).map(by_number).collect();
        assert_eq!(limits.check_all(many).await.unwrap_err().code(), "limit.invalid");
    }
    assert_eq!(
        limits.check(Limit::new("", Quota::fixed_window(1, MINUTE))).await.unwrap_err().code(),
        "limit.invalid"
    );
}

#[test]
fn names_of_limits_do_not_meet() {
    let name = |limit: Limit| limit.key().unwrap().as_str().to_owned();
    assert_ne!(name(by_pair("a:b", "c")), name(by_pair("a", "b:c")));
    assert_eq!(name(by_pair("a:b", "c")), "a%3Ab:c");
    assert_eq!(name(login_by_ip(ip("192.0.2.1"))), "login:192.0.2.1");
    assert_eq!(name(login_by_ip(ip("::ffff:192.0.2.1"))), "login:192.0.2.1");
    assert_eq!(name(login_by_ip(ip("2001:db8::1"))), name(login_by_ip(ip("2001:db8::2"))));
    assert_ne!(name(login_by_ip(ip("2001:db8:0:1::1"))), name(login_by_ip(ip("2001:db8::1"))));
    let secret = name(login_by_user(Secret("ada@example.com")));
    assert!(!secret.contains("ada") && secret.len() == "login:~".len() + 32);
    assert!(name(by_pair(&"x".repeat(2000), "y")).len() < 100, "long names are hashed");
    assert_eq!(name(by_number(7)), "n7");
}

#[tokio::test(start_paused = true)]
async fn headers_say_what_is_left_and_when_there_is_more() {
    let limits = limiter();
    let ask = || [login_by_ip(ip("::1")), login_by_user(Secret("ada"))];
    let passed = limits.check_all(ask()).await.unwrap();
    let plain = |fields: Vec<(&'static str, String)>| {
        fields.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
    };
    assert_eq!(
        plain(headers(&passed, Legacy::None)),
        [
            r#"RateLimit-Policy: "login_by_ip";q=5;w=60, "login_by_user";q=2;w=60"#,
            r#"RateLimit: "login_by_ip";r=4;t=60, "login_by_user";r=1;t=30"#,
        ]
    );
    let _ = limits.check_all(ask()).await.unwrap();
    tokio::time::sleep(ms(100)).await;
    let refused = limits.check_all(ask()).await.unwrap();
    assert_eq!(
        plain(headers(&refused, Legacy::X))[1..],
        [
            r#"RateLimit: "login_by_ip";r=3;t=60, "login_by_user";r=0;t=30"#,
            "X-RateLimit-Limit: 2",
            "X-RateLimit-Remaining: 0",
            "X-RateLimit-Reset: 60",
            "Retry-After: 30",
        ]
    );
    assert_eq!(headers(&refused, Legacy::Plain)[2].0, "RateLimit-Limit");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_retry_after_is_long_enough_and_never_no_time() {
    let limits = limiter();
    let quotas = [
        Quota::fixed_window(3, ms(700)),
        Quota::sliding_window(3, ms(1300)),
        Quota::sliding_counter(3, ms(900)),
        Quota::token_bucket(3, ms(2100)),
    ];
    for quota in quotas {
        let limit = || Limit::new("k", quota).policy("ü \"k\"");
        for _ in 0..20 {
            let decision = limits.check(limit()).await.unwrap();
            assert!(headers(&decision, Legacy::None)[0].1.starts_with(r#""? \"k\"";q=3"#));
            match retry_after(&decision) {
                None => assert!(decision.allowed()),
                Some(after) => {
                    assert!(after >= 1);
                    tokio::time::sleep(secs(after)).await;
                    assert!(limits.check(limit()).await.unwrap().allowed(), "{quota} after {after} s");
                }
            }
            tokio::time::sleep(ms(130)).await;
        }
    }
}
