//! The MongoDB store under the suite of all stores.
#![expect(clippy::expect_used, reason = "tests")]

use futures_util::TryStreamExt as _;
use hapax_conformance::{BoxError, StoreUnderTest, Suite, async_trait};
use hapax_core::{BackendUrl, Clock as _, SystemClock, Token, registry::ConnectOptions};
use hapax_mongodb::{MongoOptions, MongoStore};
use hapax_testkit::mongodb::{SharedMongo, in_database, missing};
use mongodb::{
    Client,
    bson::{Bson, Document, doc},
};
use std::{collections::HashSet, process::ExitCode, sync::Mutex, time::Duration};
use tokio::sync::OnceCell;

/// More than the store leaves to an owner.
const MARGIN: i64 = 2_000;

/// A server to use in place of one of our own.
fn given() -> Option<String> {
    std::env::var("HAPAX_TEST_MONGODB_URL").ok()
}

/// A database for each case.
struct Mongo {
    url: String,
    database: String,
    /// Tokens, and the ends that came nearer by the margin.
    nudged: Mutex<HashSet<(String, i64)>>,
    shifter: OnceCell<mongodb::error::Result<Client>>,
    _server: Option<SharedMongo>,
}

#[async_trait]
impl StoreUnderTest for Mongo {
    type Store = MongoStore;

    async fn fresh() -> Result<Self, BoxError> {
        let server = given().is_none().then(SharedMongo::join);
        let url = server.as_ref().map(SharedMongo::url).or_else(given).unwrap_or_default();
        let database = format!("case_{}", Token::random()?.version());
        Ok(Self {
            url: in_database(&url, &database),
            database,
            nudged: Mutex::default(),
            shifter: OnceCell::new(),
            _server: server,
        })
    }

    async fn client(&self) -> Result<MongoStore, BoxError> {
        // Cases run side by side, and a machine may be busy.
        let url = BackendUrl::parse(&format!("{}timeout=30s", self.url))?;
        let options = MongoOptions::from_url(&url, &ConnectOptions::default()).await?;
        Ok(MongoStore::connect(options).await?)
    }

    /// The ends of leases and results come nearer, each of them once by a little more: the store gives an owner a second,
    /// and what lies within the round trip in which it was told the time.
    async fn elapse(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("some days");
        let client = self.shifter.get_or_init(|| Client::with_uri_str(&self.url));
        let database = client.await.as_ref().expect("the URL").database(&self.database);
        // What has been over for a while stays so.
        let past = SystemClock.now().as_millis() - 60_000;
        let ends =
            ["pending", "result", "late"].map(|part| doc! { format!("{part}.until"): { "$gt": past } });
        let records = database.collection::<Document>("idempotency");
        let found = records.find(doc! { "$or": ends.to_vec() }).await.expect("a cursor");
        let mut updates = Vec::new();
        for record in found.try_collect::<Vec<_>>().await.expect("records") {
            let mut nearer = Document::new();
            for part in ["pending", "result", "late"] {
                let Ok(fields) = record.get_document(part) else { continue };
                let token = fields.get_str("token").expect("a token").to_owned();
                let until = match fields.get("until").expect("an end") {
                    Bson::Int32(until) => i64::from(*until),
                    until => until.as_i64().expect("a whole number"),
                };
                let mut nudged = self.nudged.lock().expect("the ends");
                let less = if nudged.remove(&(token.clone(), until)) { by } else { by + MARGIN };
                nearer.insert(format!("{part}.until"), -less);
                nudged.insert((token, until - less));
            }
            let id = record.get_str("_id").expect("an id");
            updates.push(doc! { "q": { "_id": id }, "u": { "$inc": nearer } });
        }
        if !updates.is_empty() {
            let command = doc! { "update": "idempotency", "updates": updates };
            let reply = database.run_command(command).await.expect("time passes");
            assert!(!reply.contains_key("writeErrors"), "{reply}");
        }
    }

    fn exact_time() -> bool {
        false
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        // Everything is on the server; the next client makes its own connections.
        Ok(true)
    }

    fn skips(_: &str) -> Option<&'static str> {
        (given().is_none() && missing().is_some()).then_some("neither mongod nor its stand-in is installed")
    }
}

fn main() -> ExitCode {
    Suite::new().with::<Mongo>("mongodb").run()
}
