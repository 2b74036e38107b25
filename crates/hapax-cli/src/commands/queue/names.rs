//! Names of queues and groups that nothing has: each is said with the nearest that are there.

use super::Found;
use crate::{failure::Failure, text};
use hapax::core::{
    Namespace,
    queue::{Group, QueueName, QueueStats, QueueStore},
};
use std::collections::BTreeSet;

/// So many names are said.
const SAID: usize = 5;

/// Where there is no store, there is no queue.
pub(super) fn no_store(name: &str) -> Failure {
    unknown("there is no queue", name, "queues", &[])
}

/// The figures that are meant: of one queue or of all, of one group or of all.
pub(super) async fn figures(
    store: &dyn QueueStore,
    namespace: &Namespace,
    queue: Option<&QueueName>,
    group: Option<&Group>,
) -> Result<Vec<QueueStats>, Failure> {
    let mut stats = store.stats(namespace, queue).await?;
    if let Some(queue) = queue.filter(|_| stats.is_empty()) {
        let all = store.stats(namespace, None).await?;
        let names: BTreeSet<_> = all.iter().map(|stats| stats.queue.as_str()).collect();
        return Err(unknown("there is no queue", queue.as_str(), "queues", &Vec::from_iter(names)));
    }
    if let Some(group) = group {
        let groups: BTreeSet<_> =
            stats.iter().filter_map(|stats| stats.group.as_ref()).map(Group::as_str).collect();
        if !groups.contains(group.as_str()) {
            let what = if queue.is_some() { "the queue has no group" } else { "no queue has a group" };
            return Err(unknown(what, group.as_str(), "groups", &Vec::from_iter(groups)));
        }
        stats.retain(|stats| stats.group.as_ref() == Some(group));
    }
    Ok(stats)
}

impl Found {
    /// Whether the queue is there, and the group where one is named.
    pub(super) async fn is_there(&self, group: Option<&Group>) -> Result<(), Failure> {
        let id = self.raw.id();
        figures(&*self.store, &id.namespace, Some(&id.name), group).await.map(drop)
    }
}

/// Nothing has that name, and these are there.
fn unknown(what: &str, name: &str, kind: &str, there: &[&str]) -> Failure {
    let failure = Failure::input(format!("{what} {}", text::quoted(name)));
    if let Some(near) = text::nearest(name, there) {
        return failure.help(format!("there is {}", text::quoted(near)));
    }
    match there.len() {
        0 if kind == "groups" => failure.help("no worker has named its first group yet"),
        0 => failure.help("a queue begins with its first job, or with `hapax queue subscribe QUEUE GROUP`"),
        more => {
            let mut said: Vec<_> = there.iter().take(SAID).map(|name| text::quoted(name)).collect();
            if more > SAID {
                said.push("…".to_owned());
            }
            failure.help(format!("the {kind} that are there: {}", said.join(", ")))
        }
    }
}
