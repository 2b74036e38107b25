//! Servers that are not what the URL says.

use crate::support::{complete, is_held_done, is_yours, open, refusal, reserve};
use hapax_core::{
    Applied, Coded as _, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore},
};
use hapax_testkit::redis::Redis;
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
};
use tempfile::TempDir;

crate::list!("places", &["openssl", "flock"];
    a_port_where_nobody_listens_is_unavailable,
    a_server_of_another_kind_is_told,
    a_server_of_another_kind_is_named,
    a_server_that_says_nothing_ends_at_the_deadline,
    a_socket_works,
    databases_are_apart,
    a_database_that_is_not_there_is_told,
    an_encrypted_connection_works,
    a_certificate_of_an_unknown_authority_is_refused,
    a_plain_connection_to_an_encrypted_port_says_so,
    an_encrypted_connection_to_a_plain_port_says_so,
    a_node_of_a_cluster_says_so,
    a_server_that_is_no_node_of_a_cluster_says_so,
    a_replica_is_not_written_to,
    a_name_that_no_sentinel_knows_is_told,
    a_newer_store_is_refused,
    the_driver_connects_and_shows_the_servers_time,
);

async fn a_port_where_nobody_listens_is_unavailable() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for url in [
        format!("redis://127.0.0.1:{free}"),
        format!("redis+cluster://127.0.0.1:{free}"),
        format!("redis+sentinel://127.0.0.1:{free}/main"),
        "redis+unix:/nonexistent/redis.sock".to_owned(),
    ] {
        let error = refusal(&url).await;
        assert_eq!(
            (error.kind(), error.applied()),
            (StoreErrorKind::Unavailable, Applied::No),
            "{url}: {error}"
        );
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
}

/// Says one thing to everybody.
fn chatterbox(says: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(says);
            open.push(stream);
        }
    });
    port
}

async fn a_server_of_another_kind_is_told() {
    for says in
        [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"220 mail.example ESMTP\r\n", b"\0\0\0\x01binary\n\n"]
    {
        let error = refusal(&format!("redis://127.0.0.1:{}", chatterbox(says))).await;
        assert_eq!(error.code(), "store.config", "{error}");
        assert!(error.to_string().contains("Redis"), "{error}");
    }
}

async fn a_server_of_another_kind_is_named() {
    for (says, kind) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "HTTP"),
        (b"220 mail.example ESMTP\r\n", "SMTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
    ] {
        let error = refusal(&format!("redis://127.0.0.1:{}", chatterbox(says))).await;
        assert!(error.to_string().contains(kind), "{error}");
    }
    // Says nothing to what it does not understand, and one byte to a question of its own clients.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 8];
            if stream.read_exact(&mut asked).is_ok() && asked == [0, 0, 0, 8, 4, 210, 22, 47] {
                let _ = stream.write_all(b"N");
            }
        }
    });
    for login in ["", ":secret@"] {
        let error = refusal(&format!("redis://{login}127.0.0.1:{port}")).await;
        assert_eq!(error.code(), "store.config", "{error}");
        assert!(error.to_string().contains("speaks PostgreSQL"), "{error}");
    }
}

async fn a_server_that_says_nothing_ends_at_the_deadline() {
    let port = chatterbox(b"");
    for scheme in ["redis", "rediss"] {
        let error = refusal(&format!("{scheme}://127.0.0.1:{port}?timeout=200ms")).await;
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::No), "{error}");
    }
    // The driver of clusters may have given up by itself.
    let error = refusal(&format!("redis+cluster://127.0.0.1:{port}?timeout=200ms")).await;
    assert!(matches!(error.kind(), StoreErrorKind::Timeout | StoreErrorKind::Unavailable), "{error}");
    assert_eq!(error.applied(), Applied::No);
}

async fn a_socket_works() {
    let server = Redis::start();
    let store = open(&format!("redis+unix:{}", server.socket().display())).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    assert!(is_held_done(&open(&server.url()).await.reserve(&reserve("k")).await.unwrap()));
}

async fn databases_are_apart() {
    let server = Redis::start();
    let (zero, three) = (open(&server.url()).await, open(&format!("{}/3", server.url())).await);
    assert!(is_yours(&zero.reserve(&reserve("k")).await.unwrap()));
    assert!(is_yours(&three.reserve(&reserve("k")).await.unwrap()));
    assert!(!is_yours(&three.reserve(&reserve("k")).await.unwrap()));
}

async fn a_database_that_is_not_there_is_told() {
    let server = Redis::start();
    let error = refusal(&format!("{}/4000", server.url())).await;
    assert_eq!(error.code(), "store.config", "{error}");
}

/// A server with a certificate of an authority made for it.
fn encrypted() -> Redis {
    let folder = TempDir::new().unwrap();
    make_certificates(folder.path());
    Redis::beside(
        folder,
        &[
            "--tls-cert-file",
            "FOLDER/server.crt",
            "--tls-key-file",
            "FOLDER/server.key",
            "--tls-ca-cert-file",
            "FOLDER/ca.crt",
            "--tls-auth-clients",
            "optional",
        ],
    )
}

