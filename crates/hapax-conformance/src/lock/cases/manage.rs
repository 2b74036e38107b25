//! Looking at locks, breaking them, seeding fences, forgetting; what a new start finds.

use super::list;
use crate::{
    fixture::{Verdict, failed, holds, same, says},
    lock::{
        Door,
        door::{acquire, lock},
    },
    requests::{A, B, C, LEASE, name_in, span},
};
use hapax_core::{
    Key,
    lock::{Acquire, Extended, FENCE_KEPT, Fence, Holder, ListLocks, LockInfo, SCOPE, Write},
};

list!("manage":
    a_look_shows_holder_and_fence,
    a_list_shows_what_is_held,
    a_broken_lock_fences_its_holder,
    a_seed_raises_the_next_fence,
    what_is_held_is_not_forgotten,
    a_forgotten_fence_stays_below_the_next,
    a_new_start_finds_holders_and_fences,
    a_store_that_lost_everything_gives_larger_fences,
);

async fn a_look_shows_holder_and_fence(door: Door) -> Verdict {
    same("a lock that never was", &door.a.show(&lock("k")).await?, &LockInfo::default())?;
    let holder = Holder::new("wörker:1");
    let grant = match door.a.acquire(&Acquire { holder: holder.clone(), ..acquire("k", A) }).await? {
        hapax_core::lock::Acquired::Yours(grant) => grant,
        other @ hapax_core::lock::Acquired::Busy { .. } => return Err(failed(format!("{other:?}"))),
    };
    let info = door.b.show(&lock("k")).await?;
    same("the last fence", &info.fence, &Some(grant.fence))?;
    let held = info.held.ok_or_else(|| failed("nobody holds it"))?;
    same("who holds it, under which fence", &(held.holder, held.fence), &(holder, grant.fence))?;
    door.instant("the end", held.until, grant.until)?;
    door.instant("the beginning", held.since.after(LEASE), grant.until)?;
    let _ = door.a.release(&lock("k"), &A).await?;
    let free = LockInfo { held: None, fence: Some(grant.fence) };
    same("once it is free", &door.b.show(&lock("k")).await?, &free)
}

async fn a_list_shows_what_is_held(door: Door) -> Verdict {
    for key in ["b", "a:1", "a:3", "c", "a:2", "over"] {
        door.takes(key, A).await?;
    }
    let _ = door.a.release(&lock("c"), &A).await?;
    let elsewhere = name_in("other", SCOPE, "a:9");
    says(&door.a.acquire(&Acquire { name: elsewhere, ..acquire("k", B) }).await?, "yours")?;
    let request = ListLocks::new(hapax_core::Namespace::new("suite")?);
    let all = door.b.list(&request).await?;
    let keys = |page: &hapax_core::lock::LockPage| {
        page.locks.iter().map(|(name, _)| name.key().to_owned()).collect::<Vec<_>>().join(" ")
    };
    same("all", &keys(&all), &"a:1 a:2 a:3 b over".to_owned())?;
    same("whether there is more", &all.more, &false)?;
    let page = ListLocks { prefix: "a:".into(), limit: 2, ..request };
    let first = door.b.list(&page).await?;
    same("a page", &(keys(&first), first.more), &("a:1 a:2".to_owned(), true))?;
    let next = ListLocks { after: Some(Key::new("a:2")?), ..page };
    let second = door.b.list(&next).await?;
    same("the next", &(keys(&second), second.more), &("a:3".to_owned(), false))?;
    door.elapse(LEASE + door.tolerance()).await;
    same("once all are over", &keys(&door.b.list(&next).await?), &String::new())
}

