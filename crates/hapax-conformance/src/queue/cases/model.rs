//! Random lists of steps, answered like the store in memory answers them. Every list has a queue of its own.

use super::list;
use crate::{
    fixture::{Stop, Verdict, failed},
    queue::{
        desk::Desk,
        requests::{beat, finish, give_back, key, named, queue, redrive, retry, snooze, step},
    },
    requests::{print, span},
    shown::Shown,
    suite::{long, seed},
};
use hapax_core::{
    Clock as _, ManualClock,
    doctor::{Examination, Severity},
    memory::MemoryQueues,
    queue::{
        Beat, DeadReason, Due, End, Finish, GiveBack, JobRef, JobState, ListJobs, NewJob, OnConflict,
        Priority, QueueId, QueueStore, Redrive, Step, Taken, history::Event,
    },
};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof},
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::{sync::Arc, time::Duration};

list!("model":
    random_steps_are_answered_like_in_memory,
);

/// What passes at once. Every other time ends in the middle of such a step, so that a clock that also runs by itself
/// changes nothing; the ten minutes for which a job without an id is remembered are no multiple of it either.
const TICK: Duration = Duration::from_secs(64);
/// So long a caller sends a job again whose answer was lost.
const RESENDS: Duration = Duration::from_mins(5);
const HALF: Duration = Duration::from_secs(32);
const WORKERS: [&str; 3] = ["w", "v", "u"];
const TEXTS: [&str; 3] = ["x", "y", "z"];
const IDS: [&str; 4] = ["a", "b", "c", "d"];
const SHRINKS: usize = 500;

#[derive(Clone, Debug)]
enum Op {
    Add { text: u8, id: Option<u8>, later: u8, priority: u8, on_conflict: u8 },
    AddAgain { back: u8 },
    Step { worker: u8, want: u8, ends: Vec<(u8, u8)> },
    FinishAgain { back: u8 },
    Beat { worker: u8, forget: u8 },
    GiveBack { worker: u8, leave: bool },
    Elapse { ticks: u8 },
    Cancel { id: u8 },
    Reschedule { id: u8, later: u8 },
    Redrive { force: bool },
    DropDead,
    Pause { paused: bool },
    Purge,
    Look { id: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_u8, proptest::option::of(0..4_u8), 0..3_u8, 0..4_u8, 0..3_u8).prop_map(
            |(text, id, later, priority, on_conflict)| Op::Add { text, id, later, priority, on_conflict }
        ),
        1 => (1..4_u8).prop_map(|back| Op::AddAgain { back }),
        8 => (0..3_u8, 0..4_u8, vec((0..4_u8, 0..4_u8), 0..3))
            .prop_map(|(worker, want, ends)| Op::Step { worker, want, ends }),
        1 => (1..4_u8).prop_map(|back| Op::FinishAgain { back }),
        2 => (0..3_u8, 0..3_u8).prop_map(|(worker, forget)| Op::Beat { worker, forget }),
        1 => (0..3_u8, any::<bool>()).prop_map(|(worker, leave)| Op::GiveBack { worker, leave }),
        4 => (1..4_u8).prop_map(|ticks| Op::Elapse { ticks }),
        1 => (0..4_u8).prop_map(|id| Op::Cancel { id }),
        1 => (0..4_u8, 0..3_u8).prop_map(|(id, later)| Op::Reschedule { id, later }),
        1 => any::<bool>().prop_map(|force| Op::Redrive { force }),
        1 => Just(Op::DropDead),
        1 => any::<bool>().prop_map(|paused| Op::Pause { paused }),
        1 => Just(Op::Purge),
        2 => (0..4_u8).prop_map(|id| Op::Look { id }),
    ]
}

