//! The books of queues: what a store finds when it looks at its own records, and what does not add up.

use super::{Consumer, QueueId, QueueStats};
use crate::{
    Timestamp,
    doctor::{Examination, Severity},
};
use std::time::Duration;

/// A look passes at most so many queues.
pub const MOST_QUEUES: usize = 100;
/// And so many entries of each kind in each group.
pub const MOST_ENTRIES: usize = 2000;
/// A lease that was over for so long, and whose job nobody took over, says that no worker of the group lives.
pub const OVERDUE: Duration = Duration::from_mins(1);
/// A group that nobody works for is worth a word after this time.
const DESERTED: Duration = Duration::from_hours(24);
/// A job that is ready for longer is worth a word.
const LATE: Duration = Duration::from_hours(1);

/// What a look at queues found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Books {
    /// For each group of each queue.
    pub groups: Vec<GroupBooks>,
    /// Whether there are more queues than were looked at.
    pub is_more: bool,
    /// Whether there are queues, also where none could be looked at.
    pub are_used: bool,
    /// Commands of the server that this user may not call and that queues need.
    pub missing_rights: Vec<&'static str>,
}

/// What a look found of one group of a queue, all at the same instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupBooks {
    /// Which queue.
    pub queue: QueueId,
    /// Its figures; also which group.
    pub stats: QueueStats,
    /// The store's clock.
    pub now: Timestamp,
    /// How many jobs wait, run, and are dead, when their records are counted. `None`: the figures are that count, or
    /// there are more than a look passes.
    pub counted: Option<[u64; 3]>,
    /// Jobs that have a place in the queue and no body.
    pub bodiless: u64,
    /// Bodies of jobs that have no place in the queue. Where groups share them, told with the first.
    pub homeless: u64,
    /// Job ids that belong to a job that is neither there nor remembered. Of the whole queue, told with its first group.
    pub dangling: u64,
    /// Jobs whose leases have been over for longer than [`OVERDUE`].
    pub overdue: u64,
    /// Who had one of them.
    pub overdue_of: Option<Consumer>,
    /// Where not all entries were looked at: how many were, of each kind at most.
    pub looked_at: Option<u64>,
}

impl Books {
    /// Tells what follows.
    pub fn judge(&self, found: &mut Examination) {
        if !self.missing_rights.is_empty() {
            let rights = self.missing_rights.join("`, `");
            let words: Vec<_> =
                self.missing_rights.iter().map(|right| format!("+{}", right.to_lowercase())).collect();
            // Whoever keeps nothing but keys needs none of them.
            let severity = if self.are_used { Severity::Error } else { Severity::Info };
            found.find(
                "queue_rights",
                severity,
                format!("this user may not call `{rights}`: it cannot use queues, and none was looked at"),
                format!("ACL SETUSER <user> {}, where it is to use queues", words.join(" ")),
            );
        }
        let mut names: Vec<_> = self.groups.iter().map(|group| &group.queue).collect();
        names.dedup();
        if !names.is_empty() {
            found.fact("queues", format!("{}{}", names.len(), if self.is_more { " of more" } else { "" }));
        }
        for group in &self.groups {
            group.judge(found);
        }
        if self.is_more {
            found.find(
                "queue_books",
                Severity::Info,
                format!("there are more than {MOST_QUEUES} queues, and the others were not looked at"),
                "nothing; `hapax queue stats` shows the figures of all of a namespace",
            );
        }
    }
}

impl GroupBooks {
    /// Of which nothing is wrong.
    pub fn sound(queue: QueueId, stats: QueueStats, now: Timestamp) -> Self {
        Self {
            queue,
            stats,
            now,
            counted: None,
            bodiless: 0,
            homeless: 0,
            dangling: 0,
            overdue: 0,
            overdue_of: None,
            looked_at: None,
        }
    }

    fn judge(&self, found: &mut Examination) {
        self.balance(found);
        self.records(found);
        self.workers(found);
        self.letters(found);
    }

    /// How people call the group.
    fn name(&self) -> String {
        let group = self.stats.group.as_ref().map(|group| format!(", group `{group}`")).unwrap_or_default();
        let namespace = &self.queue.namespace;
        let within = if *namespace == crate::Namespace::default() {
            String::new()
        } else {
            format!(", namespace `{}`", namespace.as_str())
        };
        format!("queue `{}`{group}{within}", self.queue.name)
    }

