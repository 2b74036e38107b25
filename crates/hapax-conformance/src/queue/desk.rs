//! What a case of the queue gets.

use super::{
    Subject,
    harness::QueueClient,
    requests::{beat, finish, jobs, list, step},
};
use crate::{
    fixture::{Stop, Verdict, failed, same, says},
    shown::Shown,
};
use hapax_core::{
    BoxError,
    idempotency::Write,
    queue::{
        Added, Beaten, End, JobInfo, JobRef, JobState, NewJob, QueueStats, QueueStore, Step, Stepped, Taken,
    },
};
use std::{sync::Arc, time::Duration};

/// Two clients of one store without queues.
#[derive(Clone)]
pub(crate) struct Desk {
    subject: Arc<dyn Subject>,
    pub(crate) a: Arc<dyn QueueStore>,
    pub(crate) b: Arc<dyn QueueStore>,
    pub(crate) client: QueueClient,
}

impl Desk {
    pub(crate) async fn new(subject: Arc<dyn Subject>) -> Result<Self, BoxError> {
        let (client, b) = (subject.client().await?, subject.client().await?.queues);
        Ok(Self { subject, a: Arc::clone(&client.queues), b, client })
    }

    pub(crate) async fn elapse(&self, by: Duration) {
        self.subject.elapse(by).await;
    }

    pub(crate) fn exact(&self) -> bool {
        self.subject.exact_time()
    }

    /// A closed and reopened store, with new clients.
    pub(crate) async fn reopened(self) -> Result<Self, Stop> {
        let Self { subject, a, b, client } = self;
        drop((a, b, client));
        if !subject.reopen().await? {
            return Err(Stop::Skipped("keeps nothing beyond its process"));
        }
        Ok(Self::new(subject).await?)
    }

    /// Adds jobs that must be new.
    pub(crate) async fn adds(&self, new: &[NewJob]) -> Verdict {
        for answer in self.a.add(&jobs(), new).await? {
            if !matches!(answer, Added::New { .. }) {
                return Err(failed(format!("a new job is {}", answer.shown())));
            }
        }
        Ok(())
    }

    /// Adds one job.
    pub(crate) async fn add(&self, new: NewJob) -> Result<String, Stop> {
        let answers = self.b.add(&jobs(), &[new]).await?;
        match &answers[..] {
            [answer] => Ok(answer.shown()),
            _ => Err(failed(format!("{} answers to one job", answers.len()))),
        }
    }

    /// What a worker gets.
    pub(crate) async fn takes(&self, who: &str, want: usize) -> Result<Vec<Taken>, Stop> {
        Ok(self.a.step(&step(who, want)).await?.jobs)
    }

    /// The one job that a worker gets.
    pub(crate) async fn takes_one(&self, who: &str) -> Result<Taken, Stop> {
        let mut jobs = self.takes(who, 1).await?;
        jobs.pop().ok_or_else(|| failed(format!("{who} gets no job")))
    }

    /// Checks what a worker gets, by its texts.
    pub(crate) async fn gets(&self, who: &str, want: usize, expected: &str) -> Verdict {
        same(&format!("what {who} gets"), &texts(&self.takes(who, want).await?), &expected.to_owned())
    }

    /// A worker ends a job.
    pub(crate) async fn ends(&self, who: &str, job: &Taken, end: End) -> Result<Write, Stop> {
        let stepped = self.b.step(&Step { finishes: vec![finish(job, end)], ..step(who, 0) }).await?;
        write_of(&stepped)
    }

    /// A worker ends a job that is its own.
    pub(crate) async fn ended(&self, who: &str, job: &Taken, end: End) -> Verdict {
        says(&self.ends(who, job, end).await?, "applied")
    }

    /// A worker's beat for these jobs.
    pub(crate) async fn beats(&self, who: &str, held: &[&Taken]) -> Result<Beaten, Stop> {
        Ok(self.b.beat(&beat(who, held)).await?)
    }

    /// The figures of the first group.
    pub(crate) async fn stats(&self) -> Result<QueueStats, Stop> {
        let mut all = self.b.stats(&jobs().namespace, Some(&jobs().name)).await?;
        if all.is_empty() { Err(failed("no figures")) } else { Ok(all.remove(0)) }
    }

    /// The texts of all jobs in a state.
    pub(crate) async fn listed(&self, state: JobState) -> Result<String, Stop> {
        let page = self.b.list(&list(state)).await?;
        let texts: Vec<_> =
            page.jobs.iter().map(|job| String::from_utf8_lossy(&job.payload).into_owned()).collect();
        Ok(texts.join(" "))
    }

    /// The one answer about a job.
    pub(crate) async fn found(&self, job: &JobRef) -> Result<Option<JobInfo>, Stop> {
        let mut found = self.b.find(&jobs(), job).await?;
        if found.len() > 1 {
            return Err(failed(format!("{} answers about a job of one group", found.len())));
        }
        Ok(found.pop())
    }

    /// Checks how far a job is: its state, or `-` where nobody knows it.
    pub(crate) async fn is(&self, job: &JobRef, expected: &str) -> Verdict {
        let state = self.found(job).await?.map_or("-", |job| job.state.as_str());
        same("the state of the job", &state, &expected)
    }
}

/// The one answer to the one finish of a step.
pub(crate) fn write_of(stepped: &Stepped) -> Result<Write, Stop> {
    match &stepped.finished[..] {
        [finished] => Ok(finished.job),
        all => Err(failed(format!("{} answers to one finish", all.len()))),
    }
}

/// The payloads as one text.
pub(crate) fn texts(jobs: &[Taken]) -> String {
    let texts: Vec<_> = jobs.iter().map(|job| String::from_utf8_lossy(&job.payload).into_owned()).collect();
    texts.join(" ")
}

impl Shown for Added {
    fn shown(&self) -> String {
        match self {
            Self::New { .. } => "new".into(),
            Self::Replaced { .. } => "replaced".into(),
            Self::Duplicate { state, .. } => format!("duplicate, {}", state.as_str()),
            Self::Reused { .. } => "reused".into(),
            Self::Full { depth, .. } => format!("full at {depth}"),
        }
    }
}
