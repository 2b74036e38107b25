//! Jobs as bytes. `scripts/queue/common.lua` describes them.

use bytes::Bytes;
use hapax_core::{
    Fingerprint, Key, Timestamp,
    idempotency::Receipt,
    queue::{
        Consumer, Counts, DeadReason, Due, JobInfo, JobState, NewJob, Priority, Taken, Uid, history::History,
    },
};

/// The latest instant that a score holds exactly.
const LAST: i64 = (1 << 53) - 1;

/// The field under which an id is remembered.
pub(super) fn field(id: &Key) -> Vec<u8> {
    [b"k", id.as_str().as_bytes()].concat()
}

/// The name of a consumer in the set of running jobs. Members of more than 64 bytes make that set a tree from the start:
/// a list of a hundred took a fifth of a step.
pub(super) fn filled(consumer: &Consumer) -> Vec<u8> {
    let mut name = consumer.as_str().as_bytes().to_vec();
    name.resize(name.len().max(65 - 24), FILLER);
    name
}

/// No byte of UTF-8.
const FILLER: u8 = 0xFF;

/// From what [`filled`] made.
pub(super) fn consumer(filled: &[u8]) -> Option<Consumer> {
    let end = filled.iter().position(|byte| *byte == FILLER).unwrap_or(filled.len());
    Consumer::new(std::str::from_utf8(filled.get(..end)?).ok()?).ok()
}

/// A job as it runs.
pub(super) fn name(uid: &Uid, delivery: u64, filled: &[u8]) -> Vec<u8> {
    [uid.as_bytes(), &delivery.to_be_bytes()[..], filled].concat()
}

/// Since when a job runs: a delivery number is the time of its step in microseconds, or barely above.
pub(super) fn taken_at(name: &[u8]) -> Option<Timestamp> {
    let micros = u64::from_be_bytes(*name.get(16..)?.first_chunk()?);
    Some(Timestamp::from_millis(i64::try_from(micros / 1000).ok()?))
}

pub(super) fn due(due: Due) -> String {
    match due {
        Due::Now => "+0".into(),
        Due::After(span) => format!("+{}", span.as_millis()),
        Due::At(at) => format!("@{}", at.as_millis().clamp(0, LAST)),
    }
}

/// The body of a new job, from `remember` on: what comes before, the server adds.
pub(super) fn body(job: &NewJob, field: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(48 + field.len() + job.settings.len() + job.payload.len());
    body.extend(job.remember.as_millis().to_be_bytes());
    body.extend(crate::value::print(&job.fingerprint));
    // Ids have 512 bytes at most.
    body.extend(u16::try_from(field.len()).unwrap_or_default().to_be_bytes());
    body.extend(field);
    body.extend(u32::try_from(job.settings.len()).unwrap_or_default().to_be_bytes());
    body.extend(&job.settings[..]);
    body.extend(&job.payload[..]);
    body
}

pub(super) fn fingerprint(bytes: &[u8]) -> Option<Fingerprint> {
    let (version, digest) = bytes.split_first_chunk()?;
    Some(Fingerprint::from_digest(u16::from_be_bytes(*version), digest.try_into().ok()?))
}

pub(super) fn uid(bytes: &[u8]) -> Option<Uid> {
    bytes.try_into().ok().map(Uid::from_bytes)
}

pub(super) fn receipt(bytes: Vec<u8>) -> Option<Receipt> {
    let bytes = Bytes::from(bytes);
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let codec = std::str::from_utf8(rest.get(..length)?).ok()?;
    Some(Receipt::stored(codec, bytes.slice(2 + length..)))
}

pub(super) fn state(number: i64) -> Option<JobState> {
    Some(match number {
        6 => JobState::Running,
        5 => JobState::Ready,
        4 => JobState::Delayed,
        3 => JobState::Dead,
        2 => JobState::Done,
        1 => JobState::Cancelled,
        _ => return None,
    })
}

/// The number of a reason, from 1; 0: none.
pub(super) fn reason_number(reason: DeadReason) -> usize {
    DeadReason::ALL.iter().position(|known| *known == reason).map_or(0, |at| at + 1)
}

struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.at..)?.first_chunk().copied()?;
        self.at += N;
        Some(taken)
    }

    fn millis(&mut self) -> Option<Timestamp> {
        self.take().map(i64::from_be_bytes).map(Timestamp::from_millis)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn slice(&mut self, length: usize) -> Option<Bytes> {
        let end = self.at.checked_add(length)?;
        if end > self.bytes.len() {
            return None;
        }
        let slice = self.bytes.slice(self.at..end);
        self.at = end;
        Some(slice)
    }
}

/// What was added.
struct Body {
    priority: Priority,
    added_at: Timestamp,
    job_id: Option<Key>,
    settings: Bytes,
    payload: Bytes,
}

fn key(field: &[u8]) -> Option<Key> {
    Key::from_shown(std::str::from_utf8(field.strip_prefix(b"k")?).ok()?).ok()
}

fn read_body(bytes: Vec<u8>) -> Option<Body> {
    let bytes = Bytes::from(bytes);
    let mut rest = Reader { bytes: &bytes, at: 0 };
    let [1, class] = rest.take::<2>()? else { return None };
    rest.take::<6>()?;
    let added_at = rest.millis()?;
    rest.take::<50>()?;
    let length = usize::from(u16::from_be_bytes(rest.take()?));
    let job_id = key(&rest.slice(length)?);
    let length = usize::try_from(rest.number()?).ok()?;
    let settings = rest.slice(length)?;
    let payload = bytes.slice(rest.at..);
    Some(Body { priority: Priority::from_number(class)?, added_at, job_id, settings, payload })
}

