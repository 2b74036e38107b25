//! Rate limits in front of a service.

use crate::support::{Answer, Runs, ask, keys, limiter, send, user_of, with};
use async_trait::async_trait;
use axum::{Extension, Router, body::Body, routing::post};
use hapax_core::{
    Namespace, StoreError, StoreErrorKind, StoreResult,
    limit::{Decide, Decided, LimitKey, LimitStore},
};
use hapax_engine::{
    define_limit,
    limit::{Decision, IntoLimits, Limit, Quota, RateLimiter, WhenDown},
};
use hapax_http::{IdempotencyLayer, Legacy, RateLimitLayer, Refusal, client_ip};
use http::{Request, StatusCode, request::Parts};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tower::ServiceExt;

const MINUTE: Duration = Duration::from_mins(1);

define_limit! {
    fn by_ip(ip: IpAddr) = "pay:{ip:ip}", Quota::fixed_window(2, MINUTE);
    fn by_user(user: &str) = "user:{user:text}", Quota::token_bucket(3, Duration::from_secs(30));
    fn site() = "site", Quota::sliding_window(5, Duration::from_hours(1));
}

fn app(layer: RateLimitLayer) -> (Router, Runs) {
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = move || {
        counted.add();
        async { "done" }
    };
    (Router::new().route("/pay", post(handler)).layer(layer), runs)
}

fn limited<L: IntoLimits + 'static>(
    limiter: &RateLimiter,
    limits: impl Fn(&Parts) -> L + Send + Sync + 'static,
) -> (Router, Runs) {
    app(RateLimitLayer::new(limiter, limits))
}

fn from(ip: &str) -> Request<Body> {
    with(&[("x-forwarded-for", ip)], "")
}

fn ip_of(parts: &Parts) -> IpAddr {
    client_ip(parts, None, 1)
}

fn fields(answer: &Answer) -> (Option<&str>, Option<&str>) {
    (answer.header("ratelimit-policy"), answer.header("ratelimit"))
}

#[tokio::test]
async fn requests_pass_until_the_limit_is_reached_and_are_told_what_is_left() {
    let (limiter, clock) = limiter();
    let (app, runs) = limited(&limiter, |parts| by_ip(ip_of(parts)));
    let first = send(&app, from("203.0.113.7")).await;
    assert_eq!((first.status, first.text()), (StatusCode::OK, "done"));
    assert_eq!(fields(&first), (Some("\"by_ip\";q=2;w=60"), Some("\"by_ip\";r=1;t=60")));
    assert_eq!(first.header("retry-after"), None);
    send(&app, from("203.0.113.7")).await;
    clock.advance(Duration::from_millis(10_500));
    let third = send(&app, from("203.0.113.7")).await;
    assert_eq!((third.status.as_u16(), third.code().as_str()), (429, "limit.limited"));
    assert_eq!(fields(&third), (Some("\"by_ip\";q=2;w=60"), Some("\"by_ip\";r=0;t=50")));
    assert_eq!(third.header("retry-after"), Some("50"), "whole seconds, rounded up");
    let problem = third.problem();
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(problem["violated-policies"], serde_json::json!(["by_ip"]));
    assert_eq!(send(&app, from("203.0.113.8")).await.status, 200, "another address");
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn who_waits_for_retry_after_passes() {
    let (limiter, clock) = limiter();
    for limit in [by_user("ada"), site(), by_ip("203.0.113.7".parse().unwrap())] {
        let (app, _) = limited(&limiter, move |_: &Parts| limit.clone());
        let refused = loop {
            let answer = send(&app, with(&[], "")).await;
            clock.advance(Duration::from_millis(333));
            if answer.status == 429 {
                break answer;
            }
        };
        let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(seconds >= 1);
        clock.advance(Duration::from_secs(seconds).saturating_sub(Duration::from_millis(333)));
        assert_eq!(send(&app, with(&[], "")).await.status, 200);
    }
}

#[tokio::test]
async fn a_request_that_one_limit_refuses_takes_nothing_of_the_others() {
    let (limiter, _) = limiter();
    let (app, runs) = limited(&limiter, |parts| [by_ip(ip_of(parts)), by_user("ada"), site()]);
    for _ in 0..10 {
        send(&app, from("203.0.113.7")).await;
    }
    assert_eq!(runs.count(), 2);
    // Two of three and two of five are taken, not more.
    let other = send(&app, from("203.0.113.8")).await;
    assert_eq!(other.status, 200);
    let (policies, rests) = fields(&other);
    assert_eq!(policies, Some("\"by_ip\";q=2;w=60, \"by_user\";q=3;w=30, \"site\";q=5;w=3600"));
    assert_eq!(rests, Some("\"by_ip\";r=1;t=60, \"by_user\";r=0;t=10, \"site\";r=2;t=3600"));
    let refused = send(&app, from("203.0.113.7")).await;
    assert_eq!(refused.problem()["violated-policies"], serde_json::json!(["by_ip", "by_user"]));
    assert_eq!(refused.header("retry-after"), Some("60"), "the longest of those that refuse");
}

#[tokio::test]
async fn a_request_that_is_limited_does_not_take_its_key() {
    let (limiter, clock) = limiter();
    let (keys, _) = keys();
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = move || {
        let n = counted.add();
        async move { format!("run {n}") }
    };
    let app = Router::new()
        .route("/pay", post(handler).layer(IdempotencyLayer::new(&keys, user_of)))
        .layer(RateLimitLayer::new(&limiter, |parts| by_ip(ip_of(parts))));
    let asked = |key| with(&[("idempotency-key", key), ("x-forwarded-for", "203.0.113.7")], "a");
    assert_eq!(send(&app, asked("\"a\"")).await.text(), "run 1");
    // A replay is a request, too, and has the fields of its own time.
    let replay = send(&app, asked("\"a\"")).await;
    assert!(replay.is_replayed());
    assert_eq!(replay.header("ratelimit"), Some("\"by_ip\";r=0;t=60"));
    assert_eq!(replay.headers.get_all("ratelimit").iter().count(), 1);
    assert_eq!(send(&app, asked("\"b\"")).await.status, 429);
    clock.advance(MINUTE);
    let later = send(&app, asked("\"b\"")).await;
    assert_eq!((later.text(), later.is_replayed()), ("run 2", false));
}

#[tokio::test]
async fn a_request_without_a_limit_passes() {
    let (limiter, _) = limiter();
    let of = |parts: &Parts| parts.headers.contains_key("x-forwarded-for").then(|| by_ip(ip_of(parts)));
    let (app, runs) = limited(&limiter, of);
    for _ in 0..5 {
        let answer = send(&app, with(&[], "")).await;
        assert_eq!((answer.status.as_u16(), fields(&answer)), (200, (None, None)));
    }
    assert_eq!(fields(&send(&app, from("203.0.113.7")).await).1, Some("\"by_ip\";r=1;t=60"));
    assert_eq!(runs.count(), 6);
}

#[tokio::test]
async fn addresses_of_ipv6_count_by_their_network_and_lies_count_for_nothing() {
    let (limiter, _) = limiter();
    let (app, _) = limited(&limiter, |parts| by_ip(ip_of(parts)));
    for ip in ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2"] {
        assert_eq!(send(&app, from(ip)).await.status, 200);
    }
    assert_eq!(send(&app, from("[2001:db8:0:1::3]:443")).await.status, 429);
    assert_eq!(send(&app, from("2001:db8:0:2::1")).await.status, 200);
    // What the client writes in front of the proxy's entry changes nothing.
    for lie in ["1.1.1.1", "2.2.2.2", "3.3.3.3"] {
        assert_eq!(send(&app, from(&format!("{lie}, 2001:db8:0:1::4"))).await.status, 429);
    }
}