    fn option(&self) -> String {
        let group = self.stats.group.as_ref().filter(|group| group.as_str() != "main");
        group.map(|group| format!(" --group {group}")).unwrap_or_default()
    }

    fn balance(&self, found: &mut Examination) {
        let QueueStats { ready, delayed, running, dead, added, done, cancelled, .. } = self.stats;
        let parts = [ready, delayed, running, dead, done, cancelled];
        let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
        if sum != added {
            let what = if sum < added { "are missing" } else { "are too many" };
            found.find(
                "queue_books",
                Severity::Error,
                format!(
                    "{}: of {added} jobs that were added, {ready} are ready, {delayed} delayed, {running} running, {dead} dead, \
                     {done} done and {cancelled} cancelled: {} {what}",
                    self.name(),
                    sum.abs_diff(added)
                ),
                "find out what else writes to the store, or lost a part of it: a restore of some keys or tables, a deletion by hand, \
                 an eviction; jobs that are missing have to be added again",
            );
        }
        let figures = [ready.saturating_add(delayed), running, dead];
        if let Some(counted) = self.counted.filter(|counted| *counted != figures) {
            let text = |[waiting, running, dead]: [u64; 3]| {
                format!("{waiting} waiting, {running} running, {dead} dead")
            };
            found.find(
                "queue_books",
                Severity::Error,
                format!(
                    "{}: its figures say {}, and its records are {}: limits and figures follow the former",
                    self.name(),
                    text(figures),
                    text(counted)
                ),
                "find out what else writes to the tables of the store; when no worker runs, move the jobs to another queue and \
                 purge this one",
            );
        }
    }

    fn records(&self, found: &mut Examination) {
        let of =
            self.looked_at.map(|most| format!(" (among the first {most} of each kind)")).unwrap_or_default();
        let faults = [
            (self.bodiless, "jobs have a place in the queue and no body: they cannot run"),
            (self.homeless, "bodies of jobs have no place in the queue: they never run"),
            (self.dangling, "job ids belong to jobs that are gone"),
        ];
        for (count, what) in faults {
            if count > 0 {
                found.find(
                    "queue_records",
                    Severity::Error,
                    format!("{}: {count} {what}{of}", self.name()),
                    "find out what else writes to the store; `hapax queue purge QUEUE --force` takes all of its jobs away, and what is \
                     needed has to be added again",
                );
            }
        }
    }

    fn workers(&self, found: &mut Examination) {
        let work =
            format!("hapax queue work {}{} -- CMD, or start its workers", self.queue.name, self.option());
        if self.overdue > 0 {
            let who = self.overdue_of.as_ref().map(|who| format!(", one with `{who}`")).unwrap_or_default();
            found.find(
                "queue_workers",
                Severity::Warning,
                format!(
                    "{}: {} jobs run with workers that have not been heard of since their leases ended more than {} s ago{who}, \
                     and nobody takes them over",
                    self.name(),
                    self.overdue,
                    OVERDUE.as_secs()
                ),
                work.clone(),
            );
        }
        let waiting = self.stats.ready + self.stats.delayed;
        let silent = self.stats.seen.map(|seen| self.now.since(seen));
        if self.stats.group.is_some() && silent.is_none_or(|silent| silent >= DESERTED) {
            let since = silent.map_or_else(|| "ever".to_owned(), |silent| format!("for {}", long(silent)));
            // A group that was just made waits for its first worker.
            let is_old = silent.is_some() || self.stats.oldest.is_some_and(|oldest| oldest >= DESERTED);
            if is_old {
                let severity = if waiting > 0 { Severity::Warning } else { Severity::Info };
                found.find(
                    "queue_workers",
                    severity,
                    format!("{}: no worker was here {since}, and {waiting} jobs wait", self.name()),
                    match &self.stats.group {
                        Some(group) => format!(
                            "{work}; or, where nobody needs the group: hapax queue unsubscribe {} {group} --force",
                            self.queue.name
                        ),
                        None => work,
                    },
                );
                return;
            }
        }
        if let Some(oldest) = self.stats.oldest.filter(|oldest| *oldest >= LATE) {
            let (why, remedy) = if self.stats.paused {
                (", and it is paused", format!("hapax queue resume {}{}", self.queue.name, self.option()))
            } else {
                ("", format!("more workers, or a higher `--concurrency`: {work}"))
            };
            found.find(
                "queue_backlog",
                Severity::Warning,
                format!(
                    "{}: the oldest of {} ready jobs has been so for {}{why}",
                    self.name(),
                    self.stats.ready,
                    long(oldest)
                ),
                remedy,
            );
        }
    }

