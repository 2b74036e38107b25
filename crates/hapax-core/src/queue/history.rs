//! What happened to a job beside the usual, for people: which bytes a store keeps of it.
//!
//! A job that is added, taken and done has no history. Everything else that happens to it writes a few bytes behind
//! those that are there, in the step in which it happens, in the job's own record of a group: they end with the job, or
//! stay with the dead letter. Stores that run no code of ours write the same bytes:
//!
//! `version(1)=1 events(1) dropped(4)`, then for each event
//! `length(2) at(8) what(1) attempts(4) due(8) reason(1) length(1) consumer error`
//!
//! where numbers are big-endian, instants are milliseconds since 1970, the first length is that of all that follows of
//! the event, and a time or reason that is 0 is none.

use super::{Consumer, DeadReason, machine::Fate};
use crate::Timestamp;

/// So many events of a job are kept: the first, and the latest.
pub const MAX_EVENTS: usize = 20;
/// An error text in a history is kept up to so many bytes.
pub const MAX_TOLD: usize = 256;

const VERSION: u8 = 1;
const HEAD: usize = 6;
/// The length of an event without its texts, from `at` on.
const FIXED: usize = 23;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum What {
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
    /// Somebody gave the dead letter another payload.
    Edited,
    /// Somebody cancelled it while it ran.
    Cancelled,
    /// Somebody gave it another time.
    Rescheduled,
    /// An `add` under its job id gave it another payload.
    Replaced,
}

impl What {
    /// All of them. The number in the bytes is the place here, from 1: new ones come last.
    pub const ALL: [Self; 10] = [
        Self::Retried,
        Self::Snoozed,
        Self::Lost,
        Self::GivenBack,
        Self::Dead,
        Self::Redriven,
        Self::Edited,
        Self::Cancelled,
        Self::Rescheduled,
        Self::Replaced,
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
            Self::Edited => "edited",
            Self::Cancelled => "cancelled",
            Self::Rescheduled => "rescheduled",
            Self::Replaced => "replaced",
        }
    }
}

/// One thing that happened to a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, on the store's clock.
    pub at: Timestamp,
    /// What.
    pub what: What,
    /// How often its handler had failed by then, this time included.
    pub attempts: u32,
    /// Who had it.
    pub consumer: Option<Consumer>,
    /// When it may start again, where it has to wait for that.
    pub due: Option<Timestamp>,
    /// Why it is dead.
    pub reason: Option<DeadReason>,
    /// The first [`MAX_TOLD`] bytes of what its handler said.
    pub error: Option<String>,
}

impl Event {
    /// Of which nothing more is to be told.
    pub const fn new(at: Timestamp, what: What, attempts: u32) -> Self {
        Self { at, what, attempts, consumer: None, due: None, reason: None, error: None }
    }

    /// What is told of a job that a worker had and that goes where its fate says; `what`, unless that is its death.
    /// `None`: the job is over.
    pub fn settled(
        at: Timestamp,
        what: What,
        attempts: u32,
        consumer: Option<&Consumer>,
        fate: &Fate,
        error: Option<&str>,
    ) -> Option<Self> {
        let event = || Self { consumer: consumer.cloned(), ..Self::new(at, what, attempts) };
        let said = |text: &str| Some(cut(text).to_owned()).filter(|text| !text.is_empty());
        match fate {
            Fate::Done | Fate::Cancelled => None,
            Fate::Ready => Some(event()),
            Fate::Due(due) => Some(Self { due: Some(*due), error: error.and_then(said), ..event() }),
            Fate::Dead(reason, text) => {
                Some(Self { what: What::Dead, reason: Some(*reason), error: said(text), ..event() })
            }
        }
    }
}

/// What happened to a job in one group beside the usual: when it was added and who has it now is told elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// The first event and the latest ones, [`MAX_EVENTS`] at most, as they happened.
    pub events: Vec<Event>,
    /// How many after the first are left out.
    pub dropped: u32,
}

impl History {
    /// From the bytes that a store keeps; empty where nothing was written, or by a newer version of hapax.
    pub fn read(bytes: &[u8]) -> Self {
        parse(bytes).unwrap_or_default()
    }
}

/// Puts an event behind the bytes that are there; nothing is there: empty. What a newer version wrote stays as it is.
pub fn append(bytes: &mut Vec<u8>, event: &Event) {
    if bytes.is_empty() {
        bytes.extend([VERSION, 0, 0, 0, 0, 0]);
    }
    let [VERSION, count, dropped @ ..] = &mut bytes[..] else { return };
    if usize::from(*count) < MAX_EVENTS {
        *count += 1;
    } else {
        if let Some((dropped, _)) = dropped.split_first_chunk_mut::<4>() {
            *dropped = u32::from_be_bytes(*dropped).saturating_add(1).to_be_bytes();
        }
        let second = end_of(bytes, HEAD);
        let third = end_of(bytes, second);
        bytes.drain(second..third);
    }
    let consumer = event.consumer.as_ref().map(Consumer::as_str).unwrap_or_default();
    let error = event.error.as_deref().map(cut).unwrap_or_default();
    let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis).unwrap_or_default().to_be_bytes();
    // Both are bounded: 200 and 256 bytes.
    let length = u16::try_from(FIXED + consumer.len() + error.len()).unwrap_or_default();
    bytes.extend(length.to_be_bytes());
    bytes.extend(event.at.as_millis().to_be_bytes());
    bytes.push(number(&What::ALL, &event.what));
    bytes.extend(event.attempts.to_be_bytes());
    bytes.extend(millis(event.due));
    bytes.push(event.reason.map_or(0, |reason| number(&DeadReason::ALL, &reason)));
    bytes.push(u8::try_from(consumer.len()).unwrap_or_default());
    bytes.extend(consumer.as_bytes());
    bytes.extend(error.as_bytes());
}

