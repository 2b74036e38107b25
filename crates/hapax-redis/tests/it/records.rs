//! What lies under a key, and what does not belong there.

use crate::support::{TTL, complete, is_yours, name, open, place, raw, reserve, span, with_receipt};
use hapax_core::{
    Applied, Coded as _, Namespace, StoreErrorKind, Token,
    idempotency::{
        Complete, Completed, IdempotencyStore, Kind, List, RecordState, Reserved, Resolution, Resolve,
        Resolved, Retake, Retaken, StateFilter, Write,
    },
};
use hapax_testkit::redis::Redis;
use std::time::Duration;

crate::list!("records", &[];
    a_foreign_value_of_another_type_is_told_and_left_alone,
    a_record_of_another_version_is_held_and_left_alone,
    a_list_shows_what_is_no_record_beside_the_others,
    a_batch_with_one_bad_key_answers_the_others,
    receipts_have_a_bound,
    the_clock_of_the_caller_does_not_count,
    an_unknown_outcome_ends_with_its_key,
    done_keys_cost_little_memory,
);

async fn a_foreign_value_of_another_type_is_told_and_left_alone() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let () = redis::cmd("RPUSH").arg(place("k")).arg("theirs").query_async(&mut probe).await.unwrap();
    let req = reserve("k");
    let errors = [
        store.reserve(&req).await.unwrap_err(),
        store.complete(&complete(&req)).await.unwrap_err(),
        store.release(&req.name, &req.token).await.unwrap_err(),
        store.force_release(&req.name).await.unwrap_err(),
        store.extend(&req.name, &req.token, req.lease).await.unwrap_err(),
        store.read(&req.name).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.code(), error.applied()), ("store.corrupt", Applied::No), "{error}");
    }
    let theirs: Vec<String> =
        redis::cmd("LRANGE").arg(place("k")).arg(0).arg(-1).query_async(&mut probe).await.unwrap();
    assert_eq!(theirs, ["theirs"]);
}

async fn a_record_of_another_version_is_held_and_left_alone() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let req = reserve("k");
    for value in [&b"hello"[..], b"", b"\x02", b"\x01", &[2; 200], &[1; 68], &[1, 0]] {
        let () = redis::cmd("SET").arg(place("k")).arg(value).query_async(&mut probe).await.unwrap();
        let Reserved::Held(record) = store.reserve(&req).await.unwrap() else {
            panic!("{value:?} was overwritten")
        };
        assert_eq!(record.state, RecordState::Unreadable, "{value:?}");
        assert!(matches!(store.complete(&complete(&req)).await.unwrap(), Completed::Superseded(_)));
        assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
        assert_eq!(store.force_release(&req.name).await.unwrap(), Write::Fenced);
        let token = Token::random().unwrap();
        let retake = Retake { name: name("k"), token, fingerprint: req.fingerprint, lease: req.lease };
        assert!(matches!(store.retake_unknown(&retake).await.unwrap(), Retaken::Changed(Some(_))));
        let verdict = Resolve { name: name("k"), token, version: None, resolution: Resolution::DidNot };
        assert!(matches!(store.resolve(&verdict).await.unwrap(), Resolved::Changed(Some(_))));
        let kept: Vec<u8> = redis::cmd("GET").arg(place("k")).query_async(&mut probe).await.unwrap();
        assert_eq!(kept, value);
        // Whoever has looked at it may have it removed.
        let forget =
            Resolve { version: Some(record.version()), resolution: Resolution::Forget, ..verdict.clone() };
        let other = Resolve { version: Some(token.version()), ..forget.clone() };
        assert!(matches!(store.resolve(&other).await.unwrap(), Resolved::Changed(Some(_))), "{value:?}");
        assert_eq!(store.resolve(&forget).await.unwrap(), Resolved::Applied, "{value:?}");
        assert_eq!(store.read(&req.name).await.unwrap(), None);
    }
}

async fn a_list_shows_what_is_no_record_beside_the_others() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let () = redis::cmd("RPUSH").arg(place("b")).arg("theirs").query_async(&mut probe).await.unwrap();
    let () = redis::cmd("SET").arg(place("c")).arg("theirs").query_async(&mut probe).await.unwrap();
    for key in ["a", "d"] {
        assert!(is_yours(&store.reserve(&reserve(key)).await.unwrap()));
    }
    let mut list = List::new(Namespace::default());
    let page = store.list(&list).await.unwrap();
    let found: Vec<_> = page
        .records
        .iter()
        .map(|(name, record)| (name.key(), record.state == RecordState::Unreadable))
        .collect();
    assert_eq!(found, [("a", false), ("b", true), ("c", true), ("d", false)]);
    list.state = Some(StateFilter::Pending);
    assert_eq!(store.list(&list).await.unwrap().records.len(), 2);
}

