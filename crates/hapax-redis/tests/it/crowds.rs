//! Many callers at once.

use crate::support::{complete, is_yours, name, open, place, raw, reserve, run, until, with_receipt};
use futures_util::future::join_all;
use hapax_core::{
    StoreErrorKind,
    idempotency::{Completed, IdempotencyStore},
};
use hapax_testkit::redis::Redis;
use std::{
    sync::Arc,
    task::{Context, Waker},
};

crate::list!("crowds", &[];
    results_that_are_ready_together_leave_together,
    an_error_reaches_its_owner_alone,
    a_caller_that_goes_away_takes_nobody_along,
    a_caller_that_nobody_polls_holds_nobody_up,
    a_large_receipt_goes_alone,
    one_key_has_one_owner_among_many_callers,
);

/// How often scripts were called since the last count.
async fn script_calls(probe: &mut redis::aio::MultiplexedConnection) -> u64 {
    let stats: String = run(probe, "INFO commandstats").await;
    let () = run(probe, "CONFIG RESETSTAT").await;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

async fn results_that_are_ready_together_leave_together() {
    let server = Redis::start();
    let url = server.url();
    // On one thread all of them are ready before the first leaves.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(many_results(&url))
    });
    // The first finds nobody under way; the others are 399, and 128 go together.
    let calls = thread.join().unwrap();
    assert!((2..=10).contains(&calls), "{calls} calls");
}

/// How many calls four hundred results were.
async fn many_results(url: &str) -> u64 {
    let store = open(url).await;
    let mut probe = raw(url).await;
    let reqs: Vec<_> = (0..400).map(|n| reserve(&format!("k{n}"))).collect();
    for answer in join_all(reqs.iter().map(|req| store.reserve(req))).await {
        assert!(is_yours(&answer.unwrap()));
    }
    let results: Vec<_> = reqs.iter().map(complete).collect();
    let _ = store.complete(&complete(&reserve("warm"))).await.unwrap();
    script_calls(&mut probe).await;
    for answer in join_all(results.iter().map(|result| store.complete(result))).await {
        assert_eq!(answer.unwrap(), Completed::Stored);
    }
    let calls = script_calls(&mut probe).await;
    for answer in join_all(results.iter().map(|result| store.complete(result))).await {
        assert_eq!(answer.unwrap(), Completed::AlreadyDone);
    }
    calls
}

async fn an_error_reaches_its_owner_alone() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let () = redis::cmd("RPUSH").arg(place("k7")).arg("theirs").query_async(&mut probe).await.unwrap();
    let results: Vec<_> = (0..50).map(|n| complete(&reserve(&format!("k{n}")))).collect();
    let answers = join_all(results.iter().map(|result| store.complete(result))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(answer) => assert_eq!((n != 7, answer), (true, Completed::Stored)),
            Err(error) => assert_eq!((n, error.kind()), (7, StoreErrorKind::Corrupt)),
        }
    }
}

async fn a_caller_that_goes_away_takes_nobody_along() {
    let server = Redis::start();
    let store = Arc::new(open(&server.url()).await);
    for round in 0..50 {
        let results: Vec<_> = (0..20).map(|n| complete(&reserve(&format!("k{round} {n}")))).collect();
        let mut calls: Vec<_> = results.iter().map(|result| Box::pin(store.complete(result))).collect();
        // Hardly ever is there an answer by then.
        calls.retain_mut(|call| call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The second was the first to wait; the fifth waited with it.
        let gone: Vec<_> = [4, 1].into_iter().filter(|at| *at < calls.len()).collect();
        for at in gone {
            drop(calls.remove(at));
        }
        for answer in join_all(calls).await {
            assert_eq!(answer.unwrap(), Completed::Stored);
        }
    }
}

async fn a_caller_that_nobody_polls_holds_nobody_up() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let results: Vec<_> = (0..10).map(|n| complete(&reserve(&format!("k{n}")))).collect();
    let mut calls: Vec<_> = results.iter().map(|result| Box::pin(store.complete(result))).collect();
    calls.retain_mut(|call| call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    if let Some(last) = calls.pop() {
        assert_eq!(last.await.unwrap(), Completed::Stored);
    }
    for answer in join_all(calls).await {
        assert_eq!(answer.unwrap(), Completed::Stored);
    }
}

async fn a_large_receipt_goes_alone() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let sizes = [10, 60_000, 20, 20_000, 30, 16_384].into_iter().cycle().take(60).enumerate();
    let results: Vec<_> =
        sizes.map(|(n, size)| with_receipt(&reserve(&format!("k{n}")), vec![7; size])).collect();
    for answer in join_all(results.iter().map(|result| store.complete(result))).await {
        assert_eq!(answer.unwrap(), Completed::Stored);
    }
    for (n, result) in results.iter().enumerate() {
        let kept = store.read(&name(&format!("k{n}"))).await.unwrap().unwrap();
        let hapax_core::idempotency::RecordState::Settled { receipt, .. } = kept.state else {
            panic!("no result")
        };
        assert_eq!(receipt, result.receipt);
    }
}

async fn one_key_has_one_owner_among_many_callers() {
    let server = Redis::start();
    let (one, two) = (open(&server.url()).await, open(&server.url()).await);
    let reqs: Vec<_> = (0..100).map(|_| reserve("k")).collect();
    let answers = join_all(
        reqs.iter().enumerate().map(|(n, req)| if n % 2 == 0 { one.reserve(req) } else { two.reserve(req) }),
    )
    .await;
    let owners: Vec<_> =
        answers.iter().zip(&reqs).filter(|(answer, _)| is_yours(answer.as_ref().unwrap())).collect();
    assert_eq!(owners.len(), 1);
    let results: Vec<_> = reqs.iter().map(complete).collect();
    let stored = join_all(results.iter().map(|result| one.complete(result))).await;
    let stored = stored.into_iter().filter(|answer| matches!(answer, Ok(Completed::Stored))).count();
    assert_eq!(stored, 1);
    until("the record is the owner's", async || {
        let record = two.read(&name("k")).await.unwrap().unwrap();
        owners.iter().all(|(_, req)| record.version() == req.token.version())
    })
    .await;
}
