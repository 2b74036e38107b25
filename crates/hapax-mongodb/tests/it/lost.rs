//! Replies that get lost on the way, or come too late.

use crate::support::{Place, complete, is_done, is_yours, open, reserve};
use hapax_conformance::{Faults as _, Insisting};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, Extended, IdempotencyStore, Write},
};
use hapax_mongodb::MongoStore;
use hapax_testkit::{Fault, Proxy, Rotation, mongodb::in_database};

crate::list!("lost";
    a_reply_that_comes_too_late_is_nobodys,
    a_caller_that_insists_is_answered_as_without_faults,
);

const FAULTS: &[Fault] = &[Fault::CutAfter, Fault::Twice, Fault::CutBefore, Fault::CutReply];
/// The driver looks for half a second at the most how a server fares that was lost.
const ROUNDS: usize = 4;

pub(crate) async fn through(proxy: &Proxy, place: &Place, timeout: &str) -> MongoStore {
    let url = format!("mongodb://127.0.0.1:{}/?directConnection=true", proxy.port());
    open(&(in_database(&url, &place.database) + "timeout=" + timeout)).await.unwrap()
}

async fn a_reply_that_comes_too_late_is_nobodys() {
    let place = Place::new();
    let proxy = Proxy::before(place.server.port());
    let (store, req) = (through(&proxy, &place, "2s").await, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    proxy.arm(Fault::Late);
    let error = store.complete(&complete(&req)).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Timeout, Applied::Unknown), "{error}");
    assert!(is_yours(&store.reserve(&reserve("other")).await.unwrap()));
    proxy.let_go();
    assert!(store.read(&reserve("none").name).await.unwrap().is_none());
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::AlreadyDone);
    assert_eq!(proxy.happened(), 1);
}

async fn a_caller_that_insists_is_answered_as_without_faults() {
    let place = Place::new();
    let proxy = Proxy::before(place.server.port());
    let store = through(&proxy, &place, "30s").await;
    let store = Insisting::new(store, Rotation::new(proxy, FAULTS));
    for key in 0..ROUNDS {
        let req = reserve(&key.to_string());
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        assert!(matches!(store.extend(&req.name, &req.token, req.lease).await.unwrap(), Extended::Until(_)));
        if key % 2 == 0 {
            assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
            assert!(is_done(store.read(&req.name).await.unwrap().as_ref()));
        } else {
            assert_eq!(store.release(&req.name, &req.token).await.unwrap(), Write::Applied);
            assert!(store.read(&req.name).await.unwrap().is_none());
        }
    }
    assert_eq!(store.faults().happened(), 4 * ROUNDS);
}
