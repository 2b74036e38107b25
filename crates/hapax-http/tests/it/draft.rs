//! The rules of the draft, one after the other: `docs/http.md` names the test of each.

use crate::support::{Gate, ask, counting, keys, layer, send, user_of, with, within};
use hapax_core::{Clock, Namespace};
use hapax_http::{IdempotencyLayer, Refusal};
use http::{Method, Request, StatusCode};
use std::time::Duration;
use tower::ServiceExt;

#[tokio::test]
async fn a_key_is_a_string_of_a_structured_field() {
    let (app, runs) = counting(layer());
    assert_eq!(send(&app, ask("\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", "")).await.status, 201);
    for bad in ["8e03978e-40d5-43e8-bc93-6894a57f9324", "17", "key", ":YQ==:", "\"a", "(\"a\")", "\"\u{e4}\""]
    {
        let answer = send(&app, ask(bad, "")).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::BAD_REQUEST, "http.key_invalid"));
        assert!(answer.problem()["detail"].as_str().unwrap().contains("between double quotes"), "{bad}");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_lenient_layer_takes_the_same_key_without_quotes() {
    let (app, runs) = counting(layer().lenient());
    for key in ["8e03978e", "\"8e03978e\"", "8e03978e"] {
        assert_eq!(send(&app, ask(key, "")).await.text(), "run 1: ");
    }
    assert_eq!(runs.count(), 1);
    assert_eq!(send(&app, ask("a, b", "")).await.code(), "http.key_invalid");
}

