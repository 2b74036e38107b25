//! Dead letters.

use super::list;
use crate::{
    fixture::{Verdict, failed, same},
    queue::{
        desk::{Desk, texts},
        requests::{by_id, by_uid, dead, jobs, list as page, named, redrive, uid},
    },
    requests::{ms, print, span},
};
use hapax_core::queue::{
    Counts, DeadReason, Edit, JobState, ListJobs, MAX_REDRIVES, NewJob, Redrive, Redriven,
};

list!("dead":
    dead_letters_come_in_pages,
    a_redriven_job_starts_anew,
    a_redriven_job_has_its_id_again,
    a_redriven_job_does_not_take_the_id_of_another,
    what_always_dies_is_not_redriven_for_ever,
    only_dead_letters_are_redriven,
    a_letter_is_found_by_its_id_when_that_is_free_again,
    a_dropped_letter_frees_its_id,
    a_letter_may_get_another_payload,
);

async fn dies(desk: &Desk, text: &str, id: &str) -> Verdict {
    desk.adds(&[NewJob { remember: span(ms(60_000)), ..named(text, id) }]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, dead(DeadReason::Refused)).await?;
    Ok(())
}

async fn dead_letters_come_in_pages(desk: Desk) -> Verdict {
    for n in 0..5 {
        dies(&desk, &n.to_string(), &n.to_string()).await?;
        desk.elapse(ms(5)).await;
    }
    let (mut after, mut found, mut pages) = (None, Vec::new(), 0);
    loop {
        let next = desk.b.list(&ListJobs { after, limit: 2, ..page(JobState::Dead) }).await?;
        found.extend(next.jobs.iter().map(|job| String::from_utf8_lossy(&job.payload).into_owned()));
        pages += 1;
        match next.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    same("the letters", &found.join(" "), &"0 1 2 3 4".into())?;
    same("how many pages", &pages, &3)
}

async fn a_redriven_job_starts_anew(desk: Desk) -> Verdict {
    dies(&desk, "x", "id").await?;
    same("the answer", &desk.b.redrive(&redrive(&["x"])).await?, &vec![Redriven::Ready])?;
    let taken = desk.takes_one("w").await?;
    same("its counts", &taken.counts, &Counts { redriven: 1, ..Counts::default() })?;
    same("its payload", &texts(&[taken]), &"x".into())?;
    same("the dead letters", &desk.stats().await?.dead, &0)
}

async fn a_redriven_job_has_its_id_again(desk: Desk) -> Verdict {
    dies(&desk, "x", "id").await?;
    desk.elapse(ms(60_000)).await;
    desk.b.redrive(&redrive(&["x"])).await?;
    desk.is(&by_id("id"), "ready").await?;
    same("the answer", &desk.add(named("y", "id")).await?, &"reused".into())
}

async fn a_redriven_job_does_not_take_the_id_of_another(desk: Desk) -> Verdict {
    dies(&desk, "x", "id").await?;
    desk.elapse(ms(60_000)).await;
    desk.adds(&[named("y", "id")]).await?;
    let answer = desk.b.redrive(&redrive(&["x"])).await?;
    same("the answer", &answer, &vec![Redriven::Duplicate { uid: uid("y") }])?;
    same("the dead letters", &desk.listed(JobState::Dead).await?, &"x".into())
}

async fn what_always_dies_is_not_redriven_for_ever(desk: Desk) -> Verdict {
    dies(&desk, "x", "id").await?;
    for _ in 0..MAX_REDRIVES {
        same("the answer", &desk.b.redrive(&redrive(&["x"])).await?, &vec![Redriven::Ready])?;
        let taken = desk.takes_one("w").await?;
        desk.ended("w", &taken, dead(DeadReason::Refused)).await?;
    }
    same("the answer", &desk.b.redrive(&redrive(&["x"])).await?, &vec![Redriven::TooOften])?;
    let forced = Redrive { force: true, ..redrive(&["x"]) };
    same("the answer", &desk.b.redrive(&forced).await?, &vec![Redriven::Ready])
}

async fn only_dead_letters_are_redriven(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let answer = desk.b.redrive(&redrive(&["x", "nobody"])).await?;
    same("the answer", &answer, &vec![Redriven::NotDead, Redriven::NotDead])?;
    desk.gets("w", 5, "x").await
}

async fn a_letter_is_found_by_its_id_when_that_is_free_again(desk: Desk) -> Verdict {
    dies(&desk, "x", "id").await?;
    desk.elapse(ms(60_000)).await;
    desk.b.prune(100).await?;
    desk.is(&by_id("id"), "dead").await?;
    // What is over makes room for what is added.
    for n in 0..16 {
        desk.adds(&[named("y", &format!("other {n}"))]).await?;
    }
    desk.is(&by_id("id"), "dead").await?;
    same("how many went", &desk.b.drop_dead(&jobs(), None, &[uid("x")]).await?, &1)?;
    desk.is(&by_id("id"), "-").await
}

async fn a_dropped_letter_frees_its_id(desk: Desk) -> Verdict {
    dies(&desk, "x", "id").await?;
    let dropped = desk.b.drop_dead(&jobs(), None, &[uid("x"), uid("nobody")]).await?;
    same("how many went", &dropped, &1)?;
    same("the dead letters", &desk.listed(JobState::Dead).await?, &String::new())?;
    same("the answer", &desk.add(named("y", "id")).await?, &"new".into())
}

async fn a_letter_may_get_another_payload(desk: Desk) -> Verdict {
    dies(&desk, "x", "id").await?;
    let edit = |uid| Edit {
        queue: jobs(),
        group: None,
        uid,
        payload: "better".into(),
        fingerprint: print("better"),
    };
    same("whether it was there", &desk.b.edit(&edit(uid("nobody"))).await?, &false)?;
    same("whether it was there", &desk.b.edit(&edit(uid("x"))).await?, &true)?;
    desk.b.redrive(&redrive(&["x"])).await?;
    desk.gets("w", 1, "better").await?;
    let same_again = NewJob { uid: uid("again"), ..named("better", "id") };
    same("the answer", &desk.add(same_again).await?, &"duplicate, running".into())?;
    if desk.found(&by_uid("x")).await?.is_none() {
        return Err(failed("the job is gone"));
    }
    Ok(())
}
