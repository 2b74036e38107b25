//! Locks and rate limits beside the keys of a store under test.

use crate::{Cut, MARGIN, Mongo, skips_but_for};
use hapax_conformance::{BoxError, LaterLocks, LimitUnderTest, LockUnderTest, StoreUnderTest, async_trait};
use hapax_core::{Clock as _, SystemClock, limit::LimitStore, lock::LockStore};
use mongodb::bson::{Bson, Document, doc};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const LOCKS: &str = "idempotency_lock";
const LIMITS: &str = "idempotency_limit";

fn whole(document: &Document, name: &str) -> i64 {
    match document.get(name).expect("a number") {
        Bson::Int32(number) => i64::from(*number),
        number => number.as_i64().expect("a whole number"),
    }
}

impl Mongo {
    /// Writes anew what the change says of each document of a collection.
    async fn change_each(&self, collection: &str, change: impl Fn(&Document) -> Document) {
        let database = self.shifted().await;
        let updates: Vec<_> = self
            .documents(collection)
            .await
            .iter()
            .map(|found| doc! { "q": { "_id": found.get_str("_id").expect("an id") }, "u": { "$set": change(found) } })
            .collect();
        if !updates.is_empty() {
            let reply = database.run_command(doc! { "update": collection, "updates": updates });
            let reply = reply.await.expect("time passes");
            assert!(!reply.contains_key("writeErrors"), "{reply}");
        }
    }
}

/// The locks of a store under test.
pub(crate) struct Locks<K> {
    keys: K,
    passed: Arc<AtomicU64>,
    /// Tokens, and the ends that came nearer by the margin.
    nudged: Mutex<HashSet<(String, i64)>>,
}

impl<K> Locks<K> {
    fn of(keys: K) -> Self {
        Self { keys, passed: Arc::default(), nudged: Mutex::default() }
    }

    /// The ends of leases come nearer, each of them once by a little more; see [`Mongo::elapse`].
    async fn pass(&self, place: &Mongo, by: Duration) {
        self.passed.fetch_add(u64::try_from(by.as_millis()).expect("some days"), Ordering::SeqCst);
        let by = i64::try_from(by.as_millis()).expect("some days");
        // What has been over for a while stays so.
        let past = SystemClock.now().as_millis() - 60_000;
        place
            .change_each(LOCKS, |lock| {
                let mut set =
                    doc! { "used_at": whole(lock, "used_at") - by, "ends": whole(lock, "ends") - by - MARGIN };
                if let Ok(held) = lock.get_document("held") {
                    let (token, until) =
                        (held.get_str("token").expect("a token").to_owned(), whole(held, "until"));
                    let mut nudged = self.nudged.lock().expect("the ends");
                    let less =
                        if nudged.remove(&(token.clone(), until)) || until < past { by } else { by + MARGIN };
                    nudged.insert((token, until - less));
                    set.insert("held.until", until - less);
                    set.insert("held.since", whole(held, "since") - by);
                }
                set
            })
            .await;
    }

    async fn lose(place: &Mongo) {
        place.shifted().await.collection::<Document>(LOCKS).drop().await.expect("a loss");
    }
}

macro_rules! locks {
    ($keys:ty, $place:expr, $skips:expr) => {
        #[async_trait]
        impl LockUnderTest for Locks<$keys> {
            async fn fresh() -> Result<Self, BoxError> {
                Ok(Self::of(<$keys as StoreUnderTest>::fresh().await?))
            }

            async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
                let (store, faults) = self.keys.met_by_faults().await?;
                let locks = LaterLocks::new(Arc::new(store), Arc::clone(&self.passed));
                Ok(match faults {
                    Some(faults) => Arc::new(locks.met_by(faults)),
                    None => Arc::new(locks),
                })
            }

            async fn elapse(&self, by: Duration) {
                self.pass($place(&self.keys), by).await;
            }

            fn exact_time() -> bool {
                false
            }

            fn is_slow() -> bool {
                true
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                Ok(true)
            }

            async fn lose_everything(&self) -> Result<bool, BoxError> {
                Self::lose($place(&self.keys)).await;
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                $skips(case)
            }
        }
    };
}

locks!(Mongo, Mongo::itself, Mongo::skips);
locks!(Cut, Cut::place, skips_cut);

fn skips_cut(case: &str) -> Option<&'static str> {
    match crate::given() {
        Some(_) => Some("a server is given, and no proxy"),
        None => skips_but_for(&["lock::faults::"], case),
    }
}

/// The limits of a store under test.
pub(crate) struct Limits(Mongo);

#[async_trait]
impl LimitUnderTest for Limits {
    async fn fresh() -> Result<Self, BoxError> {
        Mongo::fresh().await.map(Self)
    }

    async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
        Ok(Arc::new(StoreUnderTest::client(&self.0).await?))
    }

    async fn elapse(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("some days");
        self.0
            .change_each(LIMITS, |limit| {
                let mut set = doc! { "ends": whole(limit, "ends") - by };
                match limit.get_array("log") {
                    Ok(log) => {
                        let earlier = |entry: &Bson| {
                            let (at, n) =
                                entry.as_str().and_then(|text| text.split_once(' ')).expect("an entry");
                            format!("{} {n}", at.parse::<i64>().expect("a time") - by)
                        };
                        let log: Vec<_> = log.iter().map(earlier).collect();
                        set.insert("log", log);
                        if limit.contains_key("from") {
                            set.insert("from", whole(limit, "from") - by);
                        }
                    }
                    Err(_) => drop(set.insert("at", whole(limit, "at") - by)),
                }
                set
            })
            .await;
    }

    fn exact_time() -> bool {
        false
    }

    fn is_slow() -> bool {
        true
    }

    fn most() -> usize {
        1
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    fn skips(case: &str) -> Option<&'static str> {
        Mongo::skips(case)
    }
}
