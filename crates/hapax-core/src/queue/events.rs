//! What passes in a queue, for whoever reads along.
//!
//! A queue that is [asked to](super::Limits::events) keeps its last events, in the order in which its steps were taken.
//! Each has a number, one above that of the event before, so a reader that names the last one it has seen misses nothing
//! that is still kept, and learns when something was not. The first event is numbered by the store's clock, in
//! microseconds: numbers grow also where the store has lost its memory.

use super::{Group, QueueId, Uid, history::What, machine::Fate};
use crate::{Timestamp, queue::machine::micros};

/// A queue is asked to keep so many at most.
pub const MOST_KEPT: u32 = 100_000;

/// What happened to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Happening {
    /// Its handler failed, and it is due again.
    Retried,
    /// Its handler put it off.
    Snoozed,
    /// Its worker was lost, and it is ready again.
    Lost,
    /// Its worker gave it back, and it is ready again.
    GivenBack,
    /// It went to the dead letters.
    Dead,
    /// Somebody took it from the dead letters.
    Redriven,
    /// It was added, to all groups.
    Added,
    /// A worker has it.
    Started,
    /// It is done.
    Done,
    /// It is over: cancelled, dropped from the dead letters, purged, or gone with its group.
    Cancelled,
}

impl Happening {
    /// All of them, with the numbers that stores write; those of a [history](super::history) have theirs.
    pub const ALL: [(Self, u8); 10] = [
        (Self::Retried, 1),
        (Self::Snoozed, 2),
        (Self::Lost, 3),
        (Self::GivenBack, 4),
        (Self::Dead, 5),
        (Self::Redriven, 6),
        (Self::Added, 11),
        (Self::Started, 12),
        (Self::Done, 13),
        (Self::Cancelled, 14),
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Lost => "lost",
            Self::GivenBack => "given_back",
            Self::Dead => "dead",
            Self::Redriven => "redriven",
            Self::Added => "added",
            Self::Started => "started",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    /// The number that stores write.
    pub fn number(self) -> u8 {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or(0, |(_, number)| *number)
    }

    /// From the number; a newer version may know others.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == number).map(|(found, _)| *found)
    }

    /// What is told of a job that a worker had and that goes where its fate says.
    pub fn settled(what: What, fate: &Fate) -> Self {
        match (fate, what) {
            (Fate::Done, _) => Self::Done,
            (Fate::Cancelled, _) => Self::Cancelled,
            (Fate::Dead(..), _) => Self::Dead,
            (_, What::Snoozed) => Self::Snoozed,
            (_, What::Lost) => Self::Lost,
            (_, What::GivenBack) => Self::GivenBack,
            (Fate::Ready | Fate::Due(_), _) => Self::Retried,
        }
    }
}

/// One thing that happened to a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueEvent {
    /// Its place among the events of the queue.
    pub number: u64,
    /// When, on the store's clock.
    pub at: Timestamp,
    /// What.
    pub what: Happening,
    /// To which job.
    pub uid: Uid,
    /// In which group; `None`: in all, in the first that nobody has named yet, or in one that is gone.
    pub group: Option<Group>,
    /// How often its handler had failed by then, this time included.
    pub attempts: u32,
}

/// Asks for events of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadEvents {
    /// Which queue.
    pub queue: QueueId,
    /// Behind the event of this number; 0: from the first that is kept.
    pub after: u64,
    /// At most so many.
    pub limit: usize,
}

/// Events in the order of their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventPage {
    /// The events.
    pub events: Vec<QueueEvent>,
    /// The number of the queue's newest event, kept or not; 0: there was none.
    pub last: u64,
    /// Whether events behind the one that was named are not kept any more.
    pub missed: bool,
}

impl EventPage {
    /// Where the next page begins: the number of the last event of this one, or what it came after.
    pub fn next(&self, after: u64) -> u64 {
        self.events.last().map_or(after, |event| event.number)
    }

    /// Whether what is kept from `first` on leaves a gap behind `after`.
    pub fn is_gap(after: u64, first: u64) -> bool {
        after > 0 && first > after.saturating_add(1)
    }
}

/// The number of the event after the one of `last`; 0: there was none.
pub fn number(last: u64, now: Timestamp) -> u64 {
    if last == 0 { micros(now) } else { last.saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_number_and_a_word_of_its_own() {
        for (happening, number) in Happening::ALL {
            assert_eq!((happening.number(), Happening::from_number(number)), (number, Some(happening)));
        }
        let words: std::collections::HashSet<_> = Happening::ALL.map(|(what, _)| what.as_str()).into();
        assert_eq!((words.len(), Happening::from_number(0)), (Happening::ALL.len(), None));
    }

    #[test]
    fn numbers_go_on_and_begin_at_the_time() {
        let now = Timestamp::from_millis(5);
        assert_eq!((number(0, now), number(7, now)), (5000, 8));
        assert_eq!(
            [(0, 9), (4, 5), (4, 6)].map(|(after, first)| EventPage::is_gap(after, first)),
            [false, false, true]
        );
    }
}
