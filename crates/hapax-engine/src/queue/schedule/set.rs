//! The schedules of a program, declared all at once.

use super::put::{Ready, ScheduledJob};
use crate::queue::{Queue, QueueError};
use hapax_core::queue::{Put, Schedule};
use std::collections::BTreeSet;

/// Schedules that belong together, and that have not been declared yet.
#[must_use = "nothing is declared until `declare` is awaited"]
#[derive(Debug)]
pub struct ScheduleSet {
    queue: Queue,
    owner: String,
    revision: u64,
    jobs: Vec<ScheduledJob>,
}

/// What became of a set: the names of its schedules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Declared {
    /// Those that are there now.
    pub put: Vec<String>,
    /// Those that somebody else has, or the whole set where a newer revision of it is there.
    pub refused: Vec<String>,
    /// Those that were of this owner and are gone.
    pub removed: Vec<String>,
}

impl Queue {
    /// The schedules of one program, under a name that all of its processes use. They are declared together, at each
    /// start: what the program no longer has is removed.
    ///
    /// ```
    /// # use hapax_engine::queue::{Queue, QueueDef, QueueError};
    /// # static REPORT: QueueDef<String> = QueueDef::new("report");
    /// # async fn example(queue: Queue) -> Result<(), QueueError> {
    /// let report = |name: &str, when: &str| queue.schedule(&REPORT, name, when, &name.to_owned());
    /// let declared = queue
    ///     .schedules("shop")
    ///     .revision(7)
    ///     .put(report("nightly", "0 3 * * *"))
    ///     .put(report("monthly", "0 9 L * *").time_zone("Asia/Tokyo"))
    ///     .declare()
    ///     .await?;
    /// # let _ = declared;
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedules(&self, owner: impl Into<String>) -> ScheduleSet {
        ScheduleSet { queue: self.clone(), owner: owner.into(), revision: 0, jobs: Vec::new() }
    }
}

impl ScheduleSet {
    /// The newest revision wins (0): a process of an older one, still running or started again, changes nothing. Raise
    /// it with each change of the set, by the time of the build for example.
    pub fn revision(mut self, n: u64) -> Self {
        self.revision = n;
        self
    }

    /// One more.
    pub fn put(mut self, job: ScheduledJob) -> Self {
        self.jobs.push(job);
        self
    }

    /// Puts all of them, and removes what this owner had beside them. What is there already, and unchanged, keeps the
    /// time at which it is due: a start is no reason to miss it.
    ///
    /// # Errors
    /// Those of [`Queue::schedule`], before anything is put; `queue.invalid` when a name stands twice. When the store
    /// fails, some may have been put: declare again.
    ///
    /// # Cancel safety
    /// Dropped early, some may have been put: declare again.
    pub async fn declare(self) -> Result<Declared, QueueError> {
        if self.owner.is_empty() {
            return Err(QueueError::invalid("the owner of a set of schedules has no name"));
        }
        let ready = self.jobs.into_iter().map(ScheduledJob::check).collect::<Result<Vec<Ready>, _>>()?;
        let mut names = BTreeSet::new();
        if let Some(twice) = ready.iter().find(|ready| !names.insert(ready.name.as_str())) {
            return Err(QueueError::invalid(format!(
                "the schedule `{}` stands twice in one set",
                twice.name
            )));
        }
        // Any name of a queue will do: schedules belong to the namespace.
        let raw = self.queue.raw("schedules")?;
        let (owner, revision) = (self.owner.as_str(), self.revision);
        let mut declared = Declared::default();
        let all = raw.all_schedules(None).await?;
        if newest(&all, owner).is_some_and(|newest| newest > revision) {
            declared.refused = names.into_iter().map(str::to_owned).collect();
            return Ok(declared);
        }
        for ready in &ready {
            let put = ready.put(Some(owner), revision, &all).await?;
            let to = if put == Put::Stored { &mut declared.put } else { &mut declared.refused };
            to.push(ready.name.as_str().to_owned());
        }
        // What another revision declared meanwhile is there by now. Whoever looks last leaves one whole set.
        let all = raw.all_schedules(None).await?;
        let newest = newest(&all, owner).map_or(revision, |newest| newest.max(revision));
        let is_stale = |known: &&Schedule| {
            let is_ours = known.owner.as_deref() == Some(owner);
            let is_left_out = newest == revision && !names.contains(known.name.as_str());
            is_ours && known.revision <= revision && (known.revision < newest || is_left_out)
        };
        for stale in all.iter().filter(is_stale) {
            let store = self.queue.store()?;
            // A newer revision may have put it again since that look.
            let gone = store.remove_schedule(&raw.id.namespace, &stale.name, Some(stale));
            if raw.call("remove a schedule", gone).await? {
                declared.put.retain(|name| name != stale.name.as_str());
                declared.removed.push(stale.name.as_str().to_owned());
            }
        }
        Ok(declared)
    }
}

fn newest(all: &[Schedule], owner: &str) -> Option<u64> {
    let ours = all.iter().filter(|known| known.owner.as_deref() == Some(owner));
    ours.map(|known| known.revision).max()
}