#[tokio::test]
async fn the_older_fields_are_written_where_they_are_asked_for() {
    let (limiter, _) = limiter();
    let old = |answer: &Answer, prefix: &str| -> Vec<Option<String>> {
        let name = |end: &&str| answer.header(&format!("{prefix}ratelimit-{end}")).map(str::to_owned);
        ["limit", "remaining", "reset"].iter().map(name).collect()
    };
    let some = |texts: [&str; 3]| texts.map(|text| Some(text.to_owned())).to_vec();
    let user: fn(&Parts) -> Limit = |_| by_user("ada");
    let (plain, _) = app(RateLimitLayer::new(&limiter, user).legacy(Legacy::Plain));
    assert_eq!(old(&send(&plain, with(&[], "")).await, ""), some(["3", "2", "10"]));
    let (x, _) = app(RateLimitLayer::new(&limiter, user).legacy(Legacy::X));
    let answer = send(&x, with(&[], "")).await;
    assert_eq!((old(&answer, "x-"), old(&answer, "")), (some(["3", "1", "20"]), vec![None; 3]));
    let (none, _) = limited(&limiter, user);
    let answer = send(&none, with(&[], "")).await;
    assert_eq!((old(&answer, "x-"), old(&answer, "")), (vec![None; 3], vec![None; 3]));
}

#[tokio::test]
async fn layers_add_to_the_lists_of_each_other() {
    let (limiter, _) = limiter();
    let (inner, _) = limited(&limiter, |_| by_user("ada"));
    let app = inner.layer(RateLimitLayer::new(&limiter, |_| site()));
    let answer = send(&app, with(&[], "")).await;
    let policies: Vec<_> = answer.headers.get_all("ratelimit-policy").iter().collect();
    assert_eq!(policies, ["\"by_user\";q=3;w=30", "\"site\";q=5;w=3600"]);
}