async fn a_batch_with_one_bad_key_answers_the_others() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let () = redis::cmd("RPUSH").arg(place("bad")).arg("theirs").query_async(&mut probe).await.unwrap();
    let reqs = ["a", "bad", "b"].map(reserve);
    let reserved: Vec<_> = store.reserve_many(&reqs).await.into_iter().map(|answer| answer.is_ok()).collect();
    assert_eq!(reserved, [true, false, true]);
    let results = reqs.each_ref().map(complete);
    let stored: Vec<_> = store.complete_many(&results).await;
    assert!(
        matches!(stored.as_slice(), [Ok(Completed::Stored), Err(_), Ok(Completed::Stored)]),
        "{stored:?}"
    );
    assert!(
        stored
            .get(1)
            .is_some_and(|bad| bad.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Corrupt))
    );
}

async fn receipts_have_a_bound() {
    let server = Redis::start();
    let (store, small) =
        (open(&server.url()).await, open(&format!("{}?max_receipt=1KiB", server.url())).await);
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    for (store, most) in [(&small, 1024), (&store, 65_536)] {
        let error = store.complete(&with_receipt(&req, vec![0; most + 1])).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("store.unsupported", Applied::No));
        assert!(error.to_string().contains("max_receipt"), "{error}");
    }
    let few = store
        .complete_many(&[with_receipt(&req, vec![0; 65_537]), with_receipt(&req, vec![0; 65_536])])
        .await;
    assert!(matches!(few.as_slice(), [Err(_), Ok(Completed::Stored)]), "{few:?}");
}

async fn the_clock_of_the_caller_does_not_count() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let req = reserve("k");
    let Reserved::Yours { until, first_at } = store.reserve(&req).await.unwrap() else { panic!("held") };
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(&mut probe).await.unwrap();
    let now = seconds * 1000 + micros / 1000;
    assert!((now - first_at.as_millis()).abs() < 2_000, "{first_at:?} at {now}");
    assert!((until.as_millis() - first_at.as_millis() - 60_000).abs() < 2_000);
    // The key ends by itself when the lease does.
    let left: i64 = redis::cmd("PTTL").arg(place("k")).query_async(&mut probe).await.unwrap();
    assert!((58_000..=60_000).contains(&left), "{left}");
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    let left: i64 = redis::cmd("PTTL").arg(place("k")).query_async(&mut probe).await.unwrap();
    let ttl = i64::try_from(TTL.as_millis()).unwrap();
    assert!((ttl - 2_000..=ttl).contains(&left), "{left}");
    let _ = store.extend(&req.name, &req.token, span(Duration::from_secs(1))).await.unwrap();
    let Reserved::Held(record) = store.reserve(&reserve("k")).await.unwrap() else { panic!("not held") };
    let RecordState::Settled { kind: Kind::Done, completed_at, .. } = record.state else {
        panic!("{record:?}")
    };
    assert!((now - completed_at.as_millis()).abs() < 2_000, "{completed_at:?} at {now}");
    assert!((now + ttl - record.until.as_millis()).abs() < 2_000, "{:?} at {now}", record.until);
}

async fn an_unknown_outcome_ends_with_its_key() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let unknown = Complete { kind: Kind::Unknown, ..complete(&req) };
    assert_eq!(store.complete(&unknown).await.unwrap(), Completed::Stored);
    // Scripts go by what the record says.
    let record = store.read(&req.name).await.unwrap().unwrap();
    let expires: Result<i64, _> = redis::cmd("PEXPIRETIME").arg(place("k")).query_async(&mut probe).await;
    match expires {
        Ok(at) => assert_eq!(record.until.as_millis(), at),
        // Redis 6.2 cannot be asked.
        Err(error) => assert_eq!(error.code(), Some("ERR"), "{error}"),
    }
}

async fn done_keys_cost_little_memory() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.complete(&with_receipt(&req, vec![7; 100])).await.unwrap(), Completed::Stored);
    let value: Vec<u8> = redis::cmd("GET").arg(place("k")).query_async(&mut probe).await.unwrap();
    assert!(value.len() <= 78 + 4 + 100, "{} bytes", value.len());
    let ours: u64 = redis::cmd("MEMORY").arg("USAGE").arg(place("k")).query_async(&mut probe).await.unwrap();
    let same = place("plain");
    let () =
        redis::cmd("SET").arg(&same[..same.len() - 4]).arg(&value).query_async(&mut probe).await.unwrap();
    let plain: u64 =
        redis::cmd("MEMORY").arg("USAGE").arg(&same[..same.len() - 4]).query_async(&mut probe).await.unwrap();
    assert!(ours * 10 <= plain * 13, "{ours} bytes, a plain string of the same {plain}");
}
