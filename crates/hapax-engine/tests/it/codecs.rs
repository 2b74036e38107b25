//! How results are kept and read again, and how fingerprints of other versions are met.

use crate::support::{Calls, Failure, Fault, LEASE, Logs, Op, State, World, receipt};
use bytes::Bytes;
use hapax_core::{BoxError, Coded, Fingerprint, stable_hash};
use hapax_engine::{Codec, EffectExt, IdempotencyError, Json};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, convert::Infallible, error::Error, fmt::Write as _, time::Duration};
use tracing::Level;

/// Not serde: only its codec knows its form.
#[derive(Debug, PartialEq, Clone)]
struct Charge(u64);

#[derive(Clone)]
struct LittleEndian;

impl Codec<Charge> for LittleEndian {
    const NAME: &'static str = "le/1";
    fn encode(&self, charge: &Charge) -> Result<Bytes, BoxError> {
        match charge.0 {
            0 => Err("nothing was charged".into()),
            cents => Ok(Bytes::copy_from_slice(&cents.to_le_bytes())),
        }
    }
    fn decode(&self, bytes: &[u8]) -> Result<Charge, BoxError> {
        Ok(Charge(u64::from_le_bytes(bytes.try_into()?)))
    }
}

fn why(error: &IdempotencyError) -> String {
    assert_eq!(error.code(), "idempotency.unreadable");
    error.source().unwrap().to_string()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    id: String,
    lines: Vec<(String, u64)>,
    note: Option<String>,
    by_country: BTreeMap<String, i64>,
}

#[tokio::test(start_paused = true)]
async fn json_gives_back_what_it_was_given() {
    let world = World::new();
    let given = Receipt {
        id: "ch_1 \u{1f600} \0".into(),
        lines: vec![("a\"b".into(), u64::MAX)],
        note: None,
        by_country: BTreeMap::from([("de".into(), i64::MIN)]),
    };
    let run = async || world.process().run("k", &1, async || Ok::<_, Infallible>(given.clone())).await;
    assert_eq!((run().await.unwrap(), run().await.unwrap()), (Ok(given.clone()), Ok(given.clone())));
}

