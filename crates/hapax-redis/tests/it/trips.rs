//! Round trips, counted by the server.

use crate::support::{complete, is_held_done, is_yours, open, raw, reserve, run, span, until};
use hapax_core::idempotency::{Completed, Extended, IdempotencyStore, Write};
use hapax_testkit::redis::Redis;
use redis::aio::MultiplexedConnection;
use std::{collections::BTreeMap, time::Duration};

crate::list!("trips", &[];
    a_step_is_one_command,
    the_time_is_asked_for_again_after_a_while,
    a_batch_is_a_few_commands,
);

/// Commands that came over the wire since the last count: those that a script calls are left out.
async fn commands(probe: &mut MultiplexedConnection) -> BTreeMap<String, u64> {
    let stats: String = run(probe, "INFO commandstats").await;
    let () = run(probe, "CONFIG RESETSTAT").await;
    let count = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse().ok()?;
        (!name.starts_with("config") && name != "info").then(|| (name.to_owned(), calls))
    };
    stats.lines().filter_map(count).collect()
}

fn counted(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    expected.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect()
}

async fn a_step_is_one_command() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    // The scripts are known to the server from here on.
    let warm = reserve("warm");
    assert!(is_yours(&store.reserve(&warm).await.unwrap()));
    let _ = store.extend(&warm.name, &warm.token, warm.lease).await.unwrap();
    let _ = store.complete(&complete(&warm)).await.unwrap();
    let _ = store.release(&warm.name, &warm.token).await.unwrap();
    commands(&mut probe).await;

    let (req, freed) = (reserve("k"), reserve("freed"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(commands(&mut probe).await, counted(&[("set", 1)]));
    let extended = store.extend(&req.name, &req.token, span(Duration::from_mins(2))).await.unwrap();
    assert!(matches!(extended, Extended::Until(_)));
    assert_eq!(commands(&mut probe).await.get("evalsha"), Some(&1));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    assert_eq!(commands(&mut probe).await, counted(&[("evalsha", 1), ("get", 1), ("set", 1)]));
    assert!(is_held_done(&store.reserve(&reserve("k")).await.unwrap()));
    assert_eq!(commands(&mut probe).await, counted(&[("set", 1)]));
    assert!(store.read(&req.name).await.unwrap().is_some());
    assert_eq!(commands(&mut probe).await, counted(&[("get", 1)]));
    assert!(is_yours(&store.reserve(&freed).await.unwrap()));
    assert_eq!(store.release(&freed.name, &freed.token).await.unwrap(), Write::Applied);
    let after = commands(&mut probe).await;
    assert_eq!((after.get("set"), after.get("evalsha"), after.get("del")), (Some(&1), Some(&1), Some(&1)));
}

async fn the_time_is_asked_for_again_after_a_while() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let mut kept = 0;
    let mut asked = BTreeMap::new();
    until("asked for the time", async || {
        let req = reserve(&format!("k{kept}"));
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
        kept += 1;
        for (name, calls) in commands(&mut probe).await {
            *asked.entry(name).or_insert(0) += calls;
        }
        // Once for the connection, then once for all that came before a second was over.
        asked.get("time") >= Some(&2)
    })
    .await;
    assert!(kept > 2, "{kept} results");
    assert_eq!(asked.get("time"), Some(&2), "{asked:?}");
}

async fn a_batch_is_a_few_commands() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let reqs: Vec<_> = (0..256).map(|n| reserve(&format!("k{n}"))).collect();
    for answer in store.reserve_many(&reqs).await {
        assert!(is_yours(&answer.unwrap()));
    }
    let results: Vec<_> = reqs.iter().map(complete).collect();
    let _ = store.complete_many(&results).await;
    commands(&mut probe).await;
    for answer in store.complete_many(&results).await {
        assert_eq!(answer.unwrap(), Completed::AlreadyDone);
    }
    assert_eq!(commands(&mut probe).await, counted(&[("evalsha", 2), ("get", 256), ("time", 2)]));
}
