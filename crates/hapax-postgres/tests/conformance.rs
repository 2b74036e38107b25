//! The PostgreSQL store under the suite of all stores: with and without named statements, behind a pooler,
//! and through a proxy that cuts.
#![expect(clippy::expect_used, reason = "tests")]

mod locks;
mod place;

use hapax_conformance::{
    BoxError, HandedOut, Insisting, InsistingQueues, Outcome, QueueClient, QueueUnderTest, StoreUnderTest,
    Suite, async_trait,
};
use hapax_postgres::PostgresStore;
use hapax_testkit::{
    Fault, Rotation, check_clock, is_long,
    postgres::{PGBOUNCER, Pgbouncer, SharedPostgres, missing, missing_beside},
    run_off_by_an_hour, skips_cut_queues,
};
use place::{Kind, Place};
use std::{process::ExitCode, sync::Arc, time::Duration};

/// A server to use in place of one of our own.
fn given() -> Option<String> {
    std::env::var("HAPAX_TEST_POSTGRES_URL").ok()
}

macro_rules! store {
    ($name:ident, $more:literal, $areas:expr) => {
        struct $name(Place);

        #[async_trait]
        impl StoreUnderTest for $name {
            type Store = PostgresStore;

            async fn fresh() -> Result<Self, BoxError> {
                Place::of(Kind::Usual).await.map(Self)
            }

            async fn client(&self) -> Result<PostgresStore, BoxError> {
                self.0.client(&self.0.url, $more).await
            }

            async fn elapse(&self, by: Duration) {
                self.0.elapse(by).await;
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                // Everything is on the server; the next client makes its own connections.
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                let areas: &[&str] = $areas;
                let is_run = is_long() || areas.iter().any(|area| case.starts_with(area));
                without_server(case).or((!is_run).then_some("on this way with HAPAX_TEST_LONG=1 alone"))
            }
        }
    };
}

store!(Plain, "", &[""]);
// What the way of a value to the server could make a difference to.
store!(Prepared, "&prepared=on", &["contract::"]);

/// Behind a pooler that gives each transaction another of few sessions.
struct Pooled {
    place: Place,
    pooler: Pgbouncer,
}

/// What a session could make a difference to. The other areas say what the functions do, whoever calls them: they are run
/// with `HAPAX_TEST_LONG`.
const POOLED_AREAS: [&str; 2] = ["contract::", "races::"];

#[async_trait]
impl StoreUnderTest for Pooled {
    type Store = PostgresStore;

    async fn fresh() -> Result<Self, BoxError> {
        let place = Place::of(Kind::Usual).await?;
        let server = place.server.as_ref().ok_or("the server has to be one of our own")?;
        let pooler = Pgbouncer::before(server.port(), 4);
        Ok(Self { place, pooler })
    }

    async fn client(&self) -> Result<PostgresStore, BoxError> {
        self.place.client(&self.pooler.url(), "").await
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
        if given().is_some() {
            return Some("a server is given, and no pooler");
        }
        if missing_beside(&[PGBOUNCER]).is_some() {
            return Some("PostgreSQL or pgbouncer is not installed");
        }
        let is_run = is_long() || POOLED_AREAS.iter().any(|area| case.starts_with(area));
        (!is_run).then_some("behind a pooler with HAPAX_TEST_LONG=1 alone")
    }
}

/// Requests that may be sent twice meet a fault on their way: all of them in turn.
struct Cut(Place);

/// A request cannot come twice over another connection, which has to be greeted first.
const FAULTS: &[Fault] = &[Fault::CutAfter, Fault::CutBefore, Fault::CutReply];

/// What a lost reply could make a difference to. The others are run with `HAPAX_TEST_LONG`.
const CUT_AREAS: [&str; 2] = ["contract::", "expiry::"];

#[async_trait]
impl StoreUnderTest for Cut {
    type Store = Insisting<PostgresStore, Rotation>;

    async fn fresh() -> Result<Self, BoxError> {
        Place::alone().map(Self)
    }

    async fn client(&self) -> Result<Self::Store, BoxError> {
        let (proxy, store) = self.0.through_proxy().await?;
        Ok(Insisting::new(store, Rotation::new(proxy, FAULTS).sparse()))
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
        if missing().is_some() {
            return Some("PostgreSQL is not installed");
        }
        if case.starts_with("races::") {
            return Some("what a caller makes of an answer holds where it is alone");
        }
        let is_run = is_long() || CUT_AREAS.iter().any(|area| case.starts_with(area));
        (!is_run).then_some("through a proxy with HAPAX_TEST_LONG=1 alone")
    }
}

/// Queues, locks and limits on a server whose clock stands still: the functions of the case's schema ask a table for the time.
struct Still {
    place: Place,
    pooler: Option<Pgbouncer>,
    more: &'static str,
}

impl Still {
    async fn new(is_pooled: bool, more: &'static str) -> Result<Self, BoxError> {
        Self::at(Place::of(Kind::Still).await?, is_pooled, more).await
    }

    async fn at(place: Place, is_pooled: bool, more: &'static str) -> Result<Self, BoxError> {
        let pooler = match (&place.server, is_pooled) {
            (Some(server), true) => Some(Pgbouncer::before(server.port(), 4)),
            _ => None,
        };
        place.stop_clock().await?;
        Ok(Self { place, pooler, more })
    }

    async fn store(&self) -> Result<PostgresStore, BoxError> {
        let url = self.pooler.as_ref().map_or_else(|| self.place.url.clone(), Pgbouncer::url);
        self.place.client(&url, self.more).await
    }

