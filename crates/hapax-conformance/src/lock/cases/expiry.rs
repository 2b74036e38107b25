//! What the end of a lease changes, to the millisecond.

use super::list;
use crate::{
    fixture::{Verdict, holds, same, says},
    lock::{
        Door,
        door::{acquire, lock},
    },
    requests::{A, B, C, LEASE, span},
};
use hapax_core::lock::{Extended, Write};

list!("expiry":
    a_lease_ends_when_it_says,
    a_holder_whose_lease_passed_is_fenced,
    nothing_is_revived,
    a_fence_grows_over_a_lease_that_passed,
    a_release_is_remembered_beyond_the_lease,
);

async fn a_lease_ends_when_it_says(door: Door) -> Verdict {
    door.takes("k", A).await?;
    let (still, rest) = door.split(LEASE);
    door.elapse(still).await;
    door.is_busy(&acquire("k", B), rest).await?;
    same(
        "an extend",
        &matches!(door.a.extend(&lock("k"), &A, span(LEASE)).await?, Extended::Until(_)),
        &true,
    )?;
    door.elapse(still).await;
    door.is_busy(&acquire("k", B), rest).await?;
    door.elapse(rest).await;
    says(&door.b.acquire(&acquire("k", B)).await?, "yours")
}

async fn a_holder_whose_lease_passed_is_fenced(door: Door) -> Verdict {
    door.takes("k", A).await?;
    door.elapse(LEASE).await;
    door.takes("k", B).await?;
    same("the extend", &door.a.extend(&lock("k"), &A, span(LEASE)).await?, &Extended::Fenced)?;
    same("the release", &door.a.release(&lock("k"), &A).await?, &Write::Fenced)?;
    same(
        "the acquire",
        &matches!(door.a.acquire(&acquire("k", A)).await?, hapax_core::lock::Acquired::Busy { .. }),
        &true,
    )?;
    door.is_busy(&acquire("k", C), LEASE).await
}

async fn nothing_is_revived(door: Door) -> Verdict {
    door.takes("k", A).await?;
    door.elapse(LEASE).await;
    same("the extend", &door.a.extend(&lock("k"), &A, span(LEASE)).await?, &Extended::Fenced)?;
    same("the release", &door.a.release(&lock("k"), &A).await?, &Write::Fenced)?;
    same("who holds it", &door.b.show(&lock("k")).await?.held, &None)?;
    same("what can be broken", &door.b.break_lock(&lock("k")).await?, &None)?;
    says(&door.b.acquire(&acquire("k", B)).await?, "yours")
}

async fn a_fence_grows_over_a_lease_that_passed(door: Door) -> Verdict {
    let first = door.takes("k", A).await?;
    door.elapse(LEASE).await;
    let second = door.takes("k", A).await?;
    holds(second.fence > first.fence, || format!("{second:?} after {first:?}"))
}

async fn a_release_is_remembered_beyond_the_lease(door: Door) -> Verdict {
    door.takes("k", A).await?;
    same("the release", &door.a.release(&lock("k"), &A).await?, &Write::Applied)?;
    door.elapse(LEASE * 2).await;
    same("the release, sent again", &door.b.release(&lock("k"), &A).await?, &Write::Applied)
}
