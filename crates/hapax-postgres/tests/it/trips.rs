//! How often the server is asked: a step is one round trip.

use crate::support::{LEASE, Place, complete, is_yours, open, reserve};
use hapax_core::{
    Key, Name, Namespace, Scope, Span, Token,
    idempotency::{Completed, IdempotencyStore, Reserved},
    limit::{Check, Decide, LimitKey, LimitStore, MOST, Quota},
    lock::{Acquire, Acquired, Holder, LockStore, SCOPE, Write},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

crate::list!("trips";
    a_step_is_one_round_trip,
    a_prepared_step_is_one_round_trip_from_the_second_on,
    a_batch_is_one_round_trip,
    a_lock_is_two_round_trips_and_a_decision_one,
);

/// Stands between store and server, and counts how often the server says that it is ready for the next question.
struct Between {
    url: String,
    ready: Arc<AtomicUsize>,
}

impl Between {
    async fn new(place: &Place, more: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (ready, server) = (Arc::new(AtomicUsize::new(0)), place.port());
        let url = place.url("postgres", &format!("&sslmode=disable{more}"));
        let url = url.replace(&format!(":{server}/"), &format!(":{port}/"));
        tokio::spawn({
            let ready = Arc::clone(&ready);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let ready = Arc::clone(&ready);
                    tokio::spawn(async move {
                        let (mut from_client, mut to_client) = client.into_split();
                        let (from_server, mut to_server) = server.into_split();
                        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                        pass(from_server, &mut to_client, &ready).await
                    });
                }
            }
        });
        Self { url, ready }
    }

    /// How often since the last time.
    fn trips(&self) -> usize {
        self.ready.swap(0, Ordering::SeqCst)
    }
}

/// Passes on what the server says: a letter, a length that counts itself, and so many bytes.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    ready: &AtomicUsize,
) -> std::io::Result<()> {
    loop {
        let letter = from.read_u8().await?;
        let length = from.read_u32().await?;
        let mut rest = vec![0; usize::try_from(length - 4).unwrap()];
        from.read_exact(&mut rest).await?;
        if letter == b'Z' {
            ready.fetch_add(1, Ordering::SeqCst);
        }
        let mut message = vec![letter];
        message.extend(length.to_be_bytes());
        message.extend(rest);
        to.write_all(&message).await?;
    }
}

async fn a_step_is_one_round_trip() {
    let place = Place::new();
    let between = Between::new(&place, "").await;
    let (store, req) = (open(&between.url).await.unwrap(), reserve("k"));
    between.trips();
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(between.trips(), 1);
    let _extended = IdempotencyStore::extend(&store, &req.name, &req.token, req.lease).await.unwrap();
    assert_eq!(between.trips(), 1);
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    assert_eq!(between.trips(), 1);
    assert!(matches!(store.reserve(&req).await.unwrap(), Reserved::Held(_)));
    assert_eq!(between.trips(), 1);
    let _record = store.read(&req.name).await.unwrap();
    assert_eq!(between.trips(), 1);
    let _fenced = IdempotencyStore::release(&store, &req.name, &req.token).await.unwrap();
    assert_eq!(between.trips(), 1);
}

async fn a_prepared_step_is_one_round_trip_from_the_second_on() {
    let place = Place::new();
    let between = Between::new(&place, "&prepared=on").await;
    let store = open(&between.url).await.unwrap();
    assert!(is_yours(&store.reserve(&reserve("first")).await.unwrap()));
    between.trips();
    assert!(is_yours(&store.reserve(&reserve("second")).await.unwrap()));
    assert_eq!(between.trips(), 1);
}

async fn a_batch_is_one_round_trip() {
    let place = Place::new();
    let between = Between::new(&place, "").await;
    let store = open(&between.url).await.unwrap();
    let batch: Vec<_> = (0..100).map(|n| reserve(&n.to_string())).collect();
    between.trips();
    for answer in store.reserve_many(&batch).await {
        assert!(is_yours(&answer.unwrap()));
    }
    assert_eq!(between.trips(), 1);
    let results: Vec<_> = batch.iter().map(complete).collect();
    for answer in store.complete_many(&results).await {
        assert_eq!(answer.unwrap(), Completed::Stored);
    }
    assert_eq!(between.trips(), 1);
}

async fn a_lock_is_two_round_trips_and_a_decision_one() {
    let place = Place::new();
    let between = Between::new(&place, "").await;
    let store = open(&between.url).await.unwrap();
    let name = Name::new(&Namespace::default(), &Scope::new(SCOPE).unwrap(), &Key::new("k").unwrap());
    let (token, lease) = (Token::random().unwrap(), Span::new(LEASE).unwrap());
    let req = Acquire { name: name.clone(), token, lease, holder: Holder::default() };
    between.trips();
    assert!(matches!(store.acquire(&req).await.unwrap(), Acquired::Yours(_)));
    assert_eq!(LockStore::release(&store, &name, &token).await.unwrap(), Write::Applied);
    assert_eq!(between.trips(), 2);
    let check = |n: usize| Check::new(LimitKey::new(&n.to_string()).unwrap(), Quota::token_bucket(5, LEASE));
    for count in [1, MOST] {
        let checks = (0..count).map(check).collect();
        let req = Decide { namespace: Namespace::default(), checks, dry_run: false };
        assert!(store.decide(&req).await.unwrap().allowed(&req.checks));
        assert_eq!(between.trips(), 1);
    }
}