async fn a_broken_lock_fences_its_holder(door: Door) -> Verdict {
    same("a free lock", &door.a.break_lock(&lock("k")).await?, &None)?;
    let grant = door.takes("k", A).await?;
    let broken = door.b.break_lock(&lock("k")).await?;
    same("whose it was", &broken.map(|info| info.fence), &Some(grant.fence))?;
    same("the extend", &door.a.extend(&lock("k"), &A, span(LEASE)).await?, &Extended::Fenced)?;
    same("the release", &door.a.release(&lock("k"), &A).await?, &Write::Fenced)?;
    let next = door.takes("k", B).await?;
    holds(next.fence > grant.fence, || format!("{next:?} after {grant:?}"))?;
    same("the old release", &door.a.release(&lock("k"), &A).await?, &Write::Fenced)?;
    door.is_busy(&acquire("k", C), LEASE).await
}

async fn a_seed_raises_the_next_fence(door: Door) -> Verdict {
    let grant = door.takes("k", A).await?;
    let far = Fence::new(grant.fence.get() + 100_000_000_000_000)?;
    same("the seed", &door.b.seed_fence(&lock("k"), far).await?, &far)?;
    same("a smaller one", &door.b.seed_fence(&lock("k"), Fence::new(1)?).await?, &far)?;
    let again = door.takes("k", A).await?;
    same("the holder's own fence", &again.fence, &grant.fence)?;
    let _ = door.a.release(&lock("k"), &A).await?;
    let next = door.takes("k", B).await?;
    same("the next fence", &next.fence.get(), &(far.get() + 1))?;
    same("of a lock that never was", &door.b.seed_fence(&lock("new"), far).await?, &far)?;
    door.elapse(FENCE_KEPT * 2).await;
    let _ = door.a.prune(1000).await?;
    let next = door.takes("new", B).await?;
    same("a seed ahead of the clock", &next.fence.get(), &(far.get() + 1))
}

async fn what_is_held_is_not_forgotten(door: Door) -> Verdict {
    let long = Acquire { lease: span(FENCE_KEPT * 3), ..acquire("k", A) };
    says(&door.a.acquire(&long).await?, "yours")?;
    door.elapse(FENCE_KEPT * 2).await;
    let _ = door.b.prune(1000).await?;
    door.is_busy(&acquire("k", B), FENCE_KEPT).await?;
    same("the release", &door.b.release(&lock("k"), &A).await?, &Write::Applied)
}

async fn a_forgotten_fence_stays_below_the_next(door: Door) -> Verdict {
    let first = door.takes("k", A).await?;
    let _ = door.a.release(&lock("k"), &A).await?;
    door.elapse(FENCE_KEPT / 2).await;
    let _ = door.b.prune(1000).await?;
    same("what is remembered", &door.b.show(&lock("k")).await?.fence, &Some(first.fence))?;
    door.elapse(FENCE_KEPT * 2).await;
    let _ = door.b.prune(1000).await?;
    let next = door.takes("k", B).await?;
    holds(next.fence > first.fence, || format!("{next:?} after {first:?}"))
}

async fn a_new_start_finds_holders_and_fences(door: Door) -> Verdict {
    let free = door.takes("free", A).await?;
    let _ = door.a.release(&lock("free"), &A).await?;
    door.takes("held", A).await?;
    let door = door.reopened().await?;
    door.is_busy(&acquire("held", B), LEASE).await?;
    same("a release from before, again", &door.a.release(&lock("free"), &A).await?, &Write::Applied)?;
    let next = door.takes("free", B).await?;
    holds(next.fence > free.fence, || format!("{next:?} after {free:?}"))?;
    same("the holder's release", &door.b.release(&lock("held"), &A).await?, &Write::Applied)
}

async fn a_store_that_lost_everything_gives_larger_fences(door: Door) -> Verdict {
    let before = door.takes("k", A).await?;
    door.elapse(crate::requests::ms(1)).await;
    let door = door.forgetful().await?;
    let after = door.takes("k", B).await?;
    holds(after.fence > before.fence, || format!("{after:?} after {before:?}"))?;
    same("the old release", &door.a.release(&lock("k"), &A).await?, &Write::Fenced)
}
