//! What each step answers, row by row.

use super::list;
use crate::{
    fixture::{Verdict, holds, same, says},
    lock::{
        Door,
        door::{acquire, lock, until},
    },
    requests::{A, B, C, LEASE, ms, name_in, span},
};
use hapax_core::lock::{Acquire, Extended, Write};

list!("contract":
    a_free_lock_is_granted_to_one,
    the_same_token_is_answered_as_the_first_time,
    an_extend_makes_the_lease_longer,
    an_extend_never_shortens,
    only_the_holder_extends,
    a_batch_of_extends_is_answered_in_order,
    a_release_frees_the_lock,
    a_release_says_so_again,
    only_the_holder_releases,
    fences_grow_with_each_grant,
    names_do_not_meet,
    long_names_are_names,
    a_wait_ends_when_the_lock_is_free,
);

async fn a_free_lock_is_granted_to_one(door: Door) -> Verdict {
    let grant = door.takes("k", A).await?;
    holds(grant.until.as_millis() > 0, || format!("{grant:?}"))?;
    door.is_busy(&acquire("k", B), LEASE).await?;
    door.elapse(LEASE / 2).await;
    door.is_busy(&acquire("k", C), LEASE / 2).await?;
    says(&door.b.acquire(&acquire("other", B)).await?, "yours")
}

async fn the_same_token_is_answered_as_the_first_time(door: Door) -> Verdict {
    let first = door.takes("k", A).await?;
    door.elapse(LEASE / 2).await;
    let longer = Acquire { lease: span(LEASE * 3), ..acquire("k", A) };
    for store in [&door.a, &door.b] {
        let hapax_core::lock::Acquired::Yours(again) = store.acquire(&longer).await? else {
            return Err(crate::fixture::failed("the holder is locked out by itself"));
        };
        same("the fence", &again.fence, &first.fence)?;
        door.instant("the end", again.until, first.until)?;
    }
    door.is_busy(&acquire("k", B), LEASE / 2).await
}

async fn an_extend_makes_the_lease_longer(door: Door) -> Verdict {
    let first = door.takes("k", A).await?;
    door.elapse(LEASE / 2).await;
    let end = until(door.b.extend(&lock("k"), &A, span(LEASE)).await?)?;
    door.instant("the end", end, first.until.after(LEASE / 2))?;
    door.is_busy(&acquire("k", B), LEASE).await?;
    let again = door.takes("k", A).await?;
    same("the fence after an extend", &again.fence, &first.fence)?;
    door.instant("the end of the grant", again.until, end)
}

async fn an_extend_never_shortens(door: Door) -> Verdict {
    let first = door.takes("k", A).await?;
    let end = until(door.a.extend(&lock("k"), &A, span(ms(1))).await?)?;
    door.instant("the end", end, first.until)?;
    door.is_busy(&acquire("k", B), LEASE).await
}

async fn only_the_holder_extends(door: Door) -> Verdict {
    same("of a free lock", &door.a.extend(&lock("k"), &A, span(LEASE)).await?, &Extended::Fenced)?;
    says(&door.b.acquire(&acquire("k", B)).await?, "yours")?;
    same("of another's", &door.a.extend(&lock("k"), &A, span(LEASE)).await?, &Extended::Fenced)?;
    same("a release", &door.b.release(&lock("k"), &B).await?, &Write::Applied)?;
    same("of a released one", &door.b.extend(&lock("k"), &B, span(LEASE)).await?, &Extended::Fenced)?;
    says(&door.a.acquire(&acquire("k", A)).await?, "yours")
}

async fn a_batch_of_extends_is_answered_in_order(door: Door) -> Verdict {
    for key in ["one", "two"] {
        door.takes(key, A).await?;
    }
    let batch = [
        (lock("one"), A, span(LEASE)),
        (lock("none"), A, span(LEASE)),
        (lock("two"), B, span(LEASE)),
        (lock("two"), A, span(LEASE * 2)),
    ];
    let mut answers = Vec::new();
    for answer in door.b.extend_many(&batch).await {
        answers.push(matches!(answer?, Extended::Until(_)));
    }
    same("who was extended", &answers, &vec![true, false, false, true])?;
    door.is_busy(&acquire("two", C), LEASE * 2).await?;
    same("answers to nothing", &door.a.extend_many(&[]).await.len(), &0)
}