async fn random_steps_are_answered_like_in_memory(desk: Desk) -> Verdict {
    let (count, seed) = (if long() { 2_000 } else { 60 }, seed()?);
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(seed.to_be_bytes()).for_each(|(to, from)| *to = from);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let lists = vec(op(), 1..40);
    let mut number = 0;
    for _ in 0..count {
        let mut tree = lists.new_tree(&mut runner).map_err(failed)?;
        number += 1;
        let Err(mut stop) = check(&desk, number, &tree.current()).await else { continue };
        let (mut list, mut tries, mut going) = (tree.current(), 0, tree.simplify());
        while going && tries < SHRINKS {
            (tries, number) = (tries + 1, number + 1);
            going = match check(&desk, number, &tree.current()).await {
                Err(simpler) => {
                    (stop, list) = (simpler, tree.current());
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        let Stop::Failed(what) = stop else { return Err(stop) };
        return Err(Stop::Failed(format!("{what}\nin this list (HAPAX_TEST_SEED={seed}):\n{list:#?}")));
    }
    Ok(())
}

async fn check(desk: &Desk, number: usize, list: &[Op]) -> Verdict {
    let clock = ManualClock::new();
    let reference = MemoryQueues::new(Arc::new(clock.clone()));
    let mut run = Run {
        desk,
        clock,
        reference,
        queue: queue(&format!("list {number}")),
        added: Vec::new(),
        held: vec![Vec::new(); WORKERS.len()],
        ended: Vec::new(),
        since: vec![None; WORKERS.len()],
    };
    for (at, op) in list.iter().enumerate() {
        run.step(at, op).await.map_err(|stop| match stop {
            Stop::Failed(what) => Stop::Failed(format!("step {at}, {op:?}: {what}")),
            skipped @ Stop::Skipped(_) => skipped,
        })?;
        run.figures().await?;
    }
    run.books().await
}

/// A job as the store and as the reference handed it out.
type Both = (Taken, Taken);
/// The clocks of both as the last beat was answered.
type Since = Option<(hapax_core::Timestamp, hapax_core::Timestamp)>;

struct Run<'a> {
    desk: &'a Desk,
    clock: ManualClock,
    reference: MemoryQueues,
    queue: QueueId,
    /// And when.
    added: Vec<(NewJob, hapax_core::Timestamp)>,
    held: Vec<Vec<Both>>,
    ended: Vec<(usize, Both, End)>,
    since: Vec<Since>,
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Verdict {
    if got == expected {
        Ok(())
    } else {
        Err(failed(format!("{what}: the store says {got:?}, the reference {expected:?}")))
    }
}

fn pick<T: Copy>(all: &[T], at: u8) -> Result<T, Stop> {
    all.get(usize::from(at)).copied().ok_or_else(|| failed("a number beyond its table"))
}

fn due(later: u8) -> Due {
    match later {
        0 => Due::Now,
        n => Due::After(span((TICK * u32::from(n)).saturating_sub(HALF))),
    }
}

fn end(number: u8) -> End {
    match number {
        0 => End::Done { result: None },
        1 => retry(TICK + HALF),
        2 => snooze(HALF),
        _ => End::Dead { reason: DeadReason::Refused, error: "no".into() },
    }
}

/// What both must agree on.
fn essence(job: &Taken) -> impl PartialEq + std::fmt::Debug + use<> {
    (job.uid, job.counts, job.snoozed_since.is_some(), job.payload.clone(), job.job_id.is_some())
}

impl Run<'_> {
    async fn step(&mut self, at: usize, op: &Op) -> Verdict {
        match op {
            Op::Add { text, id, later, priority, on_conflict } => {
                let text = pick(&TEXTS, *text)?;
                let id = id.map(|id| pick(&IDS, id)).transpose()?;
                // Where time goes on by itself, a job that is replaced is due after those that were added meanwhile.
                let replace = if self.desk.exact() { OnConflict::Replace } else { OnConflict::Refuse };
                let new = NewJob {
                    uid: crate::queue::requests::uid(&format!("{at}")),
                    job_id: id.map(key),
                    fingerprint: print(text),
                    due: due(*later),
                    priority: Priority::from_number(*priority).unwrap_or_default(),
                    remember: span(TICK * 2 + HALF),
                    on_conflict: pick(&[OnConflict::Refuse, OnConflict::Keep, replace], *on_conflict)?,
                    ..named(text, "id")
                };
                self.add(new).await
            }
            Op::AddAgain { back } => match self.added.len().checked_sub(usize::from(*back)) {
                // Nobody sends a job again later than that, and no store has to know it.
                Some(at) => match self.added.get(at).cloned() {
                    Some((new, at)) if self.clock.now().since(at) < RESENDS => self.add(new).await,
                    _ => Ok(()),
                },
                None => Ok(()),
            },
            Op::Step { worker, want, ends } => self.work(*worker, *want, ends).await,
            Op::FinishAgain { back } => self.finish_again(*back).await,
            Op::Beat { worker, forget } => self.beat(*worker, *forget).await,
            Op::GiveBack { worker, leave } => self.give_back(*worker, *leave).await,
            Op::Elapse { ticks } => {
                let by = TICK * u32::from(*ticks);
                self.desk.elapse(by).await;
                self.clock.advance(by);
                Ok(())
            }
            Op::Cancel { id } => {
                let job = JobRef::JobId(key(pick(&IDS, *id)?));
                let got = self.desk.b.cancel(&self.queue, &job).await?;
                equal("the answer", &got, &self.reference.cancel(&self.queue, &job).await?)
            }
            Op::Reschedule { id, later } => {
                let (job, due) = (JobRef::JobId(key(pick(&IDS, *id)?)), due(*later));
                let got = self.desk.a.reschedule(&self.queue, &job, due).await?;
                equal("the answer", &got, &self.reference.reschedule(&self.queue, &job, due).await?)
            }
            Op::Redrive { force } => {
                let uids: Vec<_> = self.added.iter().map(|(job, _)| job.uid).collect();
                let req = Redrive { queue: self.queue.clone(), uids, force: *force, ..redrive(&[]) };
                let got = self.desk.b.redrive(&req).await?;
                equal("the answers", &got, &self.reference.redrive(&req).await?)
            }
            Op::DropDead => {
                let uids: Vec<_> = self.added.iter().map(|(job, _)| job.uid).collect();
                let got = self.desk.b.drop_dead(&self.queue, None, &uids).await?;
                equal("how many went", &got, &self.reference.drop_dead(&self.queue, None, &uids).await?)
            }
            Op::Pause { paused } => {
                let got = self.desk.a.pause(&self.queue, None, *paused).await?;
                equal("how many groups", &got, &self.reference.pause(&self.queue, None, *paused).await?)
            }
            Op::Purge => {
                let got = self.desk.a.purge(&self.queue).await?;
                equal("how many went", &got, &self.reference.purge(&self.queue).await?)
            }
            Op::Look { id } => self.look(pick(&IDS, *id)?).await,
        }
    }

    async fn add(&mut self, new: NewJob) -> Verdict {
        let got = self.desk.a.add(&self.queue, std::slice::from_ref(&new)).await?;
        let expected = self.reference.add(&self.queue, std::slice::from_ref(&new)).await?;
        let shown = |all: &[hapax_core::queue::Added]| all.iter().map(Shown::shown).collect::<Vec<_>>();
        self.added.push((new, self.clock.now()));
        equal("the answer", &shown(&got), &shown(&expected))
    }

    async fn work(&mut self, worker: u8, want: u8, ends: &[(u8, u8)]) -> Verdict {
        let who = pick(&WORKERS, worker)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (at, number) in ends {
            let Some(held) = self.held.get_mut(usize::from(worker)) else { continue };
            if usize::from(*at) >= held.len() {
                continue;
            }
            let both = held.remove(usize::from(*at));
            ours.push(finish(&both.0, end(*number)));
            theirs.push(finish(&both.1, end(*number)));
            self.ended.push((usize::from(worker), both, end(*number)));
        }
        self.stepped(who, usize::from(worker), usize::from(want), ours, theirs).await
    }

    async fn finish_again(&mut self, back: u8) -> Verdict {
        let at = self.ended.len().checked_sub(usize::from(back));
        let Some((worker, both, end)) = at.and_then(|at| self.ended.get(at)).cloned() else { return Ok(()) };
        let who = pick(&WORKERS, u8::try_from(worker)?)?;
        self.stepped(who, worker, 0, vec![finish(&both.0, end.clone())], vec![finish(&both.1, end)]).await
    }

    async fn stepped(
        &mut self,
        who: &str,
        worker: usize,
        want: usize,
        ours: Vec<Finish>,
        theirs: Vec<Finish>,
    ) -> Verdict {
        let req = Step { queue: self.queue.clone(), lease: span(TICK + HALF), ..step(who, want) };
        let got = self.desk.a.step(&Step { finishes: ours, ..req.clone() }).await?;
        let expected = self.reference.step(&Step { finishes: theirs, ..req }).await?;
        equal("what was ended", &got.finished, &expected.finished)?;
        let essences = |jobs: &[Taken]| jobs.iter().map(essence).collect::<Vec<_>>();
        equal("what was handed out", &essences(&got.jobs), &essences(&expected.jobs))?;
        equal("whether it is held back", &got.paused, &expected.paused)?;
        equal("whether more is due", &got.next_due.is_some(), &expected.next_due.is_some())?;
        if let Some(held) = self.held.get_mut(worker) {
            held.extend(got.jobs.into_iter().zip(expected.jobs));
        }
        Ok(())
    }

    async fn beat(&mut self, worker: u8, forget: u8) -> Verdict {
        let (who, at) = (pick(&WORKERS, worker)?, usize::from(worker));
        let (Some(held), Some(since)) = (self.held.get_mut(at), self.since.get_mut(at)) else {
            return Ok(());
        };
        held.truncate(held.len().saturating_sub(usize::from(forget)));
        let ours: Vec<_> = held.iter().map(|both| &both.0).collect();
        let theirs: Vec<_> = held.iter().map(|both| &both.1).collect();
        let of = |since, jobs: &[&Taken]| Beat {
            queue: self.queue.clone(),
            lease: span(TICK + HALF),
            since,
            ..beat(who, jobs)
        };
        let mut got = self.desk.b.beat(&of(since.map(|since| since.0), &ours)).await?;
        let mut expected = self.reference.beat(&of(since.map(|since| since.1), &theirs)).await?;
        // A store whose clock runs by itself tells apart what the reference does not: a hand-out and the beat after it.
        *since = self.desk.exact().then_some((got.now, expected.now));
        got.now = expected.now;
        for answer in [&mut got, &mut expected] {
            answer.lost.sort();
            answer.cancelled.sort();
        }
        held.retain(|both| !expected.lost.contains(&both.0.uid));
        equal("the answer", &got, &expected)
    }

    async fn give_back(&mut self, worker: u8, leave: bool) -> Verdict {
        let who = pick(&WORKERS, worker)?;
        let Some(held) = self.held.get_mut(usize::from(worker)).map(std::mem::take) else { return Ok(()) };
        let of = |jobs: &[&Taken]| GiveBack { queue: self.queue.clone(), leave, ..give_back(who, jobs) };
        let ours: Vec<_> = held.iter().map(|both| &both.0).collect();
        let theirs: Vec<_> = held.iter().map(|both| &both.1).collect();
        let got = self.desk.a.give_back(&of(&ours)).await?;
        equal("the answers", &got, &self.reference.give_back(&of(&theirs)).await?)
    }

    async fn look(&self, id: &str) -> Verdict {
        let job = JobRef::JobId(key(id));
        let seen = async |store: &dyn QueueStore| {
            let found = store.find(&self.queue, &job).await?;
            Ok::<_, Stop>(
                found
                    .into_iter()
                    .map(|job| {
                        let told = |event: Event| {
                            (event.what, event.attempts, event.consumer, event.reason, event.error)
                        };
                        let history: Vec<_> = job.history.events.into_iter().map(told).collect();
                        (job.uid, job.state, job.reason, job.payload, history)
                    })
                    .collect::<Vec<_>>(),
            )
        };
        let got = seen(&*self.desk.b).await?;
        equal("what is found", &got, &seen(&self.reference).await?)
    }

    /// Whatever was done, all adds up.
    async fn books(&self) -> Verdict {
        let mut found = Examination::default();
        self.desk.a.books(Some(&self.queue)).await?.judge(&mut found);
        found.findings.retain(|finding| finding.severity == Severity::Error);
        equal("what is wrong with the books", &found.findings, &Vec::new())
    }

    /// The figures and lists after each step.
    async fn figures(&self) -> Verdict {
        let of = async |store: &dyn QueueStore| {
            let stats = store.stats(&self.queue.namespace, Some(&self.queue.name)).await?;
            let figures: Vec<_> = stats
                .iter()
                .map(|s| {
                    (
                        [s.ready, s.delayed, s.running, s.dead],
                        [s.added, s.done, s.cancelled, s.lost],
                        s.paused,
                    )
                })
                .collect();
            let mut lists = Vec::new();
            for state in [JobState::Ready, JobState::Delayed, JobState::Dead] {
                let req = ListJobs { queue: self.queue.clone(), group: None, state, after: None, limit: 100 };
                let uids: Vec<_> = store.list(&req).await?.jobs.iter().map(|job| job.uid).collect();
                lists.push((state.as_str(), uids));
            }
            Ok::<_, Stop>((figures, lists))
        };
        // A store whose clock runs by itself tells apart what the reference does not: the time of two deaths.
        let (got, expected) = (of(&*self.desk.b).await?, of(&self.reference).await?);
        equal("the figures", &got.0, &expected.0)?;
        equal("the lists", &got.1, &expected.1)
    }
}
