//! Whose time it is.

use crate::support::{LEASE, Place, TTL, complete, is_yours, options, reserve};
use hapax_core::{
    BootTime, Clock, Now, SystemClock, Timestamp,
    idempotency::{Completed, Extended, IdempotencyStore, RecordState, Reserved},
};
use hapax_mongodb::MongoStore;
use mongodb::bson::doc;
use std::{sync::Arc, time::Duration};

crate::list!("clocks";
    the_clock_of_the_caller_does_not_count,
    an_owner_has_a_second_more,
    instants_in_records_are_the_servers,
);

/// The clocks of a machine that was set wrong, and started at another time.
#[derive(Clone, Copy, Debug)]
struct Wrong {
    wall: i64,
    boot: Duration,
}

impl Clock for Wrong {
    fn read(&self) -> Now {
        let wall = SystemClock.now().as_millis() + self.wall;
        Now { wall: Timestamp::from_millis(wall), boot: SystemClock.boot().after(self.boot) }
    }
    fn boot_id(&self) -> Arc<str> {
        SystemClock.boot_id()
    }
    fn boot(&self) -> BootTime {
        self.read().boot
    }
}

const HOUR: i64 = 60 * 60 * 1000;

async fn on(place: &Place, wall: i64, boot: Duration) -> MongoStore {
    let options = options(&place.url("")).await.unwrap().clock(Arc::new(Wrong { wall, boot }));
    MongoStore::connect(options).await.unwrap()
}

async fn the_clock_of_the_caller_does_not_count() {
    let place = Place::new();
    let right = place.store().await;
    for (wall, boot) in
        [(HOUR, Duration::ZERO), (-HOUR, Duration::from_hours(9)), (0, Duration::from_hours(400 * 24))]
    {
        let wrong = on(&place, wall, boot).await;
        let key = format!("{wall} {boot:?}");
        let (mine, other) = (reserve(&key), reserve(&key));
        // Nobody takes a live lease, whichever of the two made it.
        for (owner, rival) in [(&right, &wrong), (&wrong, &right)] {
            let Reserved::Yours { until, .. } = owner.reserve(&mine).await.unwrap() else { panic!("held") };
            let off =
                until.since(SystemClock.now().after(LEASE)).max(SystemClock.now().after(LEASE).since(until));
            assert!(off < Duration::from_secs(10), "{key}: {off:?}");
            assert!(matches!(rival.reserve(&other).await.unwrap(), Reserved::Held(_)), "{key}");
            let Extended::Until(longer) = rival.extend(&mine.name, &mine.token, mine.lease).await.unwrap()
            else {
                panic!("fenced")
            };
            assert!(longer >= until && longer.since(until) < Duration::from_secs(10), "{key}");
            let _ = owner.release(&mine.name, &mine.token).await.unwrap();
        }
        // A lease that is over is over for both.
        assert!(is_yours(&right.reserve(&mine).await.unwrap()));
        let sooner = doc! { "$inc": { "pending.until": -70_000_i64 } };
        place.records().await.update_one(doc! {}, sooner).await.unwrap();
        assert!(is_yours(&wrong.reserve(&other).await.unwrap()), "{key}");
        assert!(matches!(right.reserve(&mine).await.unwrap(), Reserved::Held(_)), "{key}");
        assert_eq!(wrong.complete(&complete(&other)).await.unwrap(), Completed::Stored);
        assert!(right.read(&mine.name).await.unwrap().is_some_and(|record| !record.is_pending()), "{key}");
        place.records().await.delete_many(doc! {}).await.unwrap();
    }
}

async fn an_owner_has_a_second_more() {
    let place = Place::new();
    let (store, mine, other) = (place.store().await, reserve("k"), reserve("k"));
    let Reserved::Yours { until, .. } = store.reserve(&mine).await.unwrap() else { panic!("held") };
    let ends = |ms: i64| {
        let until = SystemClock.now().as_millis() + ms;
        place.change(doc! { "$set": { "pending.until": until } })
    };
    assert!(until > SystemClock.now());
    // Over by this machine's clock, which is the server's; not by what may be its clock, less the margin.
    ends(-100).await;
    assert!(matches!(store.reserve(&other).await.unwrap(), Reserved::Held(record) if record.is_pending()));
    ends(-5_000).await;
    assert!(is_yours(&store.reserve(&other).await.unwrap()));
}

async fn instants_in_records_are_the_servers() {
    let place = Place::new();
    let (wrong, req) = (on(&place, HOUR, Duration::ZERO).await, reserve("k"));
    assert!(is_yours(&wrong.reserve(&req).await.unwrap()));
    assert_eq!(wrong.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    let record = wrong.read(&req.name).await.unwrap().unwrap();
    let RecordState::Settled { completed_at, .. } = record.state else { panic!("pending") };
    let now = SystemClock.now();
    for (what, instant, ago) in [
        ("first_at", record.first_at, now),
        ("completed_at", completed_at, now),
        ("until", record.until, now.after(TTL)),
    ] {
        let off = instant.since(ago).max(ago.since(instant));
        assert!(off < Duration::from_secs(10), "{what}: {off:?}");
    }
    let clock = wrong.clock();
    let off = clock.now().since(now).max(now.since(clock.now()));
    assert!(off < Duration::from_secs(10), "{off:?}");
}
