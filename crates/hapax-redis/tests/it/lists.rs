//! Lists.

use crate::support::{complete, is_yours, name, open, raw, reserve, run};
use hapax_core::{
    Namespace,
    idempotency::{Complete, Completed, IdempotencyStore, Kind, List, StateFilter},
};
use hapax_testkit::redis::Redis;

crate::list!("lists", &[];
    unknown_outcomes_are_listed_without_a_scan,
    other_keys_of_the_server_are_not_listed,
);

async fn unknown_outcomes_are_listed_without_a_scan() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    let mut probe = raw(&server.url()).await;
    let reqs: Vec<_> = (0..20).map(|n| reserve(&format!("k{n:02}"))).collect();
    for answer in store.reserve_many(&reqs).await {
        assert!(is_yours(&answer.unwrap()));
    }
    let kind = |n: usize| if n.is_multiple_of(5) { Kind::Unknown } else { Kind::Done };
    let results: Vec<_> =
        reqs.iter().enumerate().map(|(n, req)| Complete { kind: kind(n), ..complete(req) }).collect();
    for answer in store.complete_many(&results).await {
        assert_eq!(answer.unwrap(), Completed::Stored);
    }
    let () = run(&mut probe, "CONFIG RESETSTAT").await;
    let unknown = List { state: Some(StateFilter::Unknown), ..List::new(Namespace::default()) };
    let page = store.list(&unknown).await.unwrap();
    let keys: Vec<_> = page.records.iter().map(|(name, _)| name.key()).collect();
    assert_eq!(keys, ["k00", "k05", "k10", "k15"]);
    let stats: String = run(&mut probe, "INFO commandstats").await;
    assert!(!stats.contains("cmdstat_scan:") && !stats.contains("cmdstat_keys:"), "{stats}");
}

async fn other_keys_of_the_server_are_not_listed() {
    let server = Redis::start();
    let (store, other) = (open(&server.url()).await, open(&format!("{}?prefix=other", server.url())).await);
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
    assert!(is_yours(&other.reserve(&reserve("l")).await.unwrap()));
    let mut probe = raw(&server.url()).await;
    for key in ["hapax{}k:7:default", "hapax{}k:7:default9:x", "hapax{}k:7:default0:", "hapax", "k"] {
        let () = redis::cmd("SET").arg(key).arg("theirs").query_async(&mut probe).await.unwrap();
    }
    let page = store.list(&List::new(Namespace::default())).await.unwrap();
    assert_eq!(page.records.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), [name("k")]);
}