    async fn queue_client(&self) -> Result<QueueClient, BoxError> {
        let store = Arc::new(self.store().await?);
        Ok(QueueClient::new(Arc::clone(&store) as _).with_keys(store))
    }

    async fn pass(&self, by: Duration) {
        let (schema, by) = (&self.place.schema, by.as_millis());
        self.place.run(&format!("UPDATE {schema}.still SET ms = ms + {by}")).await;
    }
}

macro_rules! queues {
    ($name:ident, $is_pooled:literal, $more:literal, $skips:expr) => {
        struct $name(Still);

        #[async_trait]
        impl QueueUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                Still::new($is_pooled, $more).await.map(Self)
            }

            async fn client(&self) -> Result<QueueClient, BoxError> {
                self.0.queue_client().await
            }

            async fn elapse(&self, by: Duration) {
                self.0.pass(by).await;
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                $skips(case)
            }
        }
    };
}

fn without_server(_: &str) -> Option<&'static str> {
    (given().is_none() && missing().is_some()).then_some("PostgreSQL is not installed")
}

/// What a session, or the way of a value to the server, could make a difference to. The other areas say what the functions
/// do, whoever calls them: they are run with `HAPAX_TEST_LONG`.
const QUEUE_AREAS: [&str; 4] = ["queue::add::", "queue::joint::", "queue::lease::", "queue::order::"];

fn other_area(case: &str) -> Option<&'static str> {
    let is_run = is_long() || QUEUE_AREAS.iter().chain(&locks::AREAS).any(|area| case.starts_with(area));
    (!is_run).then_some("on this way with HAPAX_TEST_LONG=1 alone")
}

fn prepared(case: &str) -> Option<&'static str> {
    without_server(case).or_else(|| other_area(case))
}

fn pooled(case: &str) -> Option<&'static str> {
    if given().is_some() {
        return Some("a server is given, and no pooler");
    }
    match missing_beside(&[PGBOUNCER]) {
        Some(_) => Some("PostgreSQL or pgbouncer is not installed"),
        None => other_area(case),
    }
}

queues!(Queues, false, "", without_server);
queues!(PreparedQueues, false, "&prepared=on", prepared);
queues!(PooledQueues, true, "", pooled);

/// Their requests meet a fault on their way, all of them in turn.
struct CutQueues {
    still: Still,
    handed_out: HandedOut,
}

#[async_trait]
impl QueueUnderTest for CutQueues {
    async fn fresh() -> Result<Self, BoxError> {
        let still = Still::at(Place::alone()?, false, "").await?;
        Ok(Self { still, handed_out: HandedOut::default() })
    }

    async fn client(&self) -> Result<QueueClient, BoxError> {
        let (proxy, store) = self.still.place.through_proxy().await?;
        let store = Arc::new(store);
        let rotation = Rotation::new(proxy, FAULTS).sparse();
        let queues = InsistingQueues::new(Arc::clone(&store) as _, rotation, &self.handed_out);
        Ok(QueueClient::new(Arc::new(queues)).with_keys(store))
    }

    async fn elapse(&self, by: Duration) {
        self.still.pass(by).await;
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        Ok(true)
    }

    fn skips(case: &str) -> Option<&'static str> {
        match given() {
            Some(_) => Some("a server is given, and no proxy"),
            None => skips_cut_queues(case, is_long()).or_else(|| without_server(case)),
        }
    }
}

/// On a server that this process starts, from a process whose wall clock is wrong.
fn with_wrong_clock(ahead: bool, filter: &str) -> Outcome {
    if let Some(why) = missing() {
        return Outcome::Ignored(why);
    }
    let server = SharedPostgres::join();
    run_off_by_an_hour(ahead, filter, ("HAPAX_TEST_POSTGRES_URL", &server.url()))
}

/// What times mean for queues: of delays, and of the order that they make.
const TIMES: &str = "postgres::queue::order";

/// And for keys: the ends of leases and results.
fn keys() -> &'static str {
    if is_long() { "postgres::" } else { "postgres::expiry" }
}

fn queues_of_a_client_an_hour_ahead_go_on_alike() -> Outcome {
    with_wrong_clock(true, TIMES)
}

fn queues_of_a_client_an_hour_behind_go_on_alike() -> Outcome {
    with_wrong_clock(false, TIMES)
}

fn main() -> ExitCode {
    check_clock();
    locks::all(Suite::new())
        .with::<Plain>("postgres")
        .with::<Prepared>("postgres_prepared")
        .with::<Pooled>("postgres_pooled")
        .with::<Cut>("postgres_cut")
        .with_queues::<Queues>("postgres")
        .with_queues::<CutQueues>("postgres_cut")
        .with_queues::<PreparedQueues>("postgres_prepared")
        .with_queues::<PooledQueues>("postgres_pooled")
        .also("clocks::a_client_an_hour_ahead_is_answered_alike", || with_wrong_clock(true, keys()))
        .also("clocks::a_client_an_hour_behind_is_answered_alike", || with_wrong_clock(false, keys()))
        .also(
            "clocks::queues_of_a_client_an_hour_ahead_go_on_alike",
            queues_of_a_client_an_hour_ahead_go_on_alike,
        )
        .also(
            "clocks::queues_of_a_client_an_hour_behind_go_on_alike",
            queues_of_a_client_an_hour_behind_go_on_alike,
        )
        .run()
}
