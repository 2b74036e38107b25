//! What passes in a queue, for whoever reads along.

use super::list;
use crate::{
    fixture::{Stop, Verdict, holds, same, says},
    queue::{
        desk::Desk,
        requests::{
            LEASE, by_uid, dead, done, finish, give_back, group, job, jobs, named, redrive, retry, snooze,
            step, uid,
        },
    },
    requests::ms,
};
use hapax_core::queue::{DeadReason, EventPage, Limits, ReadEvents, Step};

list!("events":
    a_queue_keeps_none_unless_it_is_asked_to,
    what_passes_is_told_in_order,
    each_way_to_go_is_told,
    what_people_end_is_told,
    what_changes_nothing_is_not_told,
    each_group_tells_of_itself,
    only_the_latest_are_kept,
    pages_go_on_where_the_last_one_ended,
    a_reader_learns_what_it_missed,
    who_keeps_fewer_forgets_the_rest,
    a_whole_batch_is_told,
);

async fn keeps(desk: &Desk, events: u32) -> Verdict {
    Ok(desk.a.set_limits(&jobs(), &Limits { events, ..Limits::default() }).await?)
}

async fn page(desk: &Desk, after: u64, limit: usize) -> Result<EventPage, Stop> {
    Ok(desk.b.events(&ReadEvents { queue: jobs(), after, limit }).await?)
}

/// The words of all events, and how often each job had failed.
async fn told(desk: &Desk) -> Result<String, Stop> {
    let page = page(desk, 0, 1000).await?;
    let words: Vec<_> =
        page.events.iter().map(|event| format!("{} {}", event.what.as_str(), event.attempts)).collect();
    Ok(words.join(", "))
}

async fn tells(desk: &Desk, expected: &str) -> Verdict {
    same("what passed", &told(desk).await?, &expected.to_owned())
}

async fn a_queue_keeps_none_unless_it_is_asked_to(desk: Desk) -> Verdict {
    same("events of no queue", &page(&desk, 0, 10).await?, &EventPage::default())?;
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, done()).await?;
    same("events", &page(&desk, 0, 10).await?, &EventPage::default())
}

async fn what_passes_is_told_in_order(desk: Desk) -> Verdict {
    keeps(&desk, 100).await?;
    desk.adds(&[job("x")]).await?;
    let first = desk.takes_one("w").await?;
    desk.ended("w", &first, retry(ms(1000))).await?;
    desk.elapse(ms(1000)).await;
    let second = desk.takes_one("w").await?;
    desk.ended("w", &second, done()).await?;
    tells(&desk, "added 0, started 0, retried 1, started 1, done 1").await?;
    let page = page(&desk, 0, 10).await?;
    let numbers: Vec<_> = page.events.iter().map(|event| event.number).collect();
    let in_a_row: Vec<_> = (page.last.saturating_sub(4)..=page.last).collect();
    same("the numbers", &numbers, &in_a_row)?;
    holds(page.events.iter().all(|event| event.uid == uid("x")), || "events of another job".into())?;
    holds(page.events.is_sorted_by_key(|event| event.at), || "their times go back".into())?;
    let groups: Vec<_> = page.events.iter().map(|event| event.group.is_some()).collect();
    same("whether they have a group", &groups, &vec![false, true, true, true, true])
}

async fn each_way_to_go_is_told(desk: Desk) -> Verdict {
    keeps(&desk, 100).await?;
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, snooze(ms(1000))).await?;
    desk.elapse(ms(1000)).await;
    let taken = desk.takes_one("w").await?;
    desk.b.give_back(&give_back("w", &[&taken])).await?;
    desk.takes_one("w").await?;
    desk.elapse(LEASE).await;
    let taken = desk.takes_one("v").await?;
    desk.ended("v", &taken, dead(DeadReason::Refused)).await?;
    desk.b.redrive(&redrive(&["x"])).await?;
    let taken = desk.takes_one("v").await?;
    desk.b.cancel(&jobs(), &by_uid("x")).await?;
    desk.ended("v", &taken, retry(ms(1000))).await?;
    tells(
        &desk,
        "added 0, started 0, snoozed 0, started 0, given_back 0, started 0, lost 0, started 0, dead 1, \
         redriven 0, started 0, cancelled 0",
    )
    .await
}

async fn what_people_end_is_told(desk: Desk) -> Verdict {
    keeps(&desk, 100).await?;
    desk.adds(&[job("x"), job("dead"), job("z")]).await?;
    desk.b.cancel(&jobs(), &by_uid("x")).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, dead(DeadReason::Exhausted)).await?;
    desk.b.drop_dead(&jobs(), None, &[uid("dead")]).await?;
    desk.b.purge(&jobs()).await?;
    tells(&desk, "added 0, added 0, added 0, cancelled 0, started 0, dead 1, cancelled 1, cancelled 0").await
}

