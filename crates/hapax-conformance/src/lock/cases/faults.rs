//! Lost replies, and requests that come twice or late.

use super::list;
use crate::{
    faulty::{Fault, FaultyLocks, LockStep},
    fixture::{Verdict, failed, holds, same},
    lock::{
        Door,
        door::{acquire, lock},
    },
    requests::{A, B, C, LEASE, span},
};
use hapax_core::{
    Applied,
    lock::{Acquired, Extended, LockStore, Write},
};
use std::sync::Arc;

list!("faults":
    a_lost_reply_to_an_acquire_costs_nothing,
    a_lost_reply_to_a_release_costs_nothing,
    a_lost_reply_to_an_extend_costs_nothing,
    a_doubled_acquire_is_one_grant,
    a_late_acquire_of_a_caller_that_is_gone_ends_with_its_lease,
    a_late_release_does_not_free_the_next_holder,
);

async fn a_lost_reply_to_an_acquire_costs_nothing(door: Door) -> Verdict {
    let store = FaultyLocks::new(Arc::clone(&door.a));
    store.inject(LockStep::Acquire, Fault::LostReply);
    let lost = store.acquire(&acquire("k", A)).await;
    holds(lost.is_err_and(|error| error.applied() == Applied::Unknown), || "the reply was not lost".into())?;
    let seen = door.b.show(&lock("k")).await?.fence;
    let Acquired::Yours(grant) = store.acquire(&acquire("k", A)).await? else {
        return Err(failed("the caller is locked out by itself"));
    };
    same("the fence of the one grant", &Some(grant.fence), &seen)?;
    same("the release", &store.release(&lock("k"), &A).await?, &Write::Applied)
}

async fn a_lost_reply_to_a_release_costs_nothing(door: Door) -> Verdict {
    let store = FaultyLocks::new(Arc::clone(&door.a));
    door.takes("k", A).await?;
    store.inject(LockStep::Release, Fault::LostReply);
    holds(store.release(&lock("k"), &A).await.is_err(), || "the reply was not lost".into())?;
    door.takes("k", B).await?;
    same("the release, sent again", &store.release(&lock("k"), &A).await?, &Write::Applied)?;
    door.is_busy(&acquire("k", C), LEASE).await
}

async fn a_lost_reply_to_an_extend_costs_nothing(door: Door) -> Verdict {
    let store = FaultyLocks::new(Arc::clone(&door.a));
    door.takes("k", A).await?;
    for fault in [Fault::LostReply, Fault::Before] {
        store.inject(LockStep::Extend, fault);
        holds(store.extend(&lock("k"), &A, span(LEASE)).await.is_err(), || "no fault".into())?;
    }
    let extended = store.extend(&lock("k"), &A, span(LEASE)).await?;
    holds(matches!(extended, Extended::Until(_)), || "the holder is fenced".into())
}

async fn a_doubled_acquire_is_one_grant(door: Door) -> Verdict {
    let store = FaultyLocks::new(Arc::clone(&door.a));
    store.inject(LockStep::Acquire, Fault::Duplicate);
    let Acquired::Yours(grant) = store.acquire(&acquire("k", A)).await? else {
        return Err(failed("locked out by itself"));
    };
    store.inject(LockStep::Release, Fault::Duplicate);
    same("the release", &store.release(&lock("k"), &A).await?, &Write::Applied)?;
    let next = door.takes("k", B).await?;
    holds(next.fence > grant.fence, || format!("{next:?} after {grant:?}"))
}

async fn a_late_acquire_of_a_caller_that_is_gone_ends_with_its_lease(door: Door) -> Verdict {
    let store = FaultyLocks::new(Arc::clone(&door.a));
    store.inject(LockStep::Acquire, Fault::Delayed);
    holds(store.acquire(&acquire("k", A)).await.is_err(), || "not delayed".into())?;
    let before = door.takes("k", B).await?;
    same("the release", &door.b.release(&lock("k"), &B).await?, &Write::Applied)?;
    same("what was delivered", &store.deliver_delayed().await?, &1)?;
    door.is_busy(&acquire("k", C), LEASE).await?;
    door.elapse(LEASE).await;
    let next = door.takes("k", C).await?;
    holds(next.fence > before.fence, || format!("{next:?} after {before:?}"))
}

async fn a_late_release_does_not_free_the_next_holder(door: Door) -> Verdict {
    let store = FaultyLocks::new(Arc::clone(&door.a));
    door.takes("k", A).await?;
    store.inject(LockStep::Release, Fault::Delayed);
    holds(store.release(&lock("k"), &A).await.is_err(), || "not delayed".into())?;
    door.elapse(LEASE).await;
    door.takes("k", B).await?;
    same("what was delivered", &store.deliver_delayed().await?, &1)?;
    door.is_busy(&acquire("k", C), LEASE).await?;
    same("the holder's release", &door.b.release(&lock("k"), &B).await?, &Write::Applied)
}
