//! Looking at schedules, and removing one.

use super::rule::Rule;
use crate::queue::{Queue, QueueError};
use hapax_core::{
    Timestamp,
    queue::{Schedule, ScheduleName},
};

/// A schedule, as it is kept.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// Where its jobs go.
    pub queue: String,
    /// The set that it belongs to.
    pub owner: Option<String>,
    /// The revision of that set.
    pub revision: u64,
    /// When it is due; in the past, a worker has yet to see it.
    pub next: Timestamp,
    /// What it adds, and when. `queue.schedule_unreadable`: a newer version has written it, or it is damaged.
    pub rule: Result<Rule, QueueError>,
}

impl ScheduleInfo {
    fn of(schedule: &Schedule) -> Self {
        Self {
            name: schedule.name.as_str().to_owned(),
            queue: schedule.queue.as_str().to_owned(),
            owner: schedule.owner.clone(),
            revision: schedule.revision,
            next: schedule.next,
            rule: Rule::read(schedule),
        }
    }

    /// The times from the next one on.
    pub fn upcoming(&self) -> impl Iterator<Item = Timestamp> {
        let timing = self.rule.as_ref().ok().map(Rule::timing);
        std::iter::successors(Some(self.next), move |last| timing.and_then(|timing| timing.after(*last)))
    }
}

impl Queue {
    /// The schedules of the namespace, by name.
    pub async fn list_schedules(&self) -> Result<Vec<ScheduleInfo>, QueueError> {
        let all = self.raw("schedules")?.all_schedules(None).await?;
        Ok(all.iter().map(ScheduleInfo::of).collect())
    }

    /// Removes a schedule, whoever put it; answers whether it was there. Jobs that it has added stay.
    ///
    /// # Errors
    /// `queue.invalid`, `queue.store_failed`.
    pub async fn remove_schedule(&self, name: &str) -> Result<bool, QueueError> {
        let raw = self.raw("schedules")?;
        let name = ScheduleName::new(name).map_err(|error| QueueError::invalid(error.to_string()))?;
        raw.call("remove a schedule", self.store()?.remove_schedule(&raw.id.namespace, &name, None)).await
    }
}
