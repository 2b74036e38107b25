//! Several groups on one queue.

use super::list;
use crate::{
    fixture::{Verdict, failed, same, says},
    queue::{
        desk::{Desk, texts, write_of},
        requests::{by_id, done, finish, group, job, jobs, named, retry, step},
    },
    requests::ms,
};
use hapax_core::queue::{JobState, NewJob, Step, Subscribed, Taken};

list!("groups":
    the_first_group_has_all_jobs_so_far,
    a_later_group_has_what_is_added_from_then_on,
    a_group_is_known_again,
    groups_do_not_disturb_each_other,
    a_job_id_is_remembered_until_the_last_group_has_ended_it,
    a_group_that_is_dropped_takes_its_jobs_along,
    a_step_makes_its_group_known,
    one_group_may_be_held_back,
);

async fn takes(desk: &Desk, who: &str, want: usize) -> Result<Vec<Taken>, crate::fixture::Stop> {
    Ok(desk.a.step(&Step { group: group(who), ..step(who, want) }).await?.jobs)
}

async fn the_first_group_has_all_jobs_so_far(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), job("y")]).await?;
    same("the group is", &desk.a.subscribe(&jobs(), &group("g")).await?, &Subscribed::First)?;
    desk.adds(&[job("z")]).await?;
    same("its jobs", &texts(&takes(&desk, "g", 9).await?), &"x y z".into())
}

async fn a_later_group_has_what_is_added_from_then_on(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("g")).await?;
    desk.adds(&[job("x")]).await?;
    same("the group is", &desk.b.subscribe(&jobs(), &group("h")).await?, &Subscribed::Another)?;
    desk.adds(&[job("y")]).await?;
    same("jobs of the first", &texts(&takes(&desk, "g", 9).await?), &"x y".into())?;
    same("jobs of the second", &texts(&takes(&desk, "h", 9).await?), &"y".into())
}

async fn a_group_is_known_again(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("g")).await?;
    same("the group is", &desk.b.subscribe(&jobs(), &group("g")).await?, &Subscribed::Known)?;
    desk.a.subscribe(&jobs(), &group("h")).await?;
    same("the group is", &desk.b.subscribe(&jobs(), &group("h")).await?, &Subscribed::Known)
}

async fn groups_do_not_disturb_each_other(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("g")).await?;
    desk.a.subscribe(&jobs(), &group("h")).await?;
    desk.adds(&[job("x")]).await?;
    let (ours, theirs) = (takes(&desk, "g", 1).await?, takes(&desk, "h", 1).await?);
    let ([ours], [theirs]) = (&ours[..], &theirs[..]) else { return Err(failed("not a job for each")) };
    let ends = async |who: &str, job: &Taken, end| {
        write_of(
            &desk
                .b
                .step(&Step { group: group(who), finishes: vec![finish(job, end)], ..step(who, 0) })
                .await?,
        )
    };
    says(&ends("g", ours, retry(ms(60_000))).await?, "applied")?;
    says(&ends("h", theirs, done()).await?, "applied")?;
    desk.elapse(ms(60_000)).await;
    same("what comes again to the first", &texts(&takes(&desk, "g", 9).await?), &"x".into())?;
    same("what comes again to the second", &texts(&takes(&desk, "h", 9).await?), &String::new())
}

async fn a_job_id_is_remembered_until_the_last_group_has_ended_it(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("g")).await?;
    desk.a.subscribe(&jobs(), &group("h")).await?;
    let brief = |text: &str| NewJob { remember: crate::requests::span(ms(60_000)), ..named(text, "id") };
    desk.adds(&[brief("x")]).await?;
    for who in ["g", "h"] {
        let taken = takes(&desk, who, 1).await?;
        let finishes = taken.iter().map(|job| finish(job, done())).collect();
        desk.b.step(&Step { group: group(who), finishes, ..step(who, 0) }).await?;
        if who == "g" {
            desk.elapse(ms(90_000)).await;
            same("the answer", &desk.add(brief("y")).await?, &"reused".into())?;
        }
    }
    desk.is(&by_id("id"), "done").await?;
    desk.elapse(ms(60_000)).await;
    same("the answer", &desk.add(brief("y")).await?, &"new".into())
}

async fn a_group_that_is_dropped_takes_its_jobs_along(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("g")).await?;
    desk.a.subscribe(&jobs(), &group("h")).await?;
    desk.adds(&[job("x"), job("y")]).await?;
    same("how many went", &desk.b.unsubscribe(&jobs(), &group("h")).await?, &Some(2))?;
    same("how many went", &desk.b.unsubscribe(&jobs(), &group("h")).await?, &None)?;
    same("jobs of the other", &texts(&takes(&desk, "g", 9).await?), &"x y".into())?;
    let groups = desk.a.stats(&jobs().namespace, Some(&jobs().name)).await?.len();
    same("how many groups there are", &groups, &1)
}

async fn a_step_makes_its_group_known(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    same("its jobs", &texts(&takes(&desk, "g", 9).await?), &"x".into())?;
    same("the group is", &desk.b.subscribe(&jobs(), &group("g")).await?, &Subscribed::Known)
}

async fn one_group_may_be_held_back(desk: Desk) -> Verdict {
    desk.a.subscribe(&jobs(), &group("g")).await?;
    desk.a.subscribe(&jobs(), &group("h")).await?;
    desk.adds(&[job("x")]).await?;
    same("how many there are", &desk.b.pause(&jobs(), Some(&group("g")), true).await?, &1)?;
    same("jobs of the first", &texts(&takes(&desk, "g", 9).await?), &String::new())?;
    same("jobs of the second", &texts(&takes(&desk, "h", 9).await?), &"x".into())?;
    let of_first = crate::queue::requests::list(JobState::Ready);
    let page = desk.b.list(&hapax_core::queue::ListJobs { group: Some(group("g")), ..of_first }).await?;
    same("how many wait in the first", &page.jobs.len(), &1)
}
