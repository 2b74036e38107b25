//! Clusters and Sentinels whose primary goes.

use crate::support::{complete, is_held_done, is_yours, open, reserve, until};
use hapax_core::idempotency::{Completed, IdempotencyStore};
use hapax_testkit::redis::{RedisCluster, RedisSentinel};

crate::list!("failover", &[];
    the_store_follows_the_sentinels_to_a_new_primary,
    the_store_follows_a_cluster_to_a_new_primary,
    the_store_follows_a_slot_that_moves,
    replicas_can_be_waited_for,
);

async fn the_store_follows_the_sentinels_to_a_new_primary() {
    let mut servers = RedisSentinel::start();
    let store = open(&format!("{}?wait_replicas=1", servers.url())).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    servers.primary().kill();
    let store = open_again(&servers.url(), store).await;
    until(
        "the new primary answers",
        async || matches!(store.reserve(&reserve("k")).await, Ok(answer) if is_held_done(&answer)),
    )
    .await;
    let other = reserve("other");
    until("and takes new keys", async || store.reserve(&other).await.is_ok_and(|answer| is_yours(&answer)))
        .await;
}

/// The same store, without waiting for a replica that is now the primary.
async fn open_again(url: &str, before: hapax_redis::RedisStore) -> hapax_redis::RedisStore {
    let mut opened = None;
    until("a primary is there", async || {
        opened = crate::support::try_open(url).await.ok();
        opened.is_some()
    })
    .await;
    drop(before);
    opened.unwrap()
}

async fn the_store_follows_a_cluster_to_a_new_primary() {
    let mut servers = RedisCluster::start();
    let store = open(&servers.url()).await;
    let reqs: Vec<_> = (0..30).map(|n| reserve(&format!("k{n}"))).collect();
    for req in &reqs {
        assert!(is_yours(&store.reserve(req).await.unwrap()));
        assert_eq!(store.complete(&complete(req)).await.unwrap(), Completed::Stored);
    }
    for node in servers.nodes() {
        let _ = node.ask("WAIT 1 5000");
    }
    if let Some(first) = servers.nodes().first_mut() {
        first.kill();
    }
    for n in 0..30 {
        let key = format!("k{n}");
        until("the key still answers", async || {
            store.reserve(&reserve(&key)).await.is_ok_and(|answer| is_held_done(&answer))
        })
        .await;
    }
}

async fn replicas_can_be_waited_for() {
    let mut servers = RedisSentinel::start();
    let url = servers.primary().url();
    let store = open(&format!("{url}?wait_replicas=1")).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    // The script is not known to the server: the replicas are asked again after it was sent whole.
    assert!(servers.primary().ask("SCRIPT FLUSH").starts_with("+OK"));
    assert!(servers.primary().ask("CONFIG RESETSTAT").starts_with("+OK"));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::AlreadyDone);
    assert!(servers.primary().ask("INFO commandstats").contains("cmdstat_wait:calls=2"));
    let alone = open(&format!("{url}?wait_replicas=2&timeout=400ms")).await;
    let error = alone.reserve(&reserve("l")).await.unwrap_err();
    assert!(error.to_string().contains("fewer than 2 replicas"), "{error}");
    assert_eq!(error.applied(), hapax_core::Applied::Unknown);
}

/// What a node says of the slot of a key, and who it is.
fn slot_of(servers: &mut RedisCluster, key: &str) -> u16 {
    let said = servers.nodes().first().unwrap().ask(&format!("CLUSTER KEYSLOT {key}"));
    said.trim().trim_start_matches(':').parse().unwrap()
}

async fn the_store_follows_a_slot_that_moves() {
    let mut servers = RedisCluster::start();
    let store = open(&servers.url()).await;
    let (before, during) = (reserve("before"), reserve("during"));
    assert!(is_yours(&store.reserve(&before).await.unwrap()));
    for (at, req) in [&before, &during].into_iter().enumerate() {
        let slot = slot_of(&mut servers, &crate::support::place(req.name.key()));
        let primaries = servers.nodes().get(..3).unwrap();
        let ids: Vec<_> = primaries
            .iter()
            .map(|node| node.ask("CLUSTER MYID").split("\r\n").nth(1).unwrap().to_owned())
            .collect();
        let from = usize::from(slot / 5461).min(2);
        let to = (from + 1) % 3;
        let (from_id, to_id) = (ids.get(from).unwrap(), ids.get(to).unwrap());
        let (source, target) = (primaries.get(from).unwrap(), primaries.get(to).unwrap());
        assert!(target.ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")).starts_with("+OK"));
        assert!(source.ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")).starts_with("+OK"));
        // What is not at the source is asked for at the target.
        if at == 1 {
            assert!(is_yours(&store.reserve(req).await.unwrap()));
        }
        let place = crate::support::place(req.name.key());
        let moved = source.ask(&format!("MIGRATE 127.0.0.1 {} {place} 0 5000", target.port()));
        assert!(moved.starts_with("+OK") || moved.starts_with("+NOKEY"), "{moved}");
        assert_eq!(store.complete(&complete(req)).await.unwrap(), Completed::Stored);
        for node in primaries {
            let _ = node.ask(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
        }
        assert!(is_held_done(&store.reserve(&reserve(req.name.key())).await.unwrap()));
    }
}
