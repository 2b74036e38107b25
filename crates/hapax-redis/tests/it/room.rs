//! A server without room.

use crate::support::{complete, is_held_done, is_yours, open, raw, reserve, run, span};
use hapax_core::{
    Applied, Coded as _,
    idempotency::{Complete, Completed, Extended, IdempotencyStore, Kind, Write},
};
use hapax_testkit::redis::Redis;
use std::time::Duration;

crate::list!("room", &[];
    a_full_server_refuses_new_keys_and_takes_what_ends_old_ones,
);

async fn a_full_server_refuses_new_keys_and_takes_what_ends_old_ones() {
    let server = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
    let store = open(&server.url()).await;
    let [done, held, lost, freed, renewed] = ["done", "held", "lost", "freed", "renewed"].map(reserve);
    for req in [&done, &held, &lost, &freed, &renewed] {
        assert!(is_yours(&store.reserve(req).await.unwrap()));
    }
    assert_eq!(store.complete(&complete(&done)).await.unwrap(), Completed::Stored);
    let mut probe = raw(&server.url()).await;
    let () = run(&mut probe, "CONFIG SET maxmemory 1mb").await;

    let error = store.reserve(&reserve("new")).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("store.full", Applied::No), "{error}");
    let batch = store.reserve_many(&[reserve("new"), reserve("done")]).await;
    assert!(batch.iter().map(Result::is_ok).eq([false, true]), "{batch:?}");
    // What is there still answers, to who comes only now, too.
    let late = open(&server.url()).await;
    assert!(is_held_done(&late.reserve(&reserve("done")).await.unwrap()));
    assert!(is_held_done(&store.reserve(&reserve("done")).await.unwrap()));
    assert!(!is_yours(&store.reserve(&reserve("held")).await.unwrap()));
    // And what has happened is taken: else it would happen again.
    let later = span(Duration::from_mins(5));
    assert!(matches!(store.extend(&renewed.name, &renewed.token, later).await.unwrap(), Extended::Until(_)));
    assert_eq!(store.complete(&complete(&held)).await.unwrap(), Completed::Stored);
    let unknown = Complete { kind: Kind::Unknown, ..complete(&lost) };
    assert_eq!(store.complete(&unknown).await.unwrap(), Completed::Stored);
    assert_eq!(store.release(&freed.name, &freed.token).await.unwrap(), Write::Applied);
    assert!(is_held_done(&store.reserve(&reserve("held")).await.unwrap()));
}
