//! Replies that get lost on the way.

use crate::support::{complete, is_done, is_yours, open, reserve, span};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, Extended, IdempotencyStore, Write},
};
use hapax_testkit::redis::Redis;
use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

crate::list!("lost", &[];
    a_step_whose_reply_was_lost_is_answered_all_the_same,
    a_batch_whose_reply_was_lost_is_answered_all_the_same,
    a_release_whose_reply_was_lost_is_not_sent_twice,
    a_step_whose_replies_are_all_lost_may_have_been_done,
);

/// Stands before a server, and breaks connections in place of so many answers.
struct Proxy {
    port: u16,
    to_lose: Arc<AtomicUsize>,
}

impl Proxy {
    fn before(server: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, behind) = (listener.local_addr().unwrap().port(), server.port());
        let to_lose = Arc::new(AtomicUsize::new(0));
        let losing = Arc::clone(&to_lose);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, losing) = (client.unwrap(), Arc::clone(&losing));
                let server = TcpStream::connect(("127.0.0.1", behind)).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, || false));
                let lose = move || {
                    losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
                };
                std::thread::spawn(move || pass(server, client, lose));
            }
        });
        Self { port, to_lose }
    }

    fn url(&self, options: &str) -> String {
        format!("redis://127.0.0.1:{}?timeout=2s{options}", self.port)
    }

    /// The next answers are lost.
    fn lose(&self, count: usize) {
        self.to_lose.store(count, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut lose: impl FnMut() -> bool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if lose() || to.write_all(bytes.get(..read).unwrap_or_default()).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

async fn a_step_whose_reply_was_lost_is_answered_all_the_same() {
    let server = Redis::start();
    let proxy = Proxy::before(&server);
    for more in ["", "&commands=6.2", "&protocol=3"] {
        assert!(server.ask("FLUSHALL").starts_with("+OK"));
        let store = open(&proxy.url(more)).await;
        let (req, warm) = (reserve("k"), reserve("warm"));
        // The server knows the scripts by then: else the first answer is that it does not.
        let _ = store.extend(&warm.name, &warm.token, warm.lease).await.unwrap();
        let _ = store.complete(&complete(&warm)).await.unwrap();
        proxy.lose(1);
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        proxy.lose(1);
        let extended = store.extend(&req.name, &req.token, span(Duration::from_mins(3))).await.unwrap();
        assert!(matches!(extended, Extended::Until(_)));
        proxy.lose(1);
        // It was done the first time.
        assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::AlreadyDone);
        proxy.lose(1);
        assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
    }
}

async fn a_batch_whose_reply_was_lost_is_answered_all_the_same() {
    let server = Redis::start();
    let proxy = Proxy::before(&server);
    let store = open(&proxy.url("")).await;
    let reqs: Vec<_> = (0..300).map(|n| reserve(&format!("k{n}"))).collect();
    proxy.lose(1);
    for answer in store.reserve_many(&reqs).await {
        assert!(is_yours(&answer.unwrap()));
    }
    let results: Vec<_> = reqs.iter().map(complete).collect();
    proxy.lose(1);
    for answer in store.complete_many(&results).await {
        assert!(matches!(answer.unwrap(), Completed::Stored | Completed::AlreadyDone));
    }
    for req in &reqs {
        assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
    }
}

async fn a_release_whose_reply_was_lost_is_not_sent_twice() {
    let server = Redis::start();
    let proxy = Proxy::before(&server);
    let store = open(&proxy.url("")).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    // Known to the server: else the first answer is that it is not.
    let _ = store.release(&reserve("other").name, &req.token).await.unwrap();
    proxy.lose(1);
    let error = store.release(&req.name, &req.token).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown));
    // Who repeats it learns that nothing is held any more.
    assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Fenced);
    assert!(store.read(&req.name).await.unwrap().is_none());
}

async fn a_step_whose_replies_are_all_lost_may_have_been_done() {
    let server = Redis::start();
    let proxy = Proxy::before(&server);
    let store = open(&proxy.url("")).await;
    let direct = open(&server.url()).await;
    let req = reserve("k");
    proxy.lose(usize::MAX);
    let error = store.reserve(&req).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::Unknown), "{error}");
    proxy.lose(0);
    assert!(!is_yours(&direct.reserve(&reserve("k")).await.unwrap()));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
}
