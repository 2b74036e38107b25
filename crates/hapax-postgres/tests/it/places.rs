//! Where a store may be, and may not.

use crate::support::{Place, complete, is_yours, open, refused, reserve};
use hapax_core::{
    Applied, BackendUrl, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore},
    registry::ConnectOptions,
};
use hapax_postgres::DRIVER;
use hapax_testkit::postgres::{GUARDED, Postgres};
use std::io::{BufRead as _, Write as _};

crate::list!("places";
    a_wrong_password_is_refused,
    a_wrong_port_is_unavailable,
    a_missing_database_is_named,
    another_program_is_known,
    a_server_that_waits_for_more_is_known_in_time,
    a_silent_server_may_be_another,
    a_socket_works,
    many_may_open_at_once,
    the_driver_connects,
);

async fn a_wrong_password_is_refused() {
    let place = Place::new();
    place
        .run(&format!(
            "DO $$ BEGIN CREATE ROLE {GUARDED} LOGIN SUPERUSER PASSWORD 'right'; \
             EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        ))
        .await;
    let url = |password: &str| place.url(&format!("{GUARDED}:{password}"), "");
    let error = refused(&url("s3cr3t")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Auth, Applied::No));
    assert!(!format!("{error} {error:?}").contains("s3cr3t"));
    assert!(open(&url("right")).await.is_ok());
}

async fn a_wrong_port_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = refused(&format!("postgres://postgres@127.0.0.1:{port}/postgres")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert!(error.to_string().contains(&port.to_string()));
}

async fn a_missing_database_is_named() {
    let place = Place::new();
    let error = refused(&place.url("postgres", "").replace("/postgres?", "/nowhere?")).await;
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(error.to_string().contains("`nowhere`"));
}

async fn another_program_is_known() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let speaks = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    });
    let error = refused(&format!("postgres://postgres@127.0.0.1:{port}/postgres")).await;
    assert_eq!(error.kind(), StoreErrorKind::Config);
    speaks.join().unwrap();
}

async fn a_server_that_waits_for_more_is_known_in_time() {
    for (says, kind) in
        [(&b"-ERR unknown command\r\n"[..], "Redis"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP")]
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Answers lines, as those servers do.
                std::thread::spawn(move || {
                    let mut lines = std::io::BufReader::new(stream.unwrap());
                    let mut line = Vec::new();
                    if lines.read_until(b'\n', &mut line).is_ok_and(|_| line.ends_with(b"\n")) {
                        let _ = lines.get_mut().write_all(says);
                    }
                });
            }
        });
        let error = refused(&format!("postgres://postgres@127.0.0.1:{port}/postgres?timeout=30s")).await;
        assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
        assert!(error.to_string().contains(&format!("speaks {kind}")), "{error}");
    }
}

async fn a_silent_server_may_be_another() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = refused(&format!("postgres://postgres@127.0.0.1:{port}/postgres?timeout=300ms")).await;
    assert_eq!(error.kind(), StoreErrorKind::Timeout);
    assert!(error.to_string().contains("did not answer as PostgreSQL does"), "{error}");
}

async fn a_socket_works() {
    let server = Postgres::start();
    let folder = server.folder().display();
    let url = format!("postgres://postgres@localhost:{}/postgres?host={folder}", server.port());
    let (store, req) = (open(&url).await.unwrap(), reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
}

async fn many_may_open_at_once() {
    let place = Place::new();
    let url = place.url("postgres", "");
    let opening: Vec<_> =
        (0..8).map(|_| url.clone()).map(|url| tokio::spawn(async move { open(&url).await })).collect();
    for opened in opening {
        assert!(opened.await.unwrap().is_ok());
    }
}

async fn the_driver_connects() {
    let place = Place::new();
    let url = BackendUrl::parse(&place.url("postgres", "")).unwrap();
    assert!(DRIVER.schemes.contains(&url.scheme()) && DRIVER.schemes.contains(&"postgresql"));
    let backend = (DRIVER.connect)(&url, &ConnectOptions::default()).await.unwrap();
    let req = reserve("k");
    assert!(is_yours(&backend.idempotency.reserve(&req).await.unwrap()));
    assert_eq!(backend.idempotency.complete(&complete(&req)).await.unwrap(), Completed::Stored);
}