#[tokio::test]
async fn an_empty_a_long_and_a_repeated_key_are_refused() {
    let (app, runs) = counting(layer());
    let detail = async |request| {
        let answer = send(&app, request).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::BAD_REQUEST, "http.key_invalid"));
        answer.problem()["detail"].as_str().unwrap().to_owned()
    };
    assert!(detail(ask("\"\"", "")).await.contains("is empty"));
    assert!(detail(ask("", "")).await.contains("is empty"));
    let long = format!("\"{}\"", "x".repeat(256));
    assert!(detail(ask(&long, "")).await.contains("256 characters: 255 are the most"));
    let twice = with(&[("idempotency-key", "\"a\""), ("idempotency-key", "\"a\"")], "");
    assert!(detail(twice).await.contains("more than once"));
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn the_longest_key_is_a_key() {
    let (app, runs) = counting(layer());
    let keys = ["x".repeat(255), "y".repeat(255), r#"\"\\ {}:#"#.to_owned()].map(|key| format!("\"{key}\""));
    for key in &keys {
        assert_eq!(send(&app, ask(key, "")).await.status, 201);
        assert!(send(&app, ask(key, "")).await.is_replayed());
    }
    assert_eq!(runs.count(), keys.len());
}

#[tokio::test]
async fn a_first_request_is_carried_out_and_a_retry_gets_its_response() {
    let (app, runs) = counting(layer());
    let first = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((first.status, first.text()), (StatusCode::CREATED, "run 1: a"));
    assert!(!first.is_replayed());
    for _ in 0..3 {
        let again = send(&app, ask("\"k\"", "a")).await;
        assert!(again.is_replayed());
        assert_eq!(again.own_headers(), first.own_headers());
        assert_eq!((again.status, &again.body), (first.status, &first.body));
    }
    assert_eq!(send(&app, ask("\"l\"", "a")).await.text(), "run 2: a");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_request_in_flight_is_a_conflict_that_needs_no_correction() {
    let gate = Gate::new();
    let app = gate.routes(layer());
    let first = tokio::spawn(app.clone().oneshot(ask("\"k\"", "a")));
    gate.began().await;
    let second = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((second.status, second.code().as_str()), (StatusCode::CONFLICT, "idempotency.in_flight"));
    assert_eq!(second.header("retry-after"), Some("1"));
    gate.let_go();
    assert_eq!(within(first).await.unwrap().unwrap().status(), 201);
    let third = send(&app, ask("\"k\"", "a")).await;
    assert!(third.is_replayed());
    assert_eq!((third.text(), gate.runs.count()), ("run 1", 1));
}

#[tokio::test]
async fn a_missing_key_is_refused_where_it_is_required_alone() {
    let (app, runs) = counting(layer().required());
    let answer = send(&app, with(&[], "a")).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::BAD_REQUEST, "http.key_missing"));
    assert_eq!(answer.problem()["title"], "Idempotency-Key is missing");
    assert_eq!(runs.count(), 0);

    let (app, runs) = counting(layer());
    for n in 1..=2 {
        let answer = send(&app, with(&[], "a")).await;
        assert_eq!(answer.text(), format!("run {n}: a"), "each is carried out");
        assert_eq!(answer.header("idempotent-expires"), None);
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_key_that_comes_with_another_request_is_refused() {
    let (app, runs) = counting(layer());
    let first = with(&[("idempotency-key", "\"k\""), ("content-type", "text/plain")], "a");
    assert_eq!(send(&app, first).await.status, 201);
    let other = |method: Method, target: &str, kind: &str, body: &str| {
        let request = Request::builder().method(method).uri(target).header("x-user", "ada");
        let request = request.header("idempotency-key", "\"k\"").header("content-type", kind);
        request.body(body.to_owned().into()).unwrap()
    };
    let others = [
        other(Method::POST, "/pay", "text/plain", "b"),
        other(Method::POST, "/pay", "text/plain", ""),
        other(Method::POST, "/pay", "text/html", "a"),
        other(Method::POST, "/pay?x", "text/plain", "a"),
        other(Method::POST, "/other", "text/plain", "a"),
        other(Method::PATCH, "/pay", "text/plain", "a"),
    ];
    for request in others {
        let answer = send(&app, request).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (StatusCode::UNPROCESSABLE_ENTITY, "idempotency.key_reused")
        );
        assert_eq!(answer.header("retry-after"), None);
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_refusal_comes_again_until_the_request_is_corrected() {
    let (app, runs) = counting(layer().required());
    assert_eq!(send(&app, ask("\"k\"", "a")).await.status, 201);
    for (wrong, code) in [
        (("idempotency-key", "\"k\""), "idempotency.key_reused"),
        (("idempotency-key", "k"), "http.key_invalid"),
        (("x-other", "\"k\""), "http.key_missing"),
    ] {
        for _ in 0..2 {
            assert_eq!(send(&app, with(&[wrong], "b")).await.code(), code);
        }
    }
    // What lay under the key is as it was, and the other request goes under a key of its own.
    assert!(send(&app, ask("\"k\"", "a")).await.is_replayed());
    assert_eq!(send(&app, ask("\"l\"", "b")).await.text(), "run 2: b");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn another_request_is_told_from_one_in_flight() {
    let gate = Gate::new();
    let app = gate.routes(layer());
    let first = tokio::spawn(app.clone().oneshot(ask("\"k\"", "a")));
    gate.began().await;
    assert_eq!(send(&app, ask("\"k\"", "b")).await.code(), "idempotency.key_reused");
    gate.let_go();
    assert_eq!(within(first).await.unwrap().unwrap().status(), 201);
}

#[tokio::test]
async fn fields_and_bodies_that_do_not_matter_can_be_left_out() {
    let by_order = |_: &http::request::Parts, body: &bytes::Bytes| {
        hapax_core::Fingerprint::of_bytes(body.split(|byte| *byte == b' ').next().unwrap())
    };
    let (app, _) = counting(layer().fingerprint_with(by_order));
    assert_eq!(send(&app, ask("\"k\"", "o1 sent at 10:00")).await.status, 201);
    assert!(send(&app, ask("\"k\"", "o1 sent at 10:01")).await.is_replayed());
    assert_eq!(send(&app, ask("\"k\"", "o2 sent at 10:02")).await.status, 422);

    let tenant = http::HeaderName::from_static("x-tenant");
    let (app, _) = counting(layer().fingerprint_headers([tenant]));
    let from =
        |tenant| with(&[("idempotency-key", "\"k\""), ("x-tenant", tenant), ("content-type", tenant)], "");
    assert_eq!(send(&app, from("a")).await.status, 201);
    assert_eq!(send(&app, from("b")).await.status, 422);
}

#[tokio::test]
async fn a_key_answers_for_as_long_as_it_was_said() {
    let (keys, clock) = keys();
    let (app, runs) = counting(IdempotencyLayer::new(&keys, user_of).ttl(Duration::from_hours(2)));
    let first = send(&app, ask("\"k\"", "a")).await;
    let date = httpdate::parse_http_date(first.header("idempotent-expires").unwrap()).unwrap();
    let left = i64::try_from(date.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap()
        - clock.now().as_millis();
    assert!((7_199_000..=7_200_000).contains(&left), "{left}");
    clock.advance(Duration::from_hours(1));
    let again = send(&app, ask("\"k\"", "a")).await;
    assert!(again.is_replayed());
    assert_eq!(again.header("idempotent-expires"), first.header("idempotent-expires"));
    clock.advance(Duration::from_hours(1));
    assert_eq!(send(&app, ask("\"k\"", "b")).await.text(), "run 2: b");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_key_belongs_to_its_caller() {
    let (app, runs) = counting(layer());
    let of = |user: &str| {
        let request = Request::post("/pay").header("x-user", user).header("idempotency-key", "\"k\"");
        request.body(user.to_owned().into()).unwrap()
    };
    for user in ["ada", "eve", "a:da", "~ada"] {
        assert_eq!(send(&app, of(user)).await.status, 201, "{user}");
    }
    assert_eq!(send(&app, of("eve")).await.text(), "run 2: eve");
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn caller_and_key_do_not_run_into_each_other() {
    let (app, runs) = counting(layer());
    for (user, key) in [("a:b", "\"c\""), ("a", "\"b:c\""), ("a\\", "\":b:c\"")] {
        let request = Request::post("/pay").header("x-user", user).header("idempotency-key", key);
        assert!(!send(&app, request.body("".into()).unwrap()).await.is_replayed());
    }
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn a_key_of_nobody_is_refused() {
    let (app, runs) = counting(layer());
    for user in [None, Some("")] {
        let request =
            user.into_iter().fold(Request::post("/pay"), |request, user| request.header("x-user", user));
        let request = request.header("idempotency-key", "\"k\"").body("".into()).unwrap();
        let answer = send(&app, request).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::FORBIDDEN, "http.caller_unknown"));
    }
    assert_eq!(runs.count(), 0);
    let (app, _) = counting(IdempotencyLayer::new(&keys().0, |_| "everybody"));
    let request = Request::post("/pay").header("idempotency-key", "\"k\"").body("".into()).unwrap();
    assert_eq!(send(&app, request).await.status, 201);
}

#[tokio::test]
async fn keys_of_two_routes_do_not_meet_where_routes_are_named() {
    let (keys, _) = keys();
    let named =
        |name: &'static str| IdempotencyLayer::new(&keys, user_of).route(move |_| Some(name.to_owned()));
    let (pay, _) = counting(named("pay"));
    let (refund, _) = counting(named("refund"));
    let (unnamed, _) = counting(IdempotencyLayer::new(&keys, user_of));
    for app in [&pay, &refund, &unnamed] {
        assert!(!send(app, ask("\"k\"", "a")).await.is_replayed());
        assert!(send(app, ask("\"k\"", "a")).await.is_replayed());
    }
    let kept =
        keys.keeper().store().list(&hapax_core::idempotency::List::new(Namespace::default())).await.unwrap();
    let scopes: Vec<_> = kept.records.iter().map(|(name, _)| (name.scope(), name.key())).collect();
    assert_eq!(scopes, [("http:pay", "ada:k"), ("http:refund", "ada:k"), ("http:shop", "ada:k")]);
}

#[tokio::test]
async fn methods_that_are_idempotent_by_themselves_pass() {
    let (app, runs) = counting(layer().required());
    let asked = |method: Method| {
        let request = Request::builder().method(method).uri("/pay").header("idempotency-key", "not a key");
        request.body("".into()).unwrap()
    };
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        assert_eq!(send(&app, asked(method)).await.status, 201);
    }
    assert_eq!(runs.count(), 5);
    let (app, _) = counting(layer().methods([Method::PUT]).required());
    assert_eq!(send(&app, asked(Method::PUT)).await.code(), "http.key_invalid");
    assert_eq!(send(&app, asked(Method::POST)).await.status, 201);
}

#[tokio::test]
async fn another_field_can_carry_the_key() {
    let (app, runs) = counting(layer().key_header(http::HeaderName::from_static("x-request-key")).required());
    for _ in 0..2 {
        assert_eq!(send(&app, with(&[("x-request-key", "\"k\"")], "")).await.text(), "run 1: ");
    }
    assert_eq!(send(&app, ask("\"k\"", "")).await.code(), "http.key_missing");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn codes_pages_and_forms_of_refusals_can_be_set() {
    let own = layer()
        .required()
        .status(Refusal::KeyMissing, StatusCode::PRECONDITION_REQUIRED)
        .documentation("https://api.example.com/keys");
    let (app, _) = counting(own.clone());
    let answer = send(&app, with(&[], "")).await;
    assert_eq!(answer.status, 428);
    assert_eq!(answer.problem()["type"], "https://api.example.com/keys#http-key-missing");
    assert_eq!(answer.problem()["status"], 428);
    assert_eq!(
        answer.header("link"),
        Some("<https://api.example.com/keys>; rel=\"describedby\"; type=\"text/html\"")
    );
    let (app, _) = counting(own.problems_as(|problem| {
        let mut response = http::Response::new(format!("no: {}", problem.code).into());
        *response.status_mut() = problem.status;
        response
    }));
    let answer = send(&app, with(&[], "")).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (428, "no: http.key_missing"));
}

#[tokio::test]
async fn types_of_problems_are_what_they_were() {
    let (app, _) = counting(layer().required());
    let base = "https://github.com/hapax-rs/hapax/blob/main/docs/http.md#";
    assert_eq!(send(&app, with(&[], "")).await.problem()["type"], format!("{base}http-key-missing"));
    assert_eq!(send(&app, ask("k", "")).await.problem()["type"], format!("{base}http-key-invalid"));
    send(&app, ask("\"k\"", "a")).await;
    assert_eq!(
        send(&app, ask("\"k\"", "b")).await.problem()["type"],
        format!("{base}idempotency-key-reused")
    );
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_told_at_the_start_and_by_each_request() {
    let keys = keys().0;
    let plain = || IdempotencyLayer::new(&keys, user_of);
    let wrong = [
        (plain().ttl(Duration::ZERO), "1 ms"),
        (plain().unknown_ttl(Duration::from_hours(24 * 401)), "400 days"),
        (plain().lease(Duration::from_millis(999)), "a lease is at least 1 s"),
        (plain().max_key_length(0), "max_key_length is 0: it is 1 to 4096"),
        (plain().max_request_body(1 << 30), "max_request_body is 1073741824: it is 1 to 67108864"),
        (plain().max_response_body(0), "max_response_body is 0"),
        (IdempotencyLayer::new(&keys.with_namespace(""), user_of), "the namespace is empty"),
        (IdempotencyLayer::new(&keys.clone().with_lease(Duration::ZERO), user_of), "a lease is at least 1 s"),
    ];
    for (layer, expected) in wrong {
        let error = layer.clone().check().unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains(expected), "{why}");
        let (app, runs) = counting(layer);
        let answer = send(&app, ask("\"k\"", "")).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (500, "idempotency.invalid"));
        assert_eq!(runs.count(), 0);
    }
    assert!(plain().ttl(Duration::from_hours(48)).wait(Duration::from_secs(1)).check().is_ok());
}