    fn letters(&self, found: &mut Examination) {
        if self.stats.dead > 0 {
            found.find(
                "queue_dead",
                Severity::Info,
                format!("{}: {} jobs are dead letters", self.name(), self.stats.dead),
                format!(
                    "hapax queue dead list {}{}, then redrive or drop them",
                    self.queue.name,
                    self.option()
                ),
            );
        }
    }
}

fn long(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match minutes {
        0..120 => format!("{minutes} min"),
        120..2880 => format!("{} h", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Namespace,
        queue::{Group, QueueName},
    };

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn sound() -> GroupBooks {
        let name = QueueName::new("mail").unwrap();
        let stats = QueueStats {
            queue: name.clone(),
            group: Some(Group::main()),
            ready: 3,
            delayed: 2,
            running: 1,
            dead: 0,
            added: 10,
            done: 3,
            cancelled: 1,
            lost: 0,
            paused: false,
            oldest: Some(Duration::from_secs(1)),
            seen: Some(NOW),
        };
        GroupBooks::sound(QueueId::new(&Namespace::default(), &name), stats, NOW)
    }

    fn judged(change: impl FnOnce(&mut GroupBooks)) -> Vec<(&'static str, Severity)> {
        let mut group = sound();
        change(&mut group);
        let mut found = Examination::default();
        Books { groups: vec![group], ..Books::default() }.judge(&mut found);
        found.findings.iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    #[test]
    fn sound_books_say_nothing() {
        assert_eq!(judged(|_| {}), []);
        assert_eq!(judged(|group| group.counted = Some([5, 1, 0])), []);
    }

    #[test]
    fn what_does_not_add_up_is_an_error() {
        let error = |check| vec![(check, Severity::Error)];
        assert_eq!(judged(|group| group.stats.added = 11), error("queue_books"));
        assert_eq!(judged(|group| group.stats.done = 4), error("queue_books"));
        assert_eq!(judged(|group| group.counted = Some([6, 0, 0])), error("queue_books"));
        assert_eq!(judged(|group| group.bodiless = 1), error("queue_records"));
        assert_eq!(judged(|group| group.homeless = 1), error("queue_records"));
        assert_eq!(judged(|group| group.dangling = 1), error("queue_records"));
    }

    #[test]
    fn workers_that_are_gone_are_found() {
        let warned = |check| vec![(check, Severity::Warning)];
        assert_eq!(judged(|group| group.overdue = 1), warned("queue_workers"));
        let seen = |ago| Some(Timestamp::from_millis(NOW.as_millis() - ago));
        assert_eq!(judged(|group| group.stats.seen = seen(86_399_999)), []);
        assert_eq!(judged(|group| group.stats.seen = seen(86_400_000)), warned("queue_workers"));
        assert_eq!(judged(|group| group.stats.seen = None), []);
        assert_eq!(judged(|group| group.stats.oldest = Some(LATE)), warned("queue_backlog"));
        let never = |group: &mut GroupBooks| (group.stats.seen, group.stats.oldest) = (None, Some(DESERTED));
        assert_eq!(judged(never), warned("queue_workers"));
    }

    #[test]
    fn an_idle_group_and_dead_letters_are_told() {
        let idle = |group: &mut GroupBooks| {
            (group.stats.ready, group.stats.delayed, group.stats.done) = (0, 0, 8);
            (group.stats.oldest, group.stats.seen) = (None, Some(Timestamp::from_millis(0)));
        };
        assert_eq!(judged(idle), [("queue_workers", Severity::Info)]);
        let dead = |group: &mut GroupBooks| (group.stats.dead, group.stats.done) = (2, 1);
        assert_eq!(judged(dead), [("queue_dead", Severity::Info)]);
    }

    #[test]
    fn what_was_not_looked_at_is_said() {
        let mut found = Examination::default();
        let group = GroupBooks { bodiless: 1, looked_at: Some(7), ..sound() };
        Books { groups: vec![group], is_more: true, missing_rights: vec!["HSET"], are_used: false }
            .judge(&mut found);
        let said: Vec<_> = found.findings.iter().map(|finding| finding.reason.as_str()).collect();
        assert!(
            said[0].contains("`HSET`") && said[1].contains("first 7") && said[2].contains("more than 100"),
            "{said:?}"
        );
    }
}
