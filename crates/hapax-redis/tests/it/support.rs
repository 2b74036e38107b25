//! Stores, raw connections, and requests.

use hapax_core::{
    BackendUrl, Fingerprint, Key, Name, Namespace, Scope, Span, StoreError, StoreResult, Token,
    idempotency::{Complete, Kind, Receipt, Record, RecordState, Reserve, Reserved},
    registry::ConnectOptions,
};
use hapax_redis::{RedisOptions, RedisStore};
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const TTL: Duration = Duration::from_hours(24);

pub(crate) async fn try_open(url: &str) -> StoreResult<RedisStore> {
    let url = BackendUrl::parse(url)?;
    RedisStore::connect(RedisOptions::from_url(&url, &ConnectOptions::default())?).await
}

pub(crate) async fn open(url: &str) -> RedisStore {
    try_open(url).await.unwrap()
}

pub(crate) async fn refusal(url: &str) -> StoreError {
    match try_open(url).await {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

/// The server's URL for a user.
pub(crate) fn at(server: &hapax_testkit::redis::Redis, login: &str) -> String {
    server.url().replace("redis://", &format!("redis://{login}@"))
}

/// A connection that knows nothing of hapax.
pub(crate) async fn raw(url: &str) -> redis::aio::MultiplexedConnection {
    // A machine that is slow today is no failure: what hangs is ended by the runner.
    let config = redis::AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    redis::Client::open(url).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// One command, written as one line.
pub(crate) async fn run<T: redis::FromRedisValue>(
    connection: &mut redis::aio::MultiplexedConnection,
    line: &str,
) -> T {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    cmd.arg(words.collect::<Vec<_>>());
    cmd.query_async(connection).await.unwrap()
}

pub(crate) fn name(key: &str) -> Name {
    Name::new(&Namespace::default(), &Scope::new("test").unwrap(), &Key::new(key).unwrap())
}

/// Where the record of [`name`] lies.
pub(crate) fn place(key: &str) -> String {
    format!("hapax{{}}k:7:default4:test{key}")
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::new(duration).unwrap()
}

pub(crate) fn reserve(key: &str) -> Reserve {
    Reserve {
        name: name(key),
        token: Token::random().unwrap(),
        fingerprint: Fingerprint::of_bytes(key.as_bytes()),
        lease: span(LEASE),
    }
}

pub(crate) fn complete(req: &Reserve) -> Complete {
    with_receipt(req, b"paid".to_vec())
}

pub(crate) fn with_receipt(req: &Reserve, bytes: Vec<u8>) -> Complete {
    Complete {
        name: req.name.clone(),
        token: req.token,
        fingerprint: req.fingerprint,
        kind: Kind::Done,
        receipt: Receipt::new("test", bytes),
        ttl: span(TTL),
    }
}

pub(crate) fn is_yours(answer: &Reserved) -> bool {
    matches!(answer, Reserved::Yours { .. })
}

pub(crate) fn is_done(record: Option<&Record>) -> bool {
    record.is_some_and(|record| matches!(record.state, RecordState::Settled { kind: Kind::Done, .. }))
}

pub(crate) fn is_held_done(answer: &Reserved) -> bool {
    matches!(answer, Reserved::Held(record) if is_done(Some(record)))
}

/// Waits for a condition; fails after a minute, on a busy machine too.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), waited).await.is_ok(), "never so: {what}");
}
