//! Figures that only the store knows, published as gauges: dead letters and backlogs, watched.

use super::{Queue, QueueError, figures};
use crate::protocol::call;
use hapax_core::{
    Namespace, StoreResult,
    queue::{Group, QueueName, QueueStats},
};
use std::{collections::BTreeSet, time::Duration};
use tokio::task::JoinHandle;

/// The shortest time from one look to the next.
const SHORTEST: Duration = Duration::from_secs(1);

/// Publishes gauges until it is dropped.
#[must_use = "dropping it ends the watch"]
#[derive(Debug)]
pub struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Queue {
    /// Publishes what the store knows of these queues, or of all in the namespace where none is named, as gauges: at once, and
    /// then `every` so often (at least 1 s). Each look is one call to the store for each queue that is named, or one for all;
    /// without a watch there are none. A store that fails is asked again the next time.
    ///
    /// `docs/metrics.md` lists the gauges.
    ///
    /// # Errors
    /// `queue.invalid`: a name cannot be used. `store.unsupported`: the backend has no queues.
    pub fn watch<N: AsRef<str>>(
        &self,
        queues: impl IntoIterator<Item = N>,
        every: Duration,
    ) -> Result<Watch, QueueError> {
        let names = queues.into_iter().map(|name| Ok(self.raw(name.as_ref())?.id().name.clone()));
        let names = names.collect::<Result<Vec<_>, QueueError>>()?;
        let namespace = self.namespace()?;
        self.store()?;
        let (queue, every) = (self.clone(), every.max(SHORTEST));
        Ok(Watch(tokio::spawn(async move {
            let mut seen = BTreeSet::new();
            loop {
                queue.look(&namespace, &names, &mut seen).await;
                tokio::time::sleep(every).await;
            }
        })))
    }

    /// Publishes once.
    async fn look(
        &self,
        namespace: &Namespace,
        names: &[QueueName],
        seen: &mut BTreeSet<(QueueName, Option<Group>)>,
    ) {
        let mut now = BTreeSet::new();
        let asked = names.iter().map(Some).chain(names.is_empty().then_some(None));
        for name in asked {
            let stats = self.figures(namespace, name).await;
            match stats {
                Ok(stats) => {
                    for stats in &stats {
                        figures::watched(stats);
                        now.insert((stats.queue.clone(), stats.group.clone()));
                    }
                }
                Err(error) => {
                    figures::unanswered(name);
                    tracing::warn!(%error, code = "queue.store_failed", "queues could not be watched");
                    return;
                }
            }
        }
        // What is gone has no jobs any more: a gauge keeps its last value for ever.
        for (queue, group) in seen.difference(&now) {
            figures::gone(queue, group.as_ref());
        }
        *seen = now;
    }

    async fn figures(&self, namespace: &Namespace, name: Option<&QueueName>) -> StoreResult<Vec<QueueStats>> {
        let Ok(store) = self.store() else { return Ok(Vec::new()) };
        call::one(self.timeout(), "read figures", store.stats(namespace, name)).await
    }
}
