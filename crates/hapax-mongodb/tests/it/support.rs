//! Stores in a database of their own, and requests.

use hapax_core::{
    BackendUrl, Fingerprint, Key, Name, Namespace, Scope, Span, StoreError, StoreResult, Token,
    idempotency::{Complete, Kind, Receipt, Record, RecordState, Reserve, Reserved},
    registry::ConnectOptions,
};
use hapax_mongodb::{MongoOptions, MongoStore};
use hapax_testkit::mongodb::{SharedMongo, in_database};
use mongodb::{
    Client, Collection, Database,
    bson::{Document, doc},
};
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const TTL: Duration = Duration::from_hours(24);

/// A database on the server of all tests.
pub(crate) struct Place {
    pub(crate) server: SharedMongo,
    pub(crate) database: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let database = format!("it_{}", Token::random().unwrap().version());
        Self { server: SharedMongo::join(), database }
    }

    pub(crate) fn url(&self, more: &str) -> String {
        in_database(&self.server.url(), &self.database) + more
    }

    pub(crate) async fn store(&self) -> MongoStore {
        open(&self.url("")).await.unwrap()
    }

    /// A connection that knows nothing of hapax.
    pub(crate) async fn raw(&self) -> Database {
        Client::with_uri_str(self.server.url()).await.unwrap().database(&self.database)
    }

    pub(crate) async fn records(&self) -> Collection<Document> {
        self.raw().await.collection("idempotency")
    }

    pub(crate) async fn meta(&self) -> Collection<Document> {
        self.raw().await.collection("idempotency_meta")
    }

    /// The only record that there is.
    pub(crate) async fn record(&self) -> Document {
        self.records().await.find_one(doc! {}).await.unwrap().unwrap()
    }

    /// Changes the only record that there is.
    pub(crate) async fn change(&self, update: Document) {
        let changed = self.records().await.update_one(doc! { "_id": id() }, update).await.unwrap();
        assert_eq!(changed.matched_count, 1);
    }
}

/// Of the key `k`.
pub(crate) fn id() -> &'static str {
    "default  test  k"
}

pub(crate) async fn options(url: &str) -> StoreResult<MongoOptions> {
    MongoOptions::from_url(&BackendUrl::parse(url)?, &ConnectOptions::default()).await
}

pub(crate) async fn open(url: &str) -> StoreResult<MongoStore> {
    MongoStore::connect(options(url).await?).await
}

pub(crate) async fn refused(url: &str) -> StoreError {
    match open(url).await {
        Err(error) => error,
        Ok(store) => panic!("{store:?} was opened"),
    }
}

pub(crate) fn name(key: &str) -> Name {
    Name::new(&Namespace::default(), &Scope::new("test").unwrap(), &Key::new(key).unwrap())
}

pub(crate) fn reserve(key: &str) -> Reserve {
    Reserve {
        name: name(key),
        token: Token::random().unwrap(),
        fingerprint: Fingerprint::of_bytes(key.as_bytes()),
        lease: Span::new(LEASE).unwrap(),
    }
}

pub(crate) fn complete(req: &Reserve) -> Complete {
    Complete {
        name: req.name.clone(),
        token: req.token,
        fingerprint: req.fingerprint,
        kind: Kind::Done,
        receipt: Receipt::new("test", b"paid".to_vec()),
        ttl: Span::new(TTL).unwrap(),
    }
}

pub(crate) fn is_yours(answer: &Reserved) -> bool {
    matches!(answer, Reserved::Yours { .. })
}

pub(crate) fn is_done(record: Option<&Record>) -> bool {
    record.is_some_and(|record| matches!(record.state, RecordState::Settled { kind: Kind::Done, .. }))
}
