//! What there is: one job, pages of jobs, figures.

use super::{
    Queues,
    call::{self, Args, Op},
    form,
    keys::Place,
    script,
};
use crate::error::Failure;
use hapax_core::{
    Namespace, Timestamp,
    queue::{
        JobInfo, JobPage, JobRef, JobState, ListJobs, Progress, QueueId, QueueName, QueueStats, Uid,
        history::History,
    },
};
use redis::Value;
use std::{fmt::Write as _, sync::Arc, time::Duration};

/// So many jobs are read at once.
const READ: usize = 100;

/// A job as scripts are told of it.
pub(super) fn meant(job: &JobRef) -> Args {
    match job {
        JobRef::Uid(uid) => Args::new().arg("u").arg(uid.as_bytes()),
        JobRef::JobId(id) => Args::new().arg("k").arg(form::field(id)),
    }
}

/// Where a page goes on: group, set, score and name of the last job seen.
pub(super) struct Cursor {
    group: u32,
    set: u8,
    after: Option<(i64, Vec<u8>)>,
}

impl Cursor {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '.');
        let (group, set) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (score, name) = (parts.next()?.parse().ok()?, parts.next()?);
        let name = name
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        Some(Self { group, set, after: Some((score, name.collect::<Option<_>>()?)) })
    }

    fn print(&self) -> String {
        let (score, name) = self.after.clone().unwrap_or_default();
        let mut text = format!("{}.{}.{score}.", self.group, self.set);
        for byte in name {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

/// A job on a page, and where it lies.
struct Seen {
    score: i64,
    name: Vec<u8>,
    info: JobInfo,
}

impl Queues {
    pub(super) async fn found(&self, queue: &QueueId, job: &JobRef) -> Result<Vec<JobInfo>, Failure> {
        let place = self.place(queue);
        let Some(mut said) = self.on_all(&place, Op::again(&script::FIND), || meant(job)).await? else {
            return Ok(Vec::new());
        };
        let read = || {
            let live = said.list()?;
            let Some(uid) = said.next() else { return Some(Vec::new()) };
            let uid = form::uid(&call::bytes(uid)?)?;
            if live.is_empty() {
                let (field, record) = (said.bytes()?, said.bytes()?);
                if record.is_empty() {
                    return Some(Vec::new());
                }
                let result = said.bytes()?;
                let result = if result.is_empty() { None } else { Some(form::receipt(result)?) };
                return Some(vec![form::remembered(uid, &field, record, result)?]);
            }
            live.into_iter().map(|found| read_found(&place, uid, found)).collect()
        };
        let mut read = read;
        read().ok_or_else(|| self.nonsense())
    }

    pub(super) async fn page(&self, req: &ListJobs, from: Option<Cursor>) -> Result<JobPage, Failure> {
        let place = self.place(&req.queue);
        self.refresh(&place).await?;
        let mut page = JobPage::default();
        let groups = place.groups();
        if !groups.is_there() {
            return Ok(page);
        }
        let mut at = from;
        for (number, name) in &groups.list {
            if req.group.as_ref().is_some_and(|wanted| name.as_ref() != Some(wanted))
                || at.as_ref().is_some_and(|at| at.group != *number)
            {
                continue;
            }
            let from = at.take();
            let wanted = req.limit.saturating_add(1) - page.jobs.len();
            let seen = self.listed(&place, *number, req.state, from, wanted).await?;
            for (set, seen) in seen {
                if page.jobs.len() == req.limit {
                    return Ok(page);
                }
                let mut info = seen.info;
                info.group.clone_from(name);
                page.jobs.push(info);
                let last = Cursor { group: *number, set, after: Some((seen.score, seen.name)) };
                page.next = Some(last.print());
            }
        }
        page.next = None;
        Ok(page)
    }

    /// The next jobs of a group, and in which of its sets each lies.
    async fn listed(
        &self,
        place: &Place,
        number: u32,
        state: JobState,
        from: Option<Cursor>,
        wanted: usize,
    ) -> Result<Vec<(u8, Seen)>, Failure> {
        let mut found = Vec::new();
        match state {
            JobState::Ready => {
                let (first, mut after) = from.map_or((0, None), |from| (from.set, from.after));
                for set in first..4 {
                    let left = wanted - found.len();
                    let seen = self.of_set(place, number, (set, state), after.take(), left).await?;
                    found.extend(seen.into_iter().map(|seen| (set, seen)));
                }
            }
            JobState::Delayed => {
                let after = from.and_then(|from| from.after);
                for set in 0..4 {
                    let seen = self.of_set(place, number, (set, state), after.clone(), wanted).await?;
                    found.extend(seen.into_iter().map(|seen| (set, seen)));
                }
                found.sort_by(|(_, a), (_, b)| (a.score, &a.name).cmp(&(b.score, &b.name)));
                found.truncate(wanted);
            }
            JobState::Running | JobState::Dead => {
                let after = from.and_then(|from| from.after);
                let seen = self.of_set(place, number, (0, state), after, wanted).await?;
                found.extend(seen.into_iter().map(|seen| (0, seen)));
            }
            JobState::Done | JobState::Cancelled => {}
        }
        Ok(found)
    }

    async fn of_set(
        &self,
        place: &Place,
        number: u32,
        (set, state): (u8, JobState),
        mut after: Option<(i64, Vec<u8>)>,
        wanted: usize,
    ) -> Result<Vec<Seen>, Failure> {
        let (set, part) = match state {
            JobState::Ready => (set.to_string(), "ready"),
            JobState::Delayed => (set.to_string(), "delayed"),
            JobState::Running => ("r".to_owned(), ""),
            _ => ("x".to_owned(), ""),
        };
        let mut found: Vec<Seen> = Vec::new();
        while found.len() < wanted {
            let count = (wanted - found.len()).min(READ);
            let args = || {
                let mut args = Args::new().arg(&set).arg(part);
                match &after {
                    Some((score, name)) => args = args.arg(score).arg(name),
                    None => args = args.arg("").arg(""),
                }
                args.arg(count)
            };
            let keys = place.keys(&[number]);
            let said =
                self.call(place, Op::again(&script::LIST), |_| Some((Arc::clone(&keys), args()))).await?;
            let Some(mut said) = said else { break };
            let read = (|| Some((said.list()?, said.list()?, said.list()?)))();
            let (names, bodies, facts) = read.ok_or_else(|| self.nonsense())?;
            let are_all = names.len() < 2 * count;
            let mut names = names.into_iter();
            for (body, facts) in bodies.into_iter().zip(facts) {
                let (Some(name), Some(score)) = (names.next(), names.next()) else { break };
                let seen = read_seen(state, name, &score, body, facts).ok_or_else(|| self.nonsense())?;
                after = Some((seen.0, seen.1.clone()));
                // One that lies nowhere else is on its way out.
                found.extend(seen.2.map(|info| Seen { score: seen.0, name: seen.1, info }));
            }
            if are_all {
                break;
            }
        }
        Ok(found)
    }

    pub(super) async fn counted(
        &self,
        namespace: &Namespace,
        queue: Option<&QueueName>,
    ) -> Result<Vec<QueueStats>, Failure> {
        let queues = match queue {
            Some(name) => vec![QueueId::new(namespace, name)],
            None => self.queues(Some(namespace)).await?,
        };
        let mut all = Vec::new();
        for queue in queues {
            let place = self.place(&queue);
            self.refresh(&place).await?;
            let Some(mut said) = self.on_all(&place, Op::again(&script::STATS), Args::new).await? else {
                continue;
            };
            let (now, groups) = (said.now, place.groups());
            let answers = said.list().filter(|answers| answers.len() == groups.list.len());
            let answers = answers.ok_or_else(|| self.nonsense())?;
            for ((_, group), answer) in groups.list.iter().zip(answers) {
                let stats = read_stats(&queue.name, now, answer).ok_or_else(|| self.nonsense())?;
                all.push(QueueStats { group: group.clone(), ..stats });
            }
        }
        Ok(all)
    }
}

fn read_found(place: &Place, uid: Uid, found: Value) -> Option<JobInfo> {
    let mut parts = call::list(found)?.into_iter();
    let number = u32::try_from(call::number(&parts.next()?)?).ok()?;
    let state = form::state(call::number(&parts.next()?)?)?;
    let at = Timestamp::from_millis(call::number(&parts.next()?)?);
    let (body, facts) = (call::bytes(parts.next()?)?, call::bytes(parts.next()?)?);
    let consumer = call::bytes(parts.next()?)?;
    let consumer = form::consumer(&consumer);
    let taken_at = Some(call::number(&parts.next()?)?).filter(|at| *at >= 0).map(Timestamp::from_millis);
    let history = History::read(&call::bytes(parts.next()?)?);
    let progress = Progress::read(&call::bytes(parts.next()?)?);
    let info = form::info(uid, state, at, body, facts)?;
    Some(JobInfo { group: place.groups().name(number), consumer, taken_at, progress, history, ..info })
}

type Read = (i64, Vec<u8>, Option<JobInfo>);

fn read_seen(state: JobState, name: Value, score: &Value, body: Value, facts: Value) -> Option<Read> {
    let (name, score) = (call::bytes(name)?, redis::from_redis_value_ref::<f64>(score).ok()?);
    #[expect(clippy::cast_possible_truncation, reason = "whole milliseconds below 2^53")]
    let score = score as i64;
    let uid = match state {
        JobState::Running => name.get(..16)?,
        _ => name.get(6..)?,
    };
    let uid = form::uid(uid)?;
    let body = call::bytes(body)?;
    if body.is_empty() {
        return Some((score, name, None));
    }
    let mut info = form::info(uid, state, Timestamp::from_millis(score), body, call::bytes(facts)?)?;
    if state == JobState::Running {
        info.consumer = form::consumer(name.get(24..)?);
        info.taken_at = form::taken_at(&name);
    }
    Some((score, name, Some(info)))
}

fn read_stats(queue: &QueueName, now: Timestamp, answer: Value) -> Option<QueueStats> {
    let numbers: Vec<i64> = call::list(answer)?.iter().map(call::number).collect::<Option<_>>()?;
    let [ready, delayed, running, dead, added, done, cancelled, lost, paused, oldest, seen] =
        numbers.try_into().ok()?;
    let count = |n: i64| u64::try_from(n).unwrap_or_default();
    let oldest: Option<Duration> = (oldest >= 0).then(|| now.since(Timestamp::from_millis(oldest)));
    Some(QueueStats {
        queue: queue.clone(),
        group: None,
        ready: count(ready),
        delayed: count(delayed),
        running: count(running),
        dead: count(dead),
        added: count(added),
        done: count(done),
        cancelled: count(cancelled),
        lost: count(lost),
        paused: paused == 1,
        oldest,
        seen: (seen >= 0).then(|| Timestamp::from_millis(seen)),
    })
}
