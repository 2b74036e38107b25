//! What is told of jobs and queues.

use super::{
    book::Book,
    sub::{Place, Sub},
};
use crate::{
    Now, Timestamp,
    queue::{
        Counts, GroupBooks, JobInfo, JobRef, JobState, QueueId, QueueName, QueueStats, Uid, history::History,
    },
};
use bytes::Bytes;

impl Book {
    /// The job that is meant, where it is known.
    pub(super) fn uid(&self, job: &JobRef, now: Timestamp) -> Option<Uid> {
        match job {
            JobRef::Uid(uid) => Some(*uid),
            JobRef::JobId(id) => self.memos.by_id(id, now).or_else(|| {
                // A dead letter whose id is free again is still found by it.
                let dead = |sub: &Sub| {
                    sub.listed(JobState::Dead)
                        .into_iter()
                        .find(|uid| sub.job(uid).is_some_and(|job| job.what.job_id.as_ref() == Some(id)))
                };
                self.subs.iter().find_map(dead)
            }),
        }
    }

    /// How far a job is, over all groups.
    pub(super) fn state(&self, uid: &Uid, now: Timestamp) -> Option<JobState> {
        let mut found = self.memos.get(uid, now).and_then(|memo| memo.end).map(|(state, _)| state);
        for sub in &self.subs {
            let state = match sub.job(uid).map(|job| &job.place) {
                Some(Place::Running { .. }) => return Some(JobState::Running),
                Some(Place::Ready) => JobState::Ready,
                Some(Place::Delayed) => JobState::Delayed,
                Some(Place::Dead { .. }) => JobState::Dead,
                None => continue,
            };
            found = Some(found.map_or(state, |before| before.min(state)));
        }
        found
    }

    pub(super) fn find(&self, job: &JobRef, now: &Now) -> Vec<JobInfo> {
        let Some(uid) = self.uid(job, now.wall) else { return Vec::new() };
        let of = |sub: &Sub| {
            let (info, job) = (sub.info(&uid, now)?, sub.job(&uid)?);
            let progress = match &job.place {
                Place::Running { progress, .. } => progress.clone(),
                _ => None,
            };
            Some(JobInfo { progress, history: History::read(&job.told), ..info })
        };
        let mut found: Vec<JobInfo> = self.subs.iter().filter_map(of).collect();
        let Some(memo) = self.memos.get(&uid, now.wall) else { return found };
        if let (true, Some((state, at))) = (found.is_empty(), memo.end) {
            found.push(JobInfo {
                uid,
                job_id: memo.job_id.clone(),
                group: None,
                state,
                priority: memo.priority,
                counts: Counts::default(),
                added_at: memo.added_at,
                at,
                consumer: None,
                taken_at: None,
                progress: None,
                reason: None,
                error: None,
                payload: Bytes::new(),
                settings: memo.settings.clone(),
                result: memo.result(now.wall),
                history: History::default(),
            });
        }
        found
    }

    pub(super) fn stats(&self, queue: &QueueName, now: Timestamp) -> Vec<QueueStats> {
        self.subs.iter().map(|sub| sub.stats(queue, now)).collect()
    }

    /// Looks at the records themselves.
    pub(super) fn look(&self, id: &QueueId, now: &Now) -> Vec<GroupBooks> {
        let of = |(n, sub): (usize, &Sub)| GroupBooks {
            // Of the queue, and told once.
            dangling: if n == 0 { self.memos.dangling() } else { 0 },
            ..sub.look(id, now)
        };
        self.subs.iter().enumerate().map(of).collect()
    }
}
