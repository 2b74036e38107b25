//! Where a store may be, and may not.

use crate::{
    fake::{Fake, Said, name, refusal, usual},
    support::{Place, complete, is_yours, open, refused, reserve},
};
use hapax_core::{
    Applied, BackendUrl, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore},
    registry::ConnectOptions,
};
use hapax_mongodb::DRIVER;
use mongodb::bson::doc;
use std::{io::Write as _, net::TcpListener, thread, time::Duration};
use tokio::time::Instant;

crate::list!("places";
    a_wrong_password_is_refused,
    a_user_without_rights_is_told_which,
    a_wrong_port_is_unavailable,
    another_program_is_known,
    a_silent_server_ends_with_the_deadline,
    a_server_without_tls_is_told_apart,
    a_server_with_tls_is_told_apart,
    a_secondary_is_refused,
    a_collation_is_refused,
    many_may_open_at_once,
    the_driver_connects,
);

async fn a_wrong_password_is_refused() {
    let fake =
        Fake::start(|command| name(command).starts_with("sasl").then(|| refusal(18, "AuthenticationFailed")))
            .await;
    let error = refused(&fake.url("authMechanism=SCRAM-SHA-256").replace("//", "//ada:s3cr3t@")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Auth, Applied::No));
    assert!(
        error.to_string().contains("`authSource=`") && !format!("{error} {error:?}").contains("s3cr3t"),
        "{error:?}"
    );
}

async fn a_user_without_rights_is_told_which() {
    let fake =
        Fake::start(|command| (name(command) == "listCollections").then(|| refusal(13, "Unauthorized")))
            .await;
    let error = refused(&fake.url("")).await;
    assert_eq!(error.kind(), StoreErrorKind::Auth);
    assert!(
        error.to_string().contains("`readWrite`") && !format!("{error:?}").contains("s3cr3t"),
        "{error:?}"
    );
}

async fn a_wrong_port_is_unavailable() {
    let port = free_port();
    let began = Instant::now();
    let error = refused(&format!("mongodb://127.0.0.1:{port}/shop?timeout=60s")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert!(error.to_string().contains(&port.to_string()));
    // Known at once, and not when the call's time is over.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Says this to each of some who connect.
fn says(words: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // Whoever has gone hears nothing.
            let _ = stream.and_then(|mut stream| stream.write_all(words));
        }
    });
    port
}

async fn another_program_is_known() {
    let port = says(b"220 mail.example ESMTP: tell me who you are\r\n");
    let error = refused(&format!("mongodb://127.0.0.1:{port}/shop")).await;
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("protocol of MongoDB"), "{error}");
}

async fn a_silent_server_ends_with_the_deadline() {
    // Takes connections into its queue, and never looks at them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, began) = (listener.local_addr().unwrap().port(), Instant::now());
    let error = refused(&format!("mongodb://127.0.0.1:{port}/shop?timeout=500ms")).await;
    assert!(matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout), "{error:?}");
    assert_eq!(error.applied(), Applied::No);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

async fn a_server_without_tls_is_told_apart() {
    let fake = Fake::start(|_| None).await;
    // It takes the greeting for a command, and closes.
    let error = refused(&fake.url("tls=true&timeout=2s")).await;
    assert_eq!(error.applied(), Applied::No);
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("leave `tls=true` out"), "{error}");
}

async fn a_server_with_tls_is_told_apart() {
    // An alert, which is all that such a server says to what is no greeting.
    let port = says(&[21, 3, 3, 0, 2, 2, 70]);
    let error = refused(&format!("mongodb://127.0.0.1:{port}/shop")).await;
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("`tls=true`"), "{error}");
}

async fn a_secondary_is_refused() {
    let fake = Fake::start(|command| {
        let mut reply = (name(command).eq_ignore_ascii_case("ismaster") || name(command) == "hello")
            .then(|| usual(command))?;
        reply.extend(
            doc! { "ismaster": false, "isWritablePrimary": false, "secondary": true, "setName": "rs" },
        );
        reply.extend(doc! { "hosts": ["127.0.0.1:1"], "me": "127.0.0.1:1" });
        Some(Said::Reply(reply))
    })
    .await;
    let error = refused(&fake.url("directConnection=true")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert!(error.to_string().contains("replica set"), "{error}");
}

async fn a_collation_is_refused() {
    let fake = Fake::start(|command| {
        let collation = doc! { "collation": { "locale": "en", "strength": 2 } };
        let entry = doc! { "name": "idempotency", "type": "collection", "options": collation };
        let found = doc! { "ok": 1, "cursor": { "id": 0_i64, "ns": "x", "firstBatch": [entry] } };
        (name(command) == "listCollections").then_some(Said::Reply(found))
    })
    .await;
    let error = refused(&fake.url("")).await;
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(
        error.to_string().contains("collation") && error.to_string().contains("`collection=`"),
        "{error}"
    );
    assert_eq!(fake.heard("insert") + fake.heard("update") + fake.heard("createIndexes"), 0);
}

async fn many_may_open_at_once() {
    let place = Place::new();
    let url = place.url("");
    let opening: Vec<_> =
        (0..8).map(|_| url.clone()).map(|url| tokio::spawn(async move { open(&url).await })).collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
}

async fn the_driver_connects() {
    let place = Place::new();
    let url = BackendUrl::parse(&place.url("")).unwrap();
    assert!(DRIVER.schemes.contains(&url.scheme()) && DRIVER.schemes.contains(&"mongodb+srv"));
    let backend = (DRIVER.connect)(&url, &ConnectOptions::default()).await.unwrap();
    let req = reserve("k");
    assert!(is_yours(&backend.idempotency.reserve(&req).await.unwrap()));
    assert_eq!(backend.idempotency.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}