async fn what_changes_nothing_is_not_told(desk: Desk) -> Verdict {
    keeps(&desk, 100).await?;
    desk.add(named("x", "id")).await?;
    desk.add(named("x", "id")).await?;
    desk.add(named("y", "id")).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, done()).await?;
    says(&desk.ends("w", &taken, done()).await?, "fenced")?;
    desk.b.give_back(&give_back("w", &[&taken])).await?;
    desk.b.cancel(&jobs(), &by_uid("x")).await?;
    tells(&desk, "added 0, started 0, done 0").await
}

async fn each_group_tells_of_itself(desk: Desk) -> Verdict {
    keeps(&desk, 100).await?;
    for name in ["a", "b"] {
        desk.a.subscribe(&jobs(), &group(name)).await?;
    }
    desk.adds(&[job("x")]).await?;
    for name in ["a", "b"] {
        desk.a.step(&Step { group: group(name), ..step("w", 1) }).await?;
    }
    let page = page(&desk, 0, 10).await?;
    let groups: Vec<_> = page
        .events
        .iter()
        .map(|event| (event.what.as_str(), event.group.as_ref().map(|group| group.as_str().to_owned())))
        .collect();
    let of = |name: &str| Some(name.to_owned());
    same("their groups", &groups, &vec![("added", None), ("started", of("a")), ("started", of("b"))])
}

async fn only_the_latest_are_kept(desk: Desk) -> Verdict {
    keeps(&desk, 5).await?;
    let many: Vec<_> = (0..12).map(|n| job(&n.to_string())).collect();
    desk.adds(&many).await?;
    let kept = page(&desk, 0, 100).await?;
    let uids: Vec<_> = kept.events.iter().map(|event| event.uid).collect();
    same("of which jobs", &uids, &(7..12).map(|n| uid(&n.to_string())).collect::<Vec<_>>())?;
    desk.add(job("one more")).await?;
    let kept = page(&desk, 0, 100).await?;
    same("how many are kept", &kept.events.len(), &5)?;
    same("the last", &kept.events.last().map(|event| event.uid), &Some(uid("one more")))
}

async fn pages_go_on_where_the_last_one_ended(desk: Desk) -> Verdict {
    keeps(&desk, 100).await?;
    let many: Vec<_> = (0..7).map(|n| job(&n.to_string())).collect();
    desk.adds(&many).await?;
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = page(&desk, after, 3).await?;
        holds(!page.missed, || "something was missed".into())?;
        if page.events.is_empty() {
            break;
        }
        after = page.next(after);
        seen.extend(page.events.iter().map(|event| event.uid));
    }
    same("the jobs", &seen, &many.iter().map(|job| job.uid).collect::<Vec<_>>())?;
    desk.add(job("later")).await?;
    same("what came since", &page(&desk, after, 3).await?.events.len(), &1)
}

async fn a_reader_learns_what_it_missed(desk: Desk) -> Verdict {
    keeps(&desk, 3).await?;
    desk.add(job("x")).await?;
    let seen = page(&desk, 0, 10).await?.last;
    let more = |from: u64| (from..from + 3).map(|n| job(&n.to_string())).collect::<Vec<_>>();
    desk.adds(&more(0)).await?;
    same("whether something is missing", &page(&desk, seen, 10).await?.missed, &false)?;
    desk.adds(&more(3)).await?;
    let late = page(&desk, seen, 10).await?;
    same("whether something is missing", &(late.missed, late.events.len()), &(true, 3))?;
    same("who begins anew", &page(&desk, 0, 10).await?.missed, &false)
}

async fn who_keeps_fewer_forgets_the_rest(desk: Desk) -> Verdict {
    keeps(&desk, 10).await?;
    desk.adds(&(0..5).map(|n| job(&n.to_string())).collect::<Vec<_>>()).await?;
    let last = page(&desk, 0, 10).await?.last;
    keeps(&desk, 2).await?;
    same("how many are kept", &page(&desk, 0, 10).await?.events.len(), &2)?;
    keeps(&desk, 0).await?;
    desk.add(job("untold")).await?;
    let none = page(&desk, 0, 10).await?;
    same("what is kept", &(none.events.len(), none.last), &(0, last))?;
    keeps(&desk, 10).await?;
    desk.add(job("told")).await?;
    // Numbers go on.
    let kept = page(&desk, last, 10).await?;
    same("the number of the next", &kept.events.first().map(|event| event.number), &Some(last + 1))
}

async fn a_whole_batch_is_told(desk: Desk) -> Verdict {
    keeps(&desk, 1000).await?;
    let many = |from: u32| (from..from + 256).map(|n| job(&n.to_string())).collect::<Vec<_>>();
    desk.adds(&many(0)).await?;
    desk.adds(&many(256)).await?;
    let taken = desk.takes("w", 256).await?;
    let finishes = taken.iter().map(|job| finish(job, done())).collect();
    desk.a.step(&Step { finishes, ..step("w", 256) }).await?;
    let mut counts = std::collections::BTreeMap::new();
    for event in page(&desk, 0, 2000).await?.events {
        *counts.entry(event.what.as_str()).or_insert(0) += 1;
    }
    // 1,280 passed, of which the first are not kept any more.
    same("what is kept", &counts, &[("added", 232), ("done", 256), ("started", 512)].into())
}
