//! Adding jobs, and knowing them again.

use super::list;
use crate::{
    fixture::{Verdict, failed, same},
    queue::{
        desk::{Desk, texts},
        requests::{by_id, by_uid, done, finish, group, job, jobs, named, queue, step, uid},
    },
    requests::{ms, receipt, span},
    shown::Shown,
};
use hapax_core::queue::{Added, DeadReason, End, JobState, NewJob, OnConflict, Step};

list!("add":
    a_job_that_is_added_is_handed_out,
    an_add_sent_again_is_the_same_job,
    an_add_sent_again_after_the_end_is_the_same_job,
    a_job_id_is_one_job,
    a_job_id_is_known_inside_one_batch,
    another_payload_under_a_job_id_is_refused,
    another_payload_under_a_job_id_may_be_left_out,
    another_payload_may_replace_a_job_that_nobody_took,
    a_job_id_is_remembered_after_the_end,
    a_dead_job_keeps_its_id_for_a_while,
    a_duplicate_answers_the_result,
    bytes_come_back_as_they_were,
    a_batch_is_answered_in_order,
    any_name_is_a_queue_of_its_own,
    nothing_is_forgotten_by_a_restart,
);

async fn a_job_that_is_added_is_handed_out(desk: Desk) -> Verdict {
    same("the answer", &desk.add(job("x")).await?, &"new".into())?;
    desk.is(&by_uid("x"), "ready").await?;
    let taken = desk.takes_one("w").await?;
    same("its id", &taken.uid, &uid("x"))?;
    same("its settings", &taken.settings[..], b"settings".as_slice())?;
    desk.is(&by_uid("x"), "running").await?;
    desk.gets("v", 5, "").await?;
    same("the end", &desk.ends("w", &taken, done()).await?.shown(), &"applied".into())?;
    desk.is(&by_uid("x"), "done").await?;
    desk.gets("w", 5, "").await
}

async fn an_add_sent_again_is_the_same_job(desk: Desk) -> Verdict {
    desk.adds(&[job("x")]).await?;
    same("the answer", &desk.add(job("x")).await?, &"new".into())?;
    desk.gets("w", 5, "x").await?;
    same("the answer", &desk.add(job("x")).await?, &"new".into())?;
    desk.gets("w", 5, "").await
}

async fn an_add_sent_again_after_the_end_is_the_same_job(desk: Desk) -> Verdict {
    desk.adds(&[job("x"), named("y", "id")]).await?;
    for taken in desk.takes("w", 2).await? {
        desk.ended("w", &taken, done()).await?;
    }
    desk.elapse(ms(5 * 60_000)).await;
    same("the answer", &desk.add(job("x")).await?, &"new".into())?;
    same("the answer", &desk.add(named("y", "id")).await?, &"new".into())?;
    desk.gets("w", 5, "").await
}

async fn a_job_id_is_one_job(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let again = || NewJob { fingerprint: named("x", "id").fingerprint, ..named("other uid", "id") };
    same("the answer", &desk.add(again()).await?, &"duplicate, ready".into())?;
    let taken = desk.takes_one("w").await?;
    same("its job id", &taken.job_id.as_ref().map(hapax_core::Key::as_str), &Some("id"))?;
    same("the answer", &desk.add(again()).await?, &"duplicate, running".into())?;
    desk.ended("w", &taken, done()).await?;
    same("the answer", &desk.add(again()).await?, &"duplicate, done".into())?;
    let answers = desk.a.add(&jobs(), &[again()]).await?;
    match &answers[..] {
        [Added::Duplicate { uid: first, .. }] => same("the id", first, &uid("x"))?,
        _ => return Err(failed("no duplicate")),
    }
    desk.gets("w", 5, "").await
}

async fn a_job_id_is_known_inside_one_batch(desk: Desk) -> Verdict {
    let second = NewJob { uid: uid("second"), ..named("x", "id") };
    let answers = desk.a.add(&jobs(), &[named("x", "id"), second, named("y", "id")]).await?;
    let shown: Vec<_> = answers.iter().map(Shown::shown).collect();
    same("the answers", &shown, &vec!["new".into(), "duplicate, ready".into(), "reused".to_owned()])?;
    desk.gets("w", 5, "x").await
}

async fn another_payload_under_a_job_id_is_refused(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let answers = desk.b.add(&jobs(), &[named("y", "id")]).await?;
    match &answers[..] {
        [Added::Reused { uid: first, fingerprint }] => {
            same("the id", first, &uid("x"))?;
            same("the fingerprint", fingerprint, &job("x").fingerprint)?;
        }
        _ => return Err(failed("another payload is no conflict")),
    }
    desk.gets("w", 5, "x").await
}

async fn another_payload_under_a_job_id_may_be_left_out(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let kept = NewJob { on_conflict: OnConflict::Keep, ..named("y", "id") };
    same("the answer", &desk.add(kept).await?, &"duplicate, ready".into())?;
    desk.gets("w", 5, "x").await
}

async fn another_payload_may_replace_a_job_that_nobody_took(desk: Desk) -> Verdict {
    let replacing = |text| NewJob { on_conflict: OnConflict::Replace, ..named(text, "id") };
    desk.adds(&[named("x", "id"), job("z")]).await?;
    same("the answer", &desk.add(replacing("y")).await?, &"replaced".into())?;
    let mut taken = desk.takes("w", 2).await?;
    taken.sort_by_key(|job| job.payload.clone());
    same("the payloads", &texts(&taken), &"y z".into())?;
    same("the answer", &desk.add(replacing("v")).await?, &"reused".into())?;
    same("the answer", &desk.add(replacing("y")).await?, &"duplicate, running".into())
}