async fn a_release_frees_the_lock(door: Door) -> Verdict {
    door.takes("k", A).await?;
    same("the release", &door.b.release(&lock("k"), &A).await?, &Write::Applied)?;
    says(&door.b.acquire(&acquire("k", B)).await?, "yours")
}

async fn a_release_says_so_again(door: Door) -> Verdict {
    door.takes("k", A).await?;
    for _ in 0..2 {
        same("the release", &door.a.release(&lock("k"), &A).await?, &Write::Applied)?;
    }
    says(&door.b.acquire(&acquire("k", B)).await?, "yours")?;
    same("after the next grant", &door.a.release(&lock("k"), &A).await?, &Write::Applied)?;
    door.is_busy(&acquire("k", C), LEASE).await?;
    same("the next release", &door.b.release(&lock("k"), &B).await?, &Write::Applied)?;
    same("and again", &door.a.release(&lock("k"), &B).await?, &Write::Applied)
}

async fn only_the_holder_releases(door: Door) -> Verdict {
    same("of a lock that never was", &door.a.release(&lock("k"), &A).await?, &Write::Fenced)?;
    door.takes("k", A).await?;
    same("of another's", &door.b.release(&lock("k"), &B).await?, &Write::Fenced)?;
    door.is_busy(&acquire("k", C), LEASE).await
}

async fn fences_grow_with_each_grant(door: Door) -> Verdict {
    let mut last = None;
    for token in [A, B, A, C, B] {
        // A token that comes again is another call's: the suite has few letters.
        let grant = door.takes("k", token).await?;
        holds(last.is_none_or(|last| grant.fence > last), || format!("{grant:?} after {last:?}"))?;
        holds(grant.fence.get() < 1 << 53, || format!("{grant:?}"))?;
        last = Some(grant.fence);
        same("the release", &door.a.release(&lock("k"), &token).await?, &Write::Applied)?;
    }
    Ok(())
}

async fn names_do_not_meet(door: Door) -> Verdict {
    let names = [
        ("suite", "k"),
        ("suite", "{k}"),
        ("suite", "k:fence"),
        ("suite", "k\0"),
        ("suite", "K"),
        ("suite", "k "),
        ("suite:k", "k"),
        ("suit", "ek"),
        ("suite", "%"),
        ("suite", "ключ 🦀"),
    ];
    for (namespace, key) in names {
        let name = name_in(namespace, hapax_core::lock::SCOPE, key);
        says(&door.a.acquire(&Acquire { name, ..acquire("k", A) }).await?, "yours")?;
    }
    for (namespace, key) in names {
        let name = name_in(namespace, hapax_core::lock::SCOPE, key);
        let req = Acquire { name: name.clone(), ..acquire("k", B) };
        door.is_busy(&req, LEASE).await?;
        same("the release", &door.b.release(&name, &A).await?, &Write::Applied)?;
        says(&door.b.acquire(&req).await?, "yours")?;
    }
    Ok(())
}

async fn long_names_are_names(door: Door) -> Verdict {
    for (key, token) in [("x".repeat(512), A), ("x".repeat(513), B), ("x".repeat(65_536), C)] {
        door.takes(&key, token).await?;
    }
    door.is_busy(&acquire(&"x".repeat(513), A), LEASE).await
}

async fn a_wait_ends_when_the_lock_is_free(door: Door) -> Verdict {
    door.a.wait(&lock("k"), LEASE).await?;
    door.takes("k", A).await?;
    door.b.wait(&lock("k"), ms(5)).await?;
    let (store, waiting) = (std::sync::Arc::clone(&door.b), std::sync::Arc::clone(&door.a));
    let woken = tokio::spawn(async move {
        // As a caller waits: a hint may come early, or not at all where the store has none.
        loop {
            waiting.wait(&lock("k"), ms(200)).await?;
            if let hapax_core::lock::Acquired::Yours(grant) = waiting.acquire(&acquire("k", B)).await? {
                return Ok::<_, hapax_core::StoreError>(grant);
            }
            tokio::time::sleep(ms(2)).await;
        }
    });
    tokio::task::yield_now().await;
    same("the release", &store.release(&lock("k"), &A).await?, &Write::Applied)?;
    let _ = woken.await??;
    Ok(())
}