/// What happened.
#[derive(Default)]
struct Facts {
    counts: Counts,
    snoozed_since: Option<Timestamp>,
    reason: Option<DeadReason>,
    error: Option<String>,
}

fn read_facts(bytes: Vec<u8>) -> Option<Facts> {
    if bytes.is_empty() {
        return Some(Facts::default());
    }
    let bytes = Bytes::from(bytes);
    let mut rest = Reader { bytes: &bytes, at: 1 };
    let counts = Counts {
        attempts: rest.number()?,
        losses: rest.number()?,
        snoozes: rest.number()?,
        given_back: rest.number()?,
        redriven: rest.number()?,
    };
    rest.take::<8>()?;
    let snoozed_since = rest.millis().filter(|at| at.as_millis() != 0);
    let [reason] = rest.take()?;
    rest.take::<6>()?;
    let error = String::from_utf8_lossy(bytes.get(rest.at..)?).into_owned();
    let reason = usize::from(reason).checked_sub(1).and_then(|at| DeadReason::ALL.get(at).copied());
    Some(Facts { counts, snoozed_since, reason, error: Some(error).filter(|error| !error.is_empty()) })
}

/// A job that was handed out under a number that is its fence, too.
pub(super) fn taken(uid: Uid, number: u64, body: Vec<u8>, facts: Vec<u8>) -> Option<Taken> {
    let (body, facts) = (read_body(body)?, read_facts(facts)?);
    Some(Taken {
        uid,
        job_id: body.job_id,
        delivery: number,
        fence: number,
        counts: facts.counts,
        snoozed_since: facts.snoozed_since,
        payload: body.payload,
        settings: body.settings,
        added_at: body.added_at,
    })
}

/// A job that a group has.
pub(super) fn info(
    uid: Uid,
    state: JobState,
    at: Timestamp,
    body: Vec<u8>,
    facts: Vec<u8>,
) -> Option<JobInfo> {
    let (body, facts) = (read_body(body)?, read_facts(facts)?);
    Some(JobInfo {
        uid,
        job_id: body.job_id,
        group: None,
        state,
        priority: body.priority,
        counts: facts.counts,
        added_at: body.added_at,
        at,
        consumer: None,
        taken_at: None,
        progress: None,
        reason: facts.reason.filter(|_| state == JobState::Dead),
        error: facts.error,
        payload: body.payload,
        settings: body.settings,
        result: None,
        history: History::default(),
    })
}

/// A job that is over: the field of its id, what is remembered of it, and its result.
pub(super) fn remembered(
    uid: Uid,
    field: &[u8],
    record: Vec<u8>,
    result: Option<Receipt>,
) -> Option<JobInfo> {
    let bytes = Bytes::from(record);
    let mut rest = Reader { bytes: &bytes, at: 50 };
    let [ended] = rest.take()?;
    rest.take::<8>()?;
    let at = rest.millis()?;
    let [class] = rest.take()?;
    let added_at = rest.millis()?;
    rest.take::<8>()?;
    Some(JobInfo {
        uid,
        job_id: key(field),
        group: None,
        state: state(i64::from(ended))?,
        priority: Priority::from_number(class)?,
        counts: Counts::default(),
        added_at,
        at,
        consumer: None,
        taken_at: None,
        progress: None,
        reason: None,
        error: None,
        payload: Bytes::new(),
        settings: bytes.slice(rest.at..),
        result,
        history: History::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{Span, queue::OnConflict};

    #[test]
    fn a_body_comes_back_and_no_part_of_one_does() {
        let job = NewJob {
            uid: Uid::new([1; 10], 2),
            job_id: Some(Key::new("ä:b").unwrap()),
            fingerprint: Fingerprint::of_bytes(b"x"),
            payload: Bytes::from_static(b"pay"),
            due: Due::Now,
            priority: Priority::Low,
            settings: Bytes::from_static(b"set"),
            remember: Span::MIN,
            on_conflict: OnConflict::Refuse,
        };
        let field = field(job.job_id.as_ref().unwrap());
        let mut whole = vec![1, 2, 0, 0, 0, 0, 0, 9];
        whole.extend(5_i64.to_be_bytes());
        whole.extend(6_i64.to_be_bytes());
        whole.extend(body(&job, &field));
        let read = read_body(whole.clone()).unwrap();
        assert_eq!((read.priority, read.added_at.as_millis(), read.job_id), (Priority::Low, 5, job.job_id));
        assert_eq!((&read.settings[..], &read.payload[..]), (&b"set"[..], &b"pay"[..]));
        for cut in 0..whole.len() - 3 {
            assert!(read_body(whole[..cut].to_vec()).is_none(), "{cut} bytes");
        }
        assert_eq!(read_body([&[2], &whole[1..]].concat()).map(|body| body.priority), None);
    }

    #[test]
    fn consumers_come_back() {
        for text in ["w".to_owned(), "ü\0".to_owned(), "x".repeat(41), "x".repeat(200)] {
            let name = Consumer::new(&text).unwrap();
            assert!(filled(&name).len() >= 41);
            assert_eq!(consumer(&filled(&name)), Some(name));
        }
    }

    #[test]
    fn reasons_have_numbers() {
        for reason in DeadReason::ALL {
            assert_eq!(DeadReason::ALL.get(reason_number(reason) - 1), Some(&reason));
        }
        // As `scripts/queue/step.lua` writes it.
        assert_eq!(reason_number(DeadReason::Lost), 2);
    }
}