async fn a_job_id_is_remembered_after_the_end(desk: Desk) -> Verdict {
    let brief = |text: &str| NewJob { remember: span(ms(60_000)), ..named(text, "id") };
    desk.adds(&[brief("x")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, done()).await?;
    desk.is(&by_id("id"), "done").await?;
    desk.elapse(ms(40_000)).await;
    same("the answer", &desk.add(brief("y")).await?, &"reused".into())?;
    desk.elapse(ms(20_000)).await;
    desk.is(&by_id("id"), "-").await?;
    same("the answer", &desk.add(brief("y")).await?, &"new".into())?;
    desk.gets("w", 5, "y").await
}

async fn a_dead_job_keeps_its_id_for_a_while(desk: Desk) -> Verdict {
    let brief = |text: &str| NewJob { remember: span(ms(60_000)), ..named(text, "id") };
    desk.adds(&[brief("x")]).await?;
    let taken = desk.takes_one("w").await?;
    let end = End::Dead { reason: DeadReason::Refused, error: "no".into() };
    desk.ended("w", &taken, end).await?;
    same("the answer", &desk.add(brief("y")).await?, &"reused".into())?;
    desk.elapse(ms(60_000)).await;
    same("the answer", &desk.add(brief("y")).await?, &"new".into())?;
    same("the dead letters", &desk.listed(JobState::Dead).await?, &"x".into())
}

async fn a_duplicate_answers_the_result(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id")]).await?;
    let taken = desk.takes_one("w").await?;
    let end = End::Done { result: Some((receipt("sent"), span(ms(60_000)))) };
    desk.ended("w", &taken, end).await?;
    let again = NewJob { uid: uid("again"), ..named("x", "id") };
    let result = async || match &desk.a.add(&jobs(), std::slice::from_ref(&again)).await?[..] {
        [Added::Duplicate { result, .. }] => Ok(result.clone()),
        _ => Err(failed("no duplicate")),
    };
    same("the result", &result().await?, &Some(receipt("sent")))?;
    let found = desk.found(&by_uid("x")).await?.and_then(|job| job.result);
    same("the result", &found, &Some(receipt("sent")))?;
    desk.elapse(ms(60_000)).await;
    same("the result", &result().await?, &None)
}

async fn bytes_come_back_as_they_were(desk: Desk) -> Verdict {
    let all: Vec<u8> = (0..=255).collect();
    for (n, payload) in [Vec::new(), all.clone(), all.repeat(4096)].into_iter().enumerate() {
        let bytes = NewJob { payload: payload.clone().into(), ..job(&n.to_string()) };
        desk.adds(&[NewJob { settings: all.clone().into(), ..bytes }]).await?;
        let taken = desk.takes_one("w").await?;
        same("whether the payload is the same", &(taken.payload == payload), &true)?;
        same("whether the settings are the same", &(taken.settings == all), &true)?;
        desk.ended("w", &taken, done()).await?;
    }
    Ok(())
}

async fn a_batch_is_answered_in_order(desk: Desk) -> Verdict {
    let batch: Vec<_> = (0..256).map(|n| named(&format!("{n:03}"), &format!("id {n}"))).collect();
    desk.adds(&batch).await?;
    let taken = desk.takes("w", 256).await?;
    let expected: Vec<_> = (0..256).map(|n| format!("{n:03}")).collect();
    same("the jobs", &texts(&taken), &expected.join(" "))?;
    let finishes: Vec<_> = taken.iter().map(|job| finish(job, done())).collect();
    let stepped = desk.b.step(&Step { finishes, ..step("w", 0) }).await?;
    let applied = stepped.finished.iter().filter(|finished| finished.job.shown() == "applied").count();
    same("how many ended", &applied, &256)?;
    same("how many are done", &desk.stats().await?.done, &256)
}

async fn any_name_is_a_queue_of_its_own(desk: Desk) -> Verdict {
    let names =
        ["a", "a:job", "a:job:b", "{a}", "{}", "}{", "a%3A", "a b", "🦀", "a\0b", "\u{1}", "jobs:s", "*"];
    for name in names {
        let new = NewJob { job_id: Some(crate::queue::requests::key("b:stream")), ..job(name) };
        desk.a.add(&queue(name), &[new]).await?;
    }
    for name in names {
        let mut req = step("w", 9);
        req.queue = queue(name);
        req.group = group(name);
        let taken = desk.b.step(&req).await?.jobs;
        same("what is in the queue", &texts(&taken), &name.to_owned())?;
    }
    let shown = desk.a.stats(&jobs().namespace, None).await?;
    let mut found: Vec<_> = shown.iter().map(|stats| stats.queue.as_str().to_owned()).collect();
    let mut expected: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    found.sort();
    expected.sort();
    same("the queues", &found, &expected)
}

async fn nothing_is_forgotten_by_a_restart(desk: Desk) -> Verdict {
    desk.adds(&[named("x", "id"), job("y"), job("z")]).await?;
    let taken = desk.takes_one("w").await?;
    desk.ended("w", &taken, done()).await?;
    let desk = desk.reopened().await?;
    same("the answer", &desk.add(named("x", "id")).await?, &"new".into())?;
    desk.is(&by_id("id"), "done").await?;
    desk.gets("w", 5, "y z").await
}