#[tokio::test]
async fn a_cost_can_be_above_the_limit_and_then_never_passes() {
    let (limiter, _) = limiter();
    let cost = |parts: &Parts| parts.headers["x-cost"].to_str().unwrap().parse().unwrap();
    let (app, runs) = app(RateLimitLayer::new(&limiter, |_| by_user("ada")).cost(cost));
    let answer = send(&app, with(&[("x-cost", "4")], "")).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (429, "limit.never"));
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(fields(&send(&app, with(&[("x-cost", "3")], "")).await).1, Some("\"by_user\";r=0;t=10"));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn shadows_let_pass_and_are_seen_where_they_are_asked_for() {
    let (limiter, _) = limiter();
    let both = |_: &Parts| [by_user("ada").shadow(), site()];
    let (quiet, _) = limited(&limiter, both);
    let (telling, runs) = app(RateLimitLayer::new(&limiter, both).show_shadows());
    for _ in 0..3 {
        assert_eq!(send(&telling, with(&[], "")).await.header("ratelimit-shadow"), None);
    }
    let answer = send(&telling, with(&[], "")).await;
    assert_eq!((answer.status.as_u16(), answer.header("ratelimit-shadow")), (200, Some("\"by_user\"")));
    assert_eq!(fields(&answer).0, Some("\"site\";q=5;w=3600"));
    let answer = send(&quiet, with(&[], "")).await;
    assert_eq!((answer.status.as_u16(), answer.header("ratelimit-shadow")), (200, None));
    assert_eq!(runs.count(), 4);
    // A whole layer in the shadow.
    let (shadowed, _) = app(RateLimitLayer::new(&limiter, |_| site()).shadow());
    for _ in 0..8 {
        assert_eq!(send(&shadowed, with(&[], "")).await.status, 200);
    }
}

#[tokio::test]
async fn the_decision_is_there_for_the_handler_and_for_what_stands_outside() {
    let (limiter, _) = limiter();
    let handler = async |Extension(decision): Extension<Decision>| format!("{} left", decision.remaining());
    let layer = RateLimitLayer::new(&limiter, |_| by_user("ada"));
    let app: Router = Router::new().route("/pay", post(handler)).layer(layer);
    let response = app.clone().oneshot(with(&[], "")).await.unwrap();
    assert_eq!(response.extensions().get::<Decision>().unwrap().remaining(), 2);
    assert_eq!(send(&app, with(&[], "")).await.text(), "1 left");
}

/// A store that cannot be reached.
#[derive(Debug)]
struct Gone;

#[async_trait]
impl LimitStore for Gone {
    async fn decide(&self, _: &Decide) -> StoreResult<Decided> {
        Err(StoreError::new(StoreErrorKind::Unavailable, "gone", "decide", "nobody is there"))
    }
    async fn reset(&self, _: &Namespace, _: &LimitKey) -> StoreResult<()> {
        Ok(())
    }
    async fn prune(&self, _: usize) -> StoreResult<usize> {
        Ok(0)
    }
}

#[tokio::test]
async fn a_store_that_is_down_is_answered_as_the_service_says_and_seen() {
    let gone = RateLimiter::new(Arc::new(Gone));
    let (plain, runs) = limited(&gone, |_| site());
    let answer = send(&plain, with(&[], "")).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "limit.store_failed"));
    assert_eq!((answer.header("retry-after"), runs.count()), (Some("1"), 0));

    let with_answer = |down| app(RateLimitLayer::new(&gone, |_| site()).when_down(down)).0;
    let open = send(&with_answer(WhenDown::Open), with(&[], "")).await;
    assert_eq!((open.status.as_u16(), open.header("ratelimit-degraded")), (200, Some("open")));
    let closed = send(&with_answer(WhenDown::Closed), with(&[], "")).await;
    assert_eq!((closed.status.as_u16(), closed.code().as_str()), (503, "limit.limited"));
    assert_eq!(
        (closed.header("ratelimit-degraded"), closed.header("retry-after")),
        (Some("closed"), Some("1"))
    );
    let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(closed.problem()["type"], kind);
    // Each of two processes has half of five.
    let local = with_answer(WhenDown::local(2));
    let statuses = [
        send(&local, with(&[], "")).await,
        send(&local, with(&[], "")).await,
        send(&local, with(&[], "")).await,
    ];
    assert_eq!(statuses.each_ref().map(|answer| answer.status.as_u16()), [200, 200, 429]);
    assert!(statuses.iter().all(|answer| answer.header("ratelimit-degraded") == Some("local")));
}

#[tokio::test]
async fn a_limit_that_cannot_be_used_is_an_error_of_the_service() {
    let (limiter, _) = limiter();
    let (app, runs) = limited(&limiter, |_| [site(), site()]);
    let answer = send(&app, ask("\"k\"", "")).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str(), runs.count()), (500, "limit.invalid", 0));
}

#[tokio::test]
async fn refusals_of_limits_can_be_told_in_another_way() {
    let (limiter, _) = limiter();
    let layer = RateLimitLayer::new(&limiter, |_| by_user("ada"))
        .status(Refusal::Limited, StatusCode::SERVICE_UNAVAILABLE)
        .documentation("https://api.example.com/limits")
        .problems_as(|problem| {
            let mut response = http::Response::new(problem.violated_policies.join(",").into());
            *response.status_mut() = problem.status;
            response
        });
    let (app, _) = app(layer);
    for _ in 0..3 {
        send(&app, with(&[], "")).await;
    }
    let refused = send(&app, with(&[], "")).await;
    assert_eq!((refused.status.as_u16(), refused.text()), (503, "by_user"));
    assert_eq!(refused.header("retry-after"), Some("10"), "the fields are there all the same");
}