/// Its place in a list, from 1.
fn number<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let at = all.iter().position(|known| known == one);
    at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or_default()
}

fn named<T: Copy>(all: &[T], number: u8) -> Option<T> {
    all.get(usize::from(number).checked_sub(1)?).copied()
}

/// Where the event that begins at `at` ends.
fn end_of(bytes: &[u8], at: usize) -> usize {
    let length =
        bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |length| u16::from_be_bytes(*length));
    (at + 2 + usize::from(length)).min(bytes.len())
}

/// As much of an error text as a history keeps.
fn cut(error: &str) -> &str {
    let mut end = error.len().min(MAX_TOLD);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error.get(..end).unwrap_or_default()
}

fn parse(bytes: &[u8]) -> Option<History> {
    let ([VERSION, _, dropped @ ..], mut rest) = bytes.split_first_chunk::<HEAD>()? else { return None };
    let mut events = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (event, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        // What a newer version tells is left out.
        events.extend(parse_event(event));
        rest = after;
    }
    Some(History { events, dropped: u32::from_be_bytes(*dropped) })
}

fn parse_event(bytes: &[u8]) -> Option<Event> {
    let (at, bytes) = bytes.split_first_chunk()?;
    let ([what], bytes) = bytes.split_first_chunk()?;
    let (attempts, bytes) = bytes.split_first_chunk()?;
    let (due, bytes) = bytes.split_first_chunk()?;
    let ([reason, length], bytes) = bytes.split_first_chunk()?;
    let (consumer, error) = bytes.split_at_checked(usize::from(*length))?;
    Some(Event {
        at: Timestamp::from_millis(i64::from_be_bytes(*at)),
        what: named(&What::ALL, *what)?,
        attempts: u32::from_be_bytes(*attempts),
        consumer: str::from_utf8(consumer).ok().and_then(|name| Consumer::new(name).ok()),
        due: Some(i64::from_be_bytes(*due)).filter(|due| *due != 0).map(Timestamp::from_millis),
        reason: named(&DeadReason::ALL, *reason),
        error: Some(whole(error).to_owned()).filter(|text| !text.is_empty()),
    })
}

/// Stores that count bytes may have cut a text within its last character.
fn whole(text: &[u8]) -> &str {
    let end = str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
    text.get(..end).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u32) -> Event {
        Event {
            at: Timestamp::from_millis(i64::from(n)),
            what: What::Retried,
            attempts: n,
            consumer: Some(Consumer::new("wörker").unwrap()),
            due: Some(Timestamp::from_millis(99)),
            reason: Some(DeadReason::Refused),
            error: Some("it failed".into()),
        }
    }

    fn told(events: &[Event]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for event in events {
            append(&mut bytes, event);
        }
        bytes
    }

    #[test]
    fn events_come_back_as_they_were_told() {
        let all: Vec<_> = What::ALL.map(|what| Event { what, ..event(1) }).into();
        assert_eq!(History::read(&told(&all)), History { events: all, dropped: 0 });
        let bare = Event::new(Timestamp::from_millis(5), What::Edited, 0);
        assert_eq!(History::read(&told(std::slice::from_ref(&bare))).events, [bare]);
        assert_eq!(History::read(&[]), History::default());
    }

    #[test]
    fn the_first_event_and_the_last_ones_stay() {
        let all: Vec<_> = (0..50).map(event).collect();
        let history = History::read(&told(&all));
        assert_eq!((history.events.len(), history.dropped), (MAX_EVENTS, 30));
        assert_eq!(history.events[0], all[0]);
        assert_eq!(history.events[1..], all[31..]);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = Event { error: Some("ü".repeat(MAX_TOLD)), ..event(1) };
        let read = History::read(&told(&[long]));
        assert_eq!(read.events[0].error.as_deref(), Some("ü".repeat(MAX_TOLD / 2).as_str()));
        assert_eq!(whole("xü".as_bytes().split_last().unwrap().1), "x");
    }

    #[test]
    fn what_a_newer_version_wrote_is_left_alone() {
        let mut newer = vec![2, 7, 7];
        append(&mut newer, &event(1));
        assert_eq!((&newer[..], History::read(&newer)), (&[2, 7, 7][..], History::default()));
        let whole = told(&[event(1), event(2)]);
        for cut in 0..whole.len() {
            assert!(History::read(&whole[..cut]).events.len() < 2, "{cut} bytes");
        }
    }
}