#[tokio::test(start_paused = true)]
async fn unit_results_are_replayed() {
    let (world, calls) = (World::new(), Calls::new());
    for _ in 0..2 {
        let effect = async || calls.effect::<Infallible>(1).await.map(|_| ());
        world.process().run("k", &1, effect).await.unwrap().unwrap();
    }
    assert_eq!(calls.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn codec_of_your_own_keeps_any_type() {
    let world = World::new();
    let idem = world.process().with_codec(LittleEndian);
    for charged in [4200, 1] {
        let call = idem.run("k", Fingerprint::ANY, async || Ok::<_, Infallible>(Charge(charged))).await;
        assert_eq!(call.unwrap(), Ok(Charge(4200)));
    }
    let expected = ("le/1".into(), String::from_utf8_lossy(&4200u64.to_le_bytes()).into_owned());
    assert_eq!(receipt(&world.record("k").await.unwrap()), expected);
}

#[tokio::test(start_paused = true)]
async fn receipt_of_another_codec_is_held_and_never_run() {
    let (world, calls) = (World::new(), Calls::new());
    let other = world.process().with_codec(LittleEndian);
    other.run("k", &1, async || Ok::<_, Infallible>(Charge(1))).await.unwrap().unwrap();
    let error = world.process().run("k", &1, || calls.effect::<Infallible>(7)).await.unwrap_err();
    assert!(why(&error).contains("le/1") && why(&error).contains("json/1"), "{}", why(&error));
    assert_eq!((calls.begun(), world.state("k").await), (0, State::Done));
}

#[tokio::test(start_paused = true)]
async fn receipt_of_another_type_is_held_and_never_run() {
    let (world, calls) = (World::new(), Calls::new());
    let text = async || Ok::<_, Infallible>("text".to_owned());
    world.process().run("k", &1, text).await.unwrap().unwrap();
    let error = world.process().run("k", &1, || calls.effect::<Infallible>(7)).await.unwrap_err();
    assert!(why(&error).contains("string"), "{}", why(&error));
    assert_eq!((calls.begun(), world.state("k").await), (0, State::Done));
}

#[tokio::test(start_paused = true)]
async fn result_without_a_form_is_done_and_unreadable() {
    let (world, calls) = (World::new(), Calls::new());
    let run = async || {
        let effect = async || calls.effect::<Infallible>(0).await.map(|cents| Charge(cents.into()));
        world.process().with_codec(LittleEndian).run("k", &1, effect).await
    };
    assert_eq!(run().await.unwrap(), Ok(Charge(0)), "the caller has its result");
    assert_eq!(receipt(&world.record("k").await.unwrap()).0, "hapax.unencodable/1");
    let error = run().await.unwrap_err();
    assert!(why(&error).contains("nothing was charged"), "{}", why(&error));
    assert_eq!((calls.begun(), world.state("k").await), (1, State::Done));
}

#[tokio::test(start_paused = true)]
async fn result_that_the_store_never_takes_is_done_and_unreadable() {
    let (world, calls) = (World::new(), Calls::new());
    let (logs, _capturing) = Logs::capture();
    // The call, and the first try behind its back.
    world.store.next(Op::Complete, Fault::Unsupported);
    world.store.next(Op::Complete, Fault::Unsupported);
    let idem = world.process();
    let value = idem.run("k", &1, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    assert_eq!(value, 7, "the caller has its result");
    assert!(idem.keeper().close(Duration::from_secs(5)).await.is_clean());
    assert_eq!(logs.levels("idempotency.unreadable"), [Level::WARN]);
    assert_eq!(receipt(&world.record("k").await.unwrap()).0, "hapax.unencodable/1");
    let error = world.process().run("k", &1, || calls.effect::<Infallible>(8)).await.unwrap_err();
    assert!(why(&error).contains("too large"), "{}", why(&error));
    assert_eq!((calls.begun(), world.state("k").await), (1, State::Done));
}

#[tokio::test(start_paused = true)]
async fn number_that_json_would_turn_into_null_is_unencodable() {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (world, calls) = (World::new(), Calls::new());
        let run = async || {
            let effect = async || calls.effect::<Infallible>(1).await.map(|_| vec![1.0, number]);
            world.process().run("k", &1, effect).await
        };
        assert!(!run().await.unwrap().unwrap()[1].is_finite());
        let error = run().await.unwrap_err();
        assert!(why(&error).contains("$[1]"), "{}", why(&error));
        assert_eq!(calls.begun(), 1);
    }
    assert!(Codec::<f64>::encode(&Json, &f64::NAN).is_err());
}

#[tokio::test(start_paused = true)]
async fn batch_with_a_result_without_a_form_says_so_on_replay() {
    let world = World::new();
    let idem = world.process().with_codec(LittleEndian);
    let run = async || {
        let effect = async |cents: u64| Ok::<_, Infallible>(Charge(cents));
        idem.run_many([0u64, 5], |cents| format!("k{cents}"), effect).await
    };
    assert_eq!(run().await[0].as_ref().unwrap(), &Ok(Charge(0)));
    let again = run().await;
    assert_eq!(again[0].as_ref().unwrap_err().code(), "idempotency.unreadable");
    assert_eq!(again[1].as_ref().unwrap(), &Ok(Charge(5)));
}

#[tokio::test(start_paused = true)]
async fn fingerprint_of_a_newer_version_counts_as_equal_and_warns_once() {
    let (world, calls) = (World::new(), Calls::new());
    let idem = world.process();
    let (logs, guard) = Logs::capture();
    for key in ["a", "b"] {
        world.dead_owner(key, Fingerprint::from_digest(99, [7; 32]), LEASE).await;
        let error = idem.run(key, &1, || calls.effect::<Infallible>(7)).await.unwrap_err();
        assert_eq!(error.code(), "idempotency.in_flight");
    }
    drop(guard);
    assert_eq!(logs.levels("idempotency.fingerprint_unknown"), [Level::WARN]);
}

#[tokio::test(start_paused = true)]
async fn any_accepts_whatever_was_asked_before() {
    let (world, calls) = (World::new(), Calls::new());
    world.process().run("k", &1, || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    let again = world.process().run("k", Fingerprint::ANY, || calls.effect::<Infallible>(8)).await;
    assert_eq!((again.unwrap(), calls.begun()), (Ok(7), 1));
}

#[tokio::test(start_paused = true)]
async fn fingerprint_may_be_made_beforehand() {
    let (world, calls) = (World::new(), Calls::new());
    let order = ("o1", 4200);
    world.process().run("k", stable_hash(&order), || calls.effect::<Infallible>(7)).await.unwrap().unwrap();
    let again = world.process().run("k", &order, || calls.effect::<Infallible>(8)).await;
    assert_eq!(again.unwrap(), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn errors_and_logs_hide_key_and_result() {
    let world = World::new();
    let idem = world.process();
    let (logs, guard) = Logs::capture();
    let mut told = String::new();
    for _ in 0..2 {
        let effect = || std::future::ready(Err::<String, _>(Failure("a failure"))).always_unknown();
        let call = idem.run("ada@example.com", "s3cret", effect);
        write!(told, "{call:?}").unwrap();
        write!(told, "{:?}", call.await.unwrap_err()).unwrap();
    }
    write!(told, "{idem:?} {:?}", idem.keeper()).unwrap();
    drop(guard);
    let all = told + &logs.text();
    assert!(all.contains("idempotency.unknown"), "{all}");
    assert!(!all.contains("ada@example.com") && !all.contains("s3cret"), "{all}");
}