fn make_certificates(folder: &Path) {
    let openssl = |args: &str| {
        let out = Command::new("openssl").args(args.split(' ')).current_dir(folder).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").unwrap();
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.crt -subj /CN=authority -days 2",
    );
    openssl(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
    );
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile names",
    );
}

async fn an_encrypted_connection_works() {
    let server = encrypted();
    let url =
        format!("rediss://127.0.0.1:{}?tls_ca={}", server.port(), server.folder().join("ca.crt").display());
    let store = open(&url).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    // The certificate names this host too.
    let by_name = url.replace("127.0.0.1", "localhost");
    assert!(is_held_done(&open(&by_name).await.reserve(&reserve("k")).await.unwrap()));
    let folder = server.folder().display().to_string();
    let with_own = format!("{url}&tls_cert={folder}/server.crt&tls_key={folder}/server.key");
    assert!(is_held_done(&open(&with_own).await.reserve(&reserve("k")).await.unwrap()));
}

async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = encrypted();
    let error = refusal(&format!("rediss://127.0.0.1:{}", server.port())).await;
    assert_eq!(error.code(), "store.config", "{error}");
    assert!(error.to_string().contains("tls_ca="), "{error}");
    let error = refusal(&format!("rediss://127.0.0.1:{}?tls_ca=/nonexistent", server.port())).await;
    assert!(error.to_string().contains("/nonexistent"), "{error}");
    let no_pem = server.folder().join("names").display().to_string();
    let error = refusal(&format!("rediss://127.0.0.1:{}?tls_ca={no_pem}", server.port())).await;
    assert!(error.to_string().contains("PEM"), "{error}");
}

async fn a_plain_connection_to_an_encrypted_port_says_so() {
    let server = encrypted();
    let error = refusal(&format!("redis://127.0.0.1:{}", server.port())).await;
    assert_eq!(error.applied(), Applied::No);
    assert!(error.to_string().contains("rediss://"), "{error}");
}

async fn an_encrypted_connection_to_a_plain_port_says_so() {
    let server = Redis::start();
    let error = refusal(&(server.url().replace("redis:", "rediss:") + "?timeout=300ms")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::No));
    assert!(error.to_string().contains("`redis://`"), "{error}");
}

async fn a_server_that_is_no_node_of_a_cluster_says_so() {
    let server = Redis::start();
    let error = refusal(&format!("redis+cluster://127.0.0.1:{}", server.port())).await;
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    assert!(error.to_string().contains("write `redis://"), "{error}");
}

async fn a_node_of_a_cluster_says_so() {
    let cluster = hapax_testkit::redis::SharedCluster::join();
    let port = cluster.ports().first().copied().unwrap();
    let error = refusal(&format!("redis://127.0.0.1:{port}?prefix=elsewhere")).await;
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
    assert_eq!(error.code(), "store.config");
}

async fn a_replica_is_not_written_to() {
    let primary = Redis::start();
    let port = primary.port().to_string();
    let replica = Redis::with(&["--replicaof", "127.0.0.1", &port]);
    hapax_testkit::until("the replica is in step", || {
        replica.ask("INFO replication").contains("master_link_status:up")
    });
    let error = refusal(&replica.url()).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
    assert!(error.to_string().contains("read-only replica"), "{error}");
    // One that becomes a replica under the store.
    let store = open(&primary.url()).await;
    assert!(primary.ask(&format!("REPLICAOF 127.0.0.1 {}", replica.port())).starts_with("+OK"));
    let error = store.reserve(&reserve("k")).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
}

async fn a_name_that_no_sentinel_knows_is_told() {
    let sentinels = hapax_testkit::redis::SharedSentinel::join();
    let error = refusal(&sentinels.url().replace("/main", "/other")).await;
    assert_eq!(error.code(), "store.config", "{error}");
    assert!(error.to_string().contains("`other`"), "{error}");
}

async fn a_newer_store_is_refused() {
    let server = Redis::start();
    assert!(server.ask("SET hapax{}m:layout \"3 2 2\"").starts_with("+OK"));
    let error = refusal(&server.url()).await;
    assert_eq!(error.code(), "store.version", "{error}");
    assert_eq!(server.ask("GET hapax{}m:layout"), "$5\r\n3 2 2\r\n");
}

async fn the_driver_connects_and_shows_the_servers_time() {
    let server = Redis::start();
    let registry = hapax_core::Registry::new().with(hapax_redis::DRIVER);
    let url = hapax_core::BackendUrl::parse(&server.url()).unwrap();
    let options = hapax_core::registry::ConnectOptions::default();
    let backend = registry.connect(&url, &options).await.unwrap();
    assert_eq!(backend.name, "redis");
    assert!(is_yours(&backend.idempotency.reserve(&reserve("k")).await.unwrap()));
    let shown = server.ask("TIME");
    let seconds: i64 = shown.split("\r\n").nth(2).unwrap().parse().unwrap();
    assert!((backend.clock.now().as_millis() - seconds * 1000).abs() < 3_000);
}
