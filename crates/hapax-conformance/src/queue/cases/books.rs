//! The books of queues, as `hapax doctor` looks at them.

use super::list;
use crate::{
    fixture::{Stop, Verdict, same},
    queue::{
        desk::Desk,
        requests::{LEASE, dead, done, group, job, jobs, later, named, queue, retry, snooze},
    },
    requests::ms,
};
use hapax_core::{
    doctor::Examination,
    queue::{Books, DeadReason, books::OVERDUE},
};

list!("books":
    a_queue_that_is_sound_has_no_findings,
    jobs_whose_workers_are_gone_are_found,
    a_group_that_nobody_works_for_is_found,
    a_pause_that_was_forgotten_is_found,
    each_group_of_each_queue_is_looked_at,
);

/// Which checks found something.
fn checks(books: &Books) -> String {
    let mut found = Examination::default();
    books.judge(&mut found);
    found.findings.iter().map(|finding| finding.check).collect::<Vec<_>>().join(" ")
}

async fn finds(desk: &Desk, expected: &str) -> Result<Books, Stop> {
    let books = desk.b.books(Some(&jobs())).await?;
    same("what is found", &checks(&books), &expected.to_owned())?;
    Ok(books)
}

async fn a_queue_that_is_sound_has_no_findings(desk: Desk) -> Verdict {
    finds(&desk, "").await?;
    desk.adds(&[named("x", "id"), job("y"), job("z"), job("v"), later("u", ms(3_600_000))]).await?;
    finds(&desk, "").await?;
    let taken = desk.takes("w", 3).await?;
    for (job, end) in taken.iter().zip([done(), retry(ms(1000)), snooze(ms(60_000))]) {
        desk.ended("w", job, end).await?;
    }
    desk.takes_one("w").await?;
    let books = finds(&desk, "").await?;
    same("how many groups", &books.groups.len(), &1)?;
    let stats = books.groups.first().map(|group| (group.stats.added, group.stats.done, group.stats.running));
    same("the figures", &stats, &Some((5, 1, 1)))?;
    desk.b.purge(&jobs()).await?;
    finds(&desk, "").await.map(drop)
}

async fn jobs_whose_workers_are_gone_are_found(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    desk.takes("gone", 2).await?;
    desk.elapse(LEASE).await;
    finds(&desk, "").await?;
    desk.elapse(OVERDUE + ms(1000)).await;
    let books = finds(&desk, "queue_workers").await?;
    let found =
        books.groups.first().map(|group| (group.overdue, group.overdue_of.as_ref().map(ToString::to_string)));
    same("whose they are", &found, &Some((2, Some("gone".into()))))?;
    // A worker that takes one over lives.
    desk.takes("w", 4).await?;
    finds(&desk, "").await.map(drop)
}

async fn a_group_that_nobody_works_for_is_found(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, dead(DeadReason::Refused)).await?;
    finds(&desk, "queue_dead").await?;
    desk.elapse(ms(24 * 3_600_000)).await;
    finds(&desk, "queue_workers queue_dead").await?;
    desk.takes("w", 1).await?;
    finds(&desk, "queue_dead").await.map(drop)
}

async fn a_pause_that_was_forgotten_is_found(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    desk.b.pause(&jobs(), None, true).await?;
    finds(&desk, "").await?;
    desk.elapse(ms(3_600_000)).await;
    desk.takes("w", 1).await?;
    let books = finds(&desk, "queue_backlog").await?;
    let mut found = Examination::default();
    books.judge(&mut found);
    let remedy = found.findings.first().map(|finding| finding.remedy.clone());
    same("what to do", &remedy, &Some("hapax queue resume jobs".into()))
}

async fn each_group_of_each_queue_is_looked_at(desk: Desk) -> Verdict {
    for name in ["main", "other"] {
        desk.b.subscribe(&jobs(), &group(name)).await?;
    }
    desk.adds(&[named("x", "id")]).await?;
    desk.b.add(&queue("more"), &[job("y")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, done()).await?;
    let books = desk.b.books(None).await?;
    same("what is found", &checks(&books), &String::new())?;
    let names: Vec<_> = books
        .groups
        .iter()
        .map(|group| {
            let of = group.stats.group.as_ref().map_or("-", |group| group.as_str());
            format!("{}/{of} {}", group.queue.name, group.stats.added)
        })
        .collect();
    same("the groups", &names.join(", "), &"jobs/main 1, jobs/other 1, more/- 1".to_owned())
}
