//! Names, and settings that cannot be used: all faults come out where the call is awaited.

use crate::support::{Calls, DAY, Op, World, ms, secs};
use hapax_core::{Category, Clock, Coded, Retry};
use hapax_engine::{Idempotency, IdempotencyError};
use std::{convert::Infallible, error::Error, time::Duration};

fn assert_invalid<T: std::fmt::Debug>(answer: Result<T, IdempotencyError>, names: &str) {
    let error = answer.unwrap_err();
    assert_eq!((error.code(), error.category()), ("idempotency.invalid", Category::Validation));
    assert_eq!(error.retry(), Retry::Never);
    let why = error.source().unwrap().to_string();
    assert!(why.contains(names), "{why}");
}

#[tokio::test(start_paused = true)]
async fn durations_out_of_bounds_are_invalid() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let call = || idem.run("k", &1, || calls.effect::<Infallible>(7));
    assert_invalid(call().lease(ms(999)).await, "1 s");
    assert_invalid(call().lease(DAY * 401).await, "400 days");
    for duration in [Duration::ZERO, DAY * 400 + ms(1), Duration::MAX] {
        assert_invalid(call().ttl(duration).await, "400 days");
        assert_invalid(call().unknown_ttl(duration).await, "400 days");
    }
    assert_eq!((calls.begun(), world.store.count(Op::Reserve)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn durations_at_their_bounds_are_fine() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let shortest =
        idem.run("a", &1, || calls.effect::<Infallible>(7)).lease(secs(1)).ttl(ms(1)).unknown_ttl(ms(1));
    assert_eq!(shortest.await.unwrap(), Ok(7));
    let longest = idem.run("b", &1, || calls.effect::<Infallible>(7));
    let longest = longest.lease(DAY * 400).ttl(DAY * 400).unknown_ttl(DAY * 400).timeout(Duration::MAX);
    assert_eq!(longest.await.unwrap(), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn names_that_cannot_be_used_are_invalid() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let run = async |idem: &Idempotency, key: &str| idem.run(key, &1, || calls.effect::<Infallible>(7)).await;
    assert_invalid(run(&idem, "").await, "key is empty");
    assert_invalid(run(&idem, &"x".repeat(65_537)).await, "65536");
    let no_scope = Idempotency::on(idem.keeper().clone(), Ok(hapax_core::Namespace::default()), "");
    assert_invalid(run(&no_scope, "k").await, "scope is empty");
    assert_invalid(run(&idem.with_namespace(""), "k").await, "namespace is empty");
    assert_invalid(idem.get("").await, "key is empty");
    assert_invalid(idem.force_release("").await, "key is empty");
    assert_invalid(idem.resolve("").did_not().await, "key is empty");
    assert_eq!((calls.begun(), world.store.count(Op::Reserve)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn request_without_a_stable_form_is_invalid() {
    let (world, calls) = (World::new(), Calls::new());
    let call = world.process().run("k", &[1.0, f64::NAN], || calls.effect::<Infallible>(7)).await;
    assert_invalid(call, "$[1]");
    assert_eq!(calls.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn result_without_a_form_is_no_verdict() {
    let world = World::new();
    assert_invalid(world.process().resolve("k").happened(&f64::NAN).await, "finite");
    assert_invalid(world.process().resolve("k").ttl(Duration::ZERO).happened(&1).await, "400 days");
}

#[tokio::test(start_paused = true)]
async fn settings_of_a_call_go_before_those_of_its_handle() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process().with_lease(secs(10)).with_ttl(secs(100)).with_unknown_ttl(secs(200));
    idem.run("handle", &1, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    idem.run("call", &1, || calls.effect::<Infallible>(7)).ttl(secs(5)).await.unwrap().unwrap();
    let until = async |key| world.record(key).await.unwrap().until.since(world.clock.now());
    assert_eq!((until("handle").await, until("call").await), (secs(100), secs(5)));
    assert_invalid(idem.with_lease(ms(1)).run("k", &1, || calls.effect::<Infallible>(7)).await, "1 s");
}

#[tokio::test(start_paused = true)]
async fn scopes_and_namespaces_keep_their_keys_apart() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let other_scope = Idempotency::on(idem.keeper().clone(), Ok(hapax_core::Namespace::default()), "other");
    let handles = [idem.clone(), idem.with_namespace("other"), other_scope, idem.with_namespace("default")];
    for handle in &handles {
        handle.run("k", &1, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    }
    assert_eq!(calls.begun(), 3, "`default` is the namespace of a handle that names none");
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_key_are_joined_without_meeting() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    for (key, n) in [(["a", "b:c"], 1), (["a:b", "c"], 2), (["a", "b\\:c"], 3), (["", "a:b:c"], 4)] {
        idem.run(key, &1, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
        assert_eq!(calls.begun(), n);
    }
}

#[tokio::test(start_paused = true)]
async fn any_text_is_a_key() {
    let (world, calls) = (World::new(), Calls::new());
    let long = "x".repeat(65_536);
    for key in ["\0", "{a}", "a:b", "\u{1f600}", " ", "#sha256:", &long] {
        for _ in 0..2 {
            world.process().run(key, &1, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
        }
    }
    assert_eq!(calls.begun(), 7);
}

#[tokio::test(start_paused = true)]
async fn order_of_properties_does_not_matter() {
    let (world, calls) = (World::new(), Calls::new());
    for text in [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1.0}"#] {
        let request: serde_json::Value = serde_json::from_str(text).unwrap();
        world.process().run("k", &request, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    }
    assert_eq!(calls.begun(), 1);
}
