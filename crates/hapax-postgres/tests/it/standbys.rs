//! Servers that follow another one, and become the one that is followed.

use crate::support::{complete, is_done, is_yours, name, open, refused, reserve};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore},
};
use hapax_testkit::postgres::Postgres;
use sqlx::{Connection as _, PgConnection};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::Instant,
};

crate::list!("standbys", &["pg_basebackup"];
    a_standby_is_refused_until_it_is_promoted,
    a_server_that_becomes_a_standby_says_so,
    the_store_follows_its_address_to_a_new_primary,
);

/// Waits until the standby has got a row.
async fn until_there(standby: &Postgres, sql: &'static str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut conn = PgConnection::connect(&standby.url()).await.unwrap();
        if matches!(sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut conn).await, Ok(1..)) {
            return;
        }
        assert!(Instant::now() < deadline, "the standby never got it");
    }
}

async fn promote(standby: &Postgres) {
    let mut conn = PgConnection::connect(&standby.url()).await.unwrap();
    let promoted: bool = sqlx::query_scalar("SELECT pg_promote()").fetch_one(&mut conn).await.unwrap();
    assert!(promoted);
}

async fn a_standby_is_refused_until_it_is_promoted() {
    let primary = Postgres::start();
    let standby = primary.standby();
    // Whether or not the store is there already.
    for _ in 0..2 {
        let begun = Instant::now();
        let error = refused(&standby.url()).await;
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
        assert!(error.to_string().contains("name its primary"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        drop(open(&primary.url()).await.unwrap());
        until_there(&standby, "SELECT count(*) FROM hapax.meta").await;
    }
    drop(primary);
    promote(&standby).await;
    assert!(is_yours(&open(&standby.url()).await.unwrap().reserve(&reserve("k")).await.unwrap()));
}

async fn a_server_that_becomes_a_standby_says_so() {
    let mut server = Postgres::start();
    let (store, req) = (open(&server.url()).await.unwrap(), reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    server.demote();
    // Sent over a connection that was lost, it may have been done.
    let error = store.complete(&complete(&req)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown));
    for answer in store.complete_many(&[complete(&req), complete(&reserve("l"))]).await {
        let error = answer.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
        assert!(error.to_string().contains("name its primary"), "{error}");
    }
    promote(&server).await;
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}

/// An address that leads to a server, and then to another.
struct Address {
    port: u16,
    server: Arc<AtomicU16>,
}

impl Address {
    async fn of(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, server) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU16::new(server)));
        tokio::spawn({
            let server = Arc::clone(&server);
            async move {
                let mut passing = JoinSet::new();
                while let Ok((mut client, _)) = listener.accept().await {
                    let port = server.load(Ordering::SeqCst);
                    passing.spawn(async move {
                        let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                        tokio::io::copy_bidirectional(&mut client, &mut server).await
                    });
                }
            }
        });
        Self { port, server }
    }
}

async fn the_store_follows_its_address_to_a_new_primary() {
    let mut old = Postgres::start();
    let address = Address::of(old.port()).await;
    let store = open(&format!("postgres://postgres@127.0.0.1:{}/postgres", address.port)).await.unwrap();
    let new = old.standby();
    let (one, two) = (reserve("one"), reserve("two"));
    for req in [&one, &two] {
        assert!(is_yours(&store.reserve(req).await.unwrap()));
    }
    assert_eq!(store.complete(&complete(&one)).await.unwrap(), Completed::Stored);
    until_there(&new, "SELECT count(*) FROM hapax.idempotency WHERE state = 1").await;
    old.demote();
    // Its connections lead to the old one, which takes no writes.
    let error = store.complete(&complete(&two)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    promote(&new).await;
    address.server.store(new.port(), Ordering::SeqCst);
    assert_eq!(store.complete(&complete(&two)).await.unwrap(), Completed::Stored);
    assert!(is_done(store.read(&name("one")).await.unwrap().as_ref()));
}
