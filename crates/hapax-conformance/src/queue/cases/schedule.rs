//! Schedules as stores keep them.

use super::list;
use crate::{
    fixture::{Verdict, same},
    queue::{desk::Desk, requests::jobs},
};
use hapax_core::{
    Namespace, Timestamp,
    queue::{Put, Schedule, ScheduleName, Schedules},
};

list!("schedule":
    a_schedule_is_kept_by_its_name,
    due_schedules_are_found,
    only_one_moves_the_next_time,
    a_higher_revision_stays,
    schedules_of_others_stay,
    only_what_was_seen_is_removed,
);

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
fn schedule(name: &str, next: i64) -> Schedule {
    Schedule {
        name: ScheduleName::new(name).expect("a name"),
        queue: jobs().name,
        owner: None,
        revision: 0,
        what: format!("what {name}").into(),
        next: Timestamp::from_millis(next),
    }
}

fn namespace() -> Namespace {
    jobs().namespace
}

async fn names(desk: &Desk, by: Option<i64>) -> Result<String, crate::fixture::Stop> {
    let req = Schedules { namespace: namespace(), by: by.map(Timestamp::from_millis) };
    let names: Vec<_> = desk.b.schedules(&req).await?.iter().map(|s| s.name.as_str().to_owned()).collect();
    Ok(names.join(" "))
}

async fn a_schedule_is_kept_by_its_name(desk: Desk) -> Verdict {
    desk.a.put_schedule(&namespace(), &schedule("b", 1000)).await?;
    desk.a.put_schedule(&namespace(), &schedule("a", 1000)).await?;
    let changed = Schedule { what: "changed".into(), ..schedule("b", 2000) };
    same("the answer", &desk.a.put_schedule(&namespace(), &changed).await?, &Put::Stored)?;
    let found = desk.b.schedules(&Schedules { namespace: namespace(), by: None }).await?;
    same("the schedules", &found, &vec![schedule("a", 1000), changed])?;
    let elsewhere = Schedules { namespace: Namespace::default(), by: None };
    same("those of another namespace", &desk.b.schedules(&elsewhere).await?, &Vec::new())?;
    let name = schedule("a", 0).name;
    same("whether it was there", &desk.a.remove_schedule(&namespace(), &name, None).await?, &true)?;
    same("whether it was there", &desk.a.remove_schedule(&namespace(), &name, None).await?, &false)?;
    same("the schedules", &names(&desk, None).await?, &"b".into())
}

async fn due_schedules_are_found(desk: Desk) -> Verdict {
    for (name, next) in [("a", 3000), ("b", 1000), ("c", 2000)] {
        desk.a.put_schedule(&namespace(), &schedule(name, next)).await?;
    }
    same("those due", &names(&desk, Some(2000)).await?, &"b c".into())?;
    same("those due", &names(&desk, Some(999)).await?, &String::new())
}

async fn only_one_moves_the_next_time(desk: Desk) -> Verdict {
    desk.a.put_schedule(&namespace(), &schedule("a", 1000)).await?;
    let (name, at) = (schedule("a", 0).name, Timestamp::from_millis);
    let first = desk.a.advance_schedule(&namespace(), &name, at(1000), at(2000)).await?;
    let second = desk.b.advance_schedule(&namespace(), &name, at(1000), at(2000)).await?;
    same("who moves it", &(first, second), &(true, false))?;
    same("those due", &names(&desk, Some(1999)).await?, &String::new())
}

async fn a_higher_revision_stays(desk: Desk) -> Verdict {
    let of = |revision, what: &'static str| Schedule {
        owner: Some("app".into()),
        revision,
        what: what.into(),
        ..schedule("a", 1000)
    };
    same("the answer", &desk.a.put_schedule(&namespace(), &of(2, "new")).await?, &Put::Stored)?;
    same("the answer", &desk.b.put_schedule(&namespace(), &of(1, "old")).await?, &Put::Refused)?;
    same("the answer", &desk.b.put_schedule(&namespace(), &of(2, "newer")).await?, &Put::Stored)?;
    let found = desk.b.schedules(&Schedules { namespace: namespace(), by: None }).await?;
    same("the schedules", &found, &vec![of(2, "newer")])
}

async fn schedules_of_others_stay(desk: Desk) -> Verdict {
    desk.a.put_schedule(&namespace(), &schedule("a", 1000)).await?;
    let theirs = Schedule { owner: Some("app".into()), revision: 9, ..schedule("a", 2000) };
    same("the answer", &desk.b.put_schedule(&namespace(), &theirs).await?, &Put::Refused)?;
    same("those due", &names(&desk, Some(1000)).await?, &"a".into())
}

async fn only_what_was_seen_is_removed(desk: Desk) -> Verdict {
    let of = |owner: Option<&str>, revision| Schedule {
        owner: owner.map(str::to_owned),
        revision,
        ..schedule("a", 1000)
    };
    let (old, new) = (of(Some("app"), 1), of(Some("app"), 2));
    desk.a.put_schedule(&namespace(), &old).await?;
    // Somebody puts a newer one, between the look of another and its removal.
    desk.a.put_schedule(&namespace(), &new).await?;
    for seen in [&old, &of(Some("other"), 2), &of(None, 2)] {
        let gone = desk.b.remove_schedule(&namespace(), &new.name, Some(seen)).await?;
        same("whether it was removed", &gone, &false)?;
    }
    // Its next time alone is no other version.
    let (from, to) = (Timestamp::from_millis(1000), Timestamp::from_millis(2000));
    desk.a.advance_schedule(&namespace(), &new.name, from, to).await?;
    let gone = desk.b.remove_schedule(&namespace(), &new.name, Some(&new)).await?;
    same("whether it was removed", &gone, &true)?;
    same("the schedules", &names(&desk, None).await?, &String::new())
}
