//! The MongoDB store under the suite of all stores.
#![expect(clippy::expect_used, reason = "tests")]

use hapax_conformance::{BoxError, StoreUnderTest, Suite, async_trait};
use hapax_core::{BackendUrl, Token, registry::ConnectOptions};
use hapax_mongodb::{MongoOptions, MongoStore};
use hapax_testkit::mongodb::{SharedMongo, in_database, missing};
use mongodb::{Client, bson::doc};
use std::{process::ExitCode, time::Duration};

/// A server to use in place of one of our own.
fn given() -> Option<String> {
    std::env::var("HAPAX_TEST_MONGODB_URL").ok()
}

/// A database for each case.
struct Mongo {
    url: String,
    database: String,
    _server: Option<SharedMongo>,
}

#[async_trait]
impl StoreUnderTest for Mongo {
    type Store = MongoStore;

    async fn fresh() -> Result<Self, BoxError> {
        let server = given().is_none().then(SharedMongo::join);
        let url = server.as_ref().map(SharedMongo::url).or_else(given).unwrap_or_default();
        let database = format!("case_{}", Token::random()?.version());
        Ok(Self { url: in_database(&url, &database), database, _server: server })
    }

    async fn client(&self) -> Result<MongoStore, BoxError> {
        // Cases run side by side, and a machine may be busy.
        let url = BackendUrl::parse(&format!("{}timeout=30s", self.url))?;
        let options = MongoOptions::from_url(&url, &ConnectOptions::default()).await?;
        Ok(MongoStore::connect(options).await?)
    }

    /// The ends of leases and results come nearer.
    async fn elapse(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("some days");
        let client = Client::with_uri_str(&self.url).await.expect("the URL");
        let sooner = ["pending.until", "result.until", "late.until"].map(|end| {
            doc! { "q": { end: { "$exists": true } }, "u": { "$inc": { end: -by } }, "multi": true }
        });
        let command = doc! { "update": "idempotency", "updates": sooner.to_vec() };
        let reply = client.database(&self.database).run_command(command).await.expect("time passes");
        assert!(!reply.contains_key("writeErrors"), "{reply}");
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
