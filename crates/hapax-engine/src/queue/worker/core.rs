//! What a worker is made of.

use super::{builder::Options, held::Held, per::Shares};
use crate::queue::{figures::Figures, idempotent::Once, raw::Handler, schedule::StoreTime};
use hapax_core::{
    Clock, Span,
    queue::{Consumer, Group, QueueId, QueueStore},
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// When a worker ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Always,
    Once,
    UntilEmpty,
}

/// What a worker is made of.
pub(super) struct Core {
    pub(super) store: Arc<dyn QueueStore>,
    /// The store's clock.
    pub(super) time: Arc<StoreTime>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) queue: QueueId,
    pub(super) group: Group,
    pub(super) consumer: Consumer,
    pub(super) lease: Span,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) once: Option<Once>,
    /// Whether keys and jobs end in one step.
    pub(super) joint: bool,
    pub(super) options: Options,
    pub(super) held: Arc<Held>,
    pub(super) shares: Shares,
    pub(super) figures: Figures,
    pub(super) stop: CancellationToken,
}

impl Core {
    pub(super) fn tick(&self) -> Duration {
        self.lease.get() / 3
    }

    /// The pause after a beat that failed, and how often deadlines are looked at.
    pub(super) fn again(&self) -> Duration {
        (self.lease.get() / 10).min(Duration::from_secs(1))
    }

    /// How long before its end a lease that could not be renewed counts as lost.
    pub(super) fn margin(&self) -> Duration {
        let lease = self.lease.get();
        (lease / 10).max(Duration::from_secs(2)).min(lease / 4)
    }

    /// No call takes longer: what is handed out by a slower one would be freed by a beat that cannot know of it.
    pub(super) fn call_limit(&self) -> Duration {
        self.tick().saturating_sub(self.again()).min(self.timeout)
    }
}
