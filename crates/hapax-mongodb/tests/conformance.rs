//! The MongoDB store under the suite of all stores: as it is, through a proxy that cuts, and with wrong clocks.
#![expect(clippy::expect_used, reason = "tests")]

mod beside;

use beside::{Limits, Locks};
use futures_util::TryStreamExt as _;
use hapax_conformance::{BoxError, Insisting, StoreUnderTest, Suite, async_trait};
use hapax_core::{BackendUrl, BootTime, Clock, Now, SystemClock, Timestamp, Token, registry::ConnectOptions};
use hapax_mongodb::{MongoOptions, MongoStore};
use hapax_testkit::{
    Fault, Proxy, Rotation, is_long,
    mongodb::{SharedMongo, in_database, missing},
};
use mongodb::{
    Client, Database,
    bson::{Bson, Document, doc},
};
use std::{
    collections::HashSet,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
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
    server: Option<SharedMongo>,
}

async fn options(url: &str) -> Result<MongoOptions, BoxError> {
    // Cases run side by side, and a machine may be busy.
    let url = BackendUrl::parse(&format!("{url}timeout=30s"))?;
    Ok(MongoOptions::from_url(&url, &ConnectOptions::default()).await?)
}

impl Mongo {
    fn itself(&self) -> &Self {
        self
    }

    /// A connection that lets time pass.
    async fn shifted(&self) -> Database {
        let client = self.shifter.get_or_init(|| Client::with_uri_str(&self.url));
        client.await.as_ref().expect("the URL").database(&self.database)
    }

    async fn documents(&self, collection: &str) -> Vec<Document> {
        let found = self.shifted().await.collection::<Document>(collection).find(doc! {}).await;
        found.expect("a cursor").try_collect().await.expect("documents")
    }

    async fn met_by_faults(&self) -> Result<(MongoStore, Option<Rotation>), BoxError> {
        Ok((self.client().await?, None))
    }
}

#[async_trait]
impl StoreUnderTest for Mongo {
    type Store = MongoStore;

    fn is_slow() -> bool {
        true
    }

    async fn fresh() -> Result<Self, BoxError> {
        let server = given().is_none().then(SharedMongo::join);
        let url = server.as_ref().map(SharedMongo::url).or_else(given).unwrap_or_default();
        let database = format!("case_{}", Token::random()?.version());
        Ok(Self {
            url: in_database(&url, &database),
            database,
            nudged: Mutex::default(),
            shifter: OnceCell::new(),
            server,
        })
    }

    async fn client(&self) -> Result<MongoStore, BoxError> {
        Ok(MongoStore::connect(options(&self.url).await?).await?)
    }

    /// The ends of leases and results come nearer, each of them once by a little more: the store gives an owner a second,
    /// and what lies within the round trip in which it was told the time.
    async fn elapse(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("some days");
        let database = self.shifted().await;
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

/// What the way to the server could make a difference to. The others are run with `HAPAX_TEST_LONG`.
fn skips_but_for(areas: &[&str], case: &str) -> Option<&'static str> {
    let is_run = is_long() || areas.iter().any(|area| case.starts_with(area));
    if is_run { Mongo::skips(case) } else { Some("in this way with HAPAX_TEST_LONG=1 alone") }
}

/// Requests that may be sent twice meet a fault on their way: all of them in turn.
struct Cut(Mongo);

/// The driver may take half a second to see that a server it lost is there, so most of them are of the other kind.
const FAULTS: &[Fault] = {
    use Fault::{CutAfter, CutBefore, CutReply, Twice};
    &[Twice, CutAfter, Twice, CutBefore, Twice, Twice, CutReply, Twice, Twice, Twice, Twice]
};

impl Cut {
    fn place(&self) -> &Mongo {
        &self.0
    }

    async fn met_by_faults(&self) -> Result<(MongoStore, Option<Rotation>), BoxError> {
        let server = self.0.server.as_ref().ok_or("the server has to be one of our own")?;
        let proxy = Proxy::before(server.port());
        let url = format!("mongodb://127.0.0.1:{}/?directConnection=true", proxy.port());
        let store = MongoStore::connect(options(&in_database(&url, &self.0.database)).await?).await?;
        Ok((store, Some(Rotation::new(proxy, FAULTS).sparse())))
    }
}

#[async_trait]
impl StoreUnderTest for Cut {
    type Store = Insisting<MongoStore, Rotation>;

    fn is_slow() -> bool {
        true
    }

    async fn fresh() -> Result<Self, BoxError> {
        Mongo::fresh().await.map(Self)
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        let (store, faults) = self.met_by_faults().await?;
        Ok(Insisting::new(store, faults.ok_or("no faults")?))
    }

    async fn elapse(&self, by: Duration) {
        self.0.elapse(by).await;
    }

    fn exact_time() -> bool {
        false
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    fn skips(case: &str) -> Option<&'static str> {
        if given().is_some() {
            return Some("a server is given, and no proxy");
        }
        if case.starts_with("races::") {
            return Some("what a caller makes of an answer holds where it is alone");
        }
        if case == "contract::a_batch_of_a_thousand_keeps_its_order" {
            return Some("reads a thousand keys one by one");
        }
        // And after each cut the driver waits.
        skips_but_for(&["expiry::"], case)
    }
}

/// A machine whose wall clock is wrong by an hour.
#[derive(Debug)]
struct Wrong {
    ahead: bool,
}

impl Clock for Wrong {
    fn read(&self) -> Now {
        let (hour, Now { wall, boot }) = (60 * 60 * 1000, SystemClock.read());
        let wall = wall.as_millis() + if self.ahead { hour } else { -hour };
        Now { wall: Timestamp::from_millis(wall), boot }
    }

    fn boot(&self) -> BootTime {
        SystemClock.boot()
    }

    fn boot_id(&self) -> Arc<str> {
        SystemClock.boot_id()
    }
}

/// One client's clock is an hour ahead, the next one's an hour behind.
struct WrongClocks {
    place: Mongo,
    is_ahead: AtomicBool,
}

#[async_trait]
impl StoreUnderTest for WrongClocks {
    type Store = MongoStore;

    fn is_slow() -> bool {
        true
    }

    async fn fresh() -> Result<Self, BoxError> {
        Ok(Self { place: Mongo::fresh().await?, is_ahead: AtomicBool::new(false) })
    }

    async fn client(&self) -> Result<MongoStore, BoxError> {
        let ahead = !self.is_ahead.fetch_not(Ordering::SeqCst);
        let options = options(&self.place.url).await?.clock(Arc::new(Wrong { ahead }));
        Ok(MongoStore::connect(options).await?)
    }

    async fn elapse(&self, by: Duration) {
        self.place.elapse(by).await;
    }

    fn exact_time() -> bool {
        false
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    fn skips(case: &str) -> Option<&'static str> {
        skips_but_for(&["expiry::"], case)
    }
}

fn main() -> ExitCode {
    Suite::new()
        .with::<Mongo>("mongodb")
        .with::<Cut>("mongodb_cut")
        .with::<WrongClocks>("mongodb_wrong_clocks")
        .with_locks::<Locks<Mongo>>("mongodb")
        .with_locks::<Locks<Cut>>("mongodb_cut")
        .with_limits::<Limits>("mongodb")
        .run()
}
