//! The events of a queue.

use crate::{
    Timestamp,
    queue::{
        EventPage, Group, Happening, QueueEvent, ReadEvents, Uid,
        events::{self, MOST_KEPT},
    },
};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Stream {
    kept: VecDeque<QueueEvent>,
    last: u64,
    most: usize,
}

impl Stream {
    /// Keeps so many from now on.
    pub(super) fn keep(&mut self, most: u32) {
        self.most = usize::try_from(most.min(MOST_KEPT)).unwrap_or_default();
        self.trim();
    }

    pub(super) fn pass(
        &mut self,
        now: Timestamp,
        what: Happening,
        uid: Uid,
        group: Option<&Group>,
        attempts: u32,
    ) {
        if self.most == 0 {
            return;
        }
        self.last = events::number(self.last, now);
        let event = QueueEvent { number: self.last, at: now, what, uid, group: group.cloned(), attempts };
        self.kept.push_back(event);
        self.trim();
    }

    fn trim(&mut self) {
        while self.kept.len() > self.most {
            self.kept.pop_front();
        }
    }

    pub(super) fn page(&self, req: &ReadEvents) -> EventPage {
        let first = self.kept.front().map_or(self.last.saturating_add(1), |event| event.number);
        let behind = self.kept.iter().filter(|event| event.number > req.after);
        EventPage {
            events: behind.take(req.limit).cloned().collect(),
            last: self.last,
            missed: EventPage::is_gap(req.after, first),
        }
    }
}
