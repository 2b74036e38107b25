//! What is kept of a limit as a document, and back.
//!
//! ```text
//! _id       namespace, algorithm and its version, key
//! form      1
//! most      the quota of the last request that was allowed:
//! window    its window in milliseconds
//! at        the start of the window; when the bucket held its credits; of a sliding window, the number of its last
//!           rewriting
//! count     what was taken in the window, or the credits, which may be below zero for a while; the sum of a sliding window
//! previous  what was taken in the window before
//! log       the requests of a sliding window, a text for each: when, and how much
//! from      those until then were over when one was counted, and are so for every quota
//! ends      when it equals a fresh one, at the latest
//! gone_at   when the server may remove it by itself; decides nothing
//! ```

use crate::{
    error::Failure,
    value::{FORM, later, number},
};
use hapax_core::{
    StoreErrorKind, Timestamp,
    limit::{
        Algorithm, Check, Quota, State,
        machine::{FixedWindow, Kept, SlidingCounter, SlidingWindow, TokenBucket},
    },
};
use mongodb::bson::{Bson, Document, doc};
use std::time::Duration;

/// No time and no weight is above it, so sums stay within their type.
const MOST: u64 = 1 << 52;

/// A document as it was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) quota: Quota,
    pub(super) at: i64,
    pub(super) count: i64,
    pub(super) previous: Option<i64>,
    pub(super) log: Vec<(u64, u64)>,
}

impl Seen {
    /// What this version would not have written so is an error: nothing is guessed.
    pub(super) fn read(
        found: Option<&Document>,
        check: &Check,
        place: &str,
    ) -> Result<Option<Self>, Failure> {
        let Some(document) = found else { return Ok(None) };
        let unreadable = || {
            let reason = format!(
                "what is counted for a limit on {place} cannot be read: a newer hapax, or another program, wrote it; reset \
                 the limit"
            );
            Failure::new(StoreErrorKind::Corrupt, reason)
        };
        Self::of(document, check.quota.algorithm()).map(Some).ok_or_else(unreadable)
    }

    fn of(document: &Document, algorithm: Algorithm) -> Option<Self> {
        if number(document, "form")? != i64::from(FORM) {
            return None;
        }
        let window = Duration::from_millis(u64::try_from(number(document, "window")?).ok()?);
        let quota = Quota::new(algorithm, u32::try_from(number(document, "most")?).ok()?, window).ok()?;
        let seen = Self {
            quota,
            at: number(document, "at").filter(|at| *at >= 0)?,
            count: number(document, "count")?,
            previous: match algorithm {
                Algorithm::SlidingCounter => Some(number(document, "previous").filter(|n| *n >= 0)?),
                _ => None,
            },
            log: match algorithm {
                Algorithm::SlidingWindow => {
                    let from =
                        u64::try_from(number(document, "from").unwrap_or_default()).unwrap_or_default();
                    let mut log = entries(document.get_array("log").ok()?)?;
                    log.retain(|(at, _)| *at > from);
                    log
                }
                _ => Vec::new(),
            },
        };
        (seen.count >= 0 || algorithm == Algorithm::TokenBucket).then_some(seen)
    }

    /// What the rules know of it.
    pub(super) fn kept(&self) -> Kept {
        let (at, count) = (natural(self.at), natural(self.count));
        let state = match self.quota.algorithm() {
            Algorithm::FixedWindow => State::FixedWindow(FixedWindow { start: at, count }),
            Algorithm::SlidingWindow => State::SlidingWindow(SlidingWindow::new(self.log.clone())),
            Algorithm::SlidingCounter => State::SlidingCounter(SlidingCounter {
                start: at,
                previous: natural(self.previous.unwrap_or_default()),
                current: count,
            }),
            Algorithm::TokenBucket => {
                // What was taken of what came in after `at`: as it was when that had come in.
                let (missing, rate) = (natural(self.count.saturating_neg()), u64::from(self.quota.limit()));
                let later = missing.div_ceil(rate);
                let credits = count.max((later * rate).saturating_sub(missing));
                State::TokenBucket(TokenBucket { at: at.saturating_add(later), credits })
            }
        };
        Kept { quota: self.quota, state }
    }
}

fn entries(log: &[Bson]) -> Option<Vec<(u64, u64)>> {
    let entry = |entry: &Bson| {
        let (at, n) = entry.as_str()?.split_once(' ')?;
        let (at, n) = (at.parse().ok()?, n.parse::<u32>().ok()?);
        (at < MOST).then_some((at, u64::from(n)))
    };
    log.iter().map(entry).collect()
}

/// A request of a sliding window.
pub(super) fn entry(at: u64, n: u64) -> String {
    format!("{at} {n}")
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Without what names it. `turn` tells one rewriting of a sliding window from the other.
pub(super) fn fields(kept: &Kept, turn: i64) -> Document {
    let mut fields = doc! {
        "form": FORM,
        "most": i64::from(kept.quota.limit()),
        "window": integer(kept.quota.window_ms()),
    };
    let (at, count) = match &kept.state {
        State::FixedWindow(s) => (integer(s.start), s.count),
        State::SlidingWindow(s) => {
            fields.insert("log", s.entries().map(|(at, n)| entry(at, n)).collect::<Vec<_>>());
            (turn, s.entries().map(|(_, n)| n).sum())
        }
        State::SlidingCounter(s) => {
            fields.insert("previous", integer(s.previous));
            (integer(s.start), s.current)
        }
        State::TokenBucket(s) => (integer(s.at), s.credits),
    };
    fields.insert("at", at);
    fields.insert("count", integer(count));
    fields
}

/// When what was written at `now` is over: no state lasts longer than two windows.
pub(super) fn ends(quota: &Quota, now: u64) -> Document {
    later(Timestamp::from_millis(integer(now.saturating_add(2 * quota.window_ms()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::limit::LimitKey;

    fn check(quota: Quota) -> Check {
        Check::new(LimitKey::new("k").unwrap(), quota)
    }

    fn read(kept: &Kept) -> Kept {
        Seen::read(Some(&fields(kept, 9)), &check(kept.quota), "x").unwrap().unwrap().kept()
    }

    #[test]
    fn states_come_back_as_they_were() {
        let (window, at) = (Duration::from_mins(1), 1_764_550_000_000);
        for (quota, state) in [
            (Quota::fixed_window(5, window), State::FixedWindow(FixedWindow { start: at, count: 3 })),
            (
                Quota::sliding_window(5, window),
                State::SlidingWindow(SlidingWindow::new(vec![(at, 2), (at + 9, 1)])),
            ),
            (
                Quota::sliding_counter(5, window),
                State::SlidingCounter(SlidingCounter { start: at, previous: 4, current: 1 }),
            ),
            (Quota::token_bucket(5, window), State::TokenBucket(TokenBucket { at, credits: 77 })),
        ] {
            let kept = Kept { quota, state };
            assert_eq!(read(&kept), kept);
        }
    }

    #[test]
    fn a_bucket_below_zero_is_what_it_is_later() {
        let quota = Quota::token_bucket(5, Duration::from_mins(1));
        let mut document =
            fields(&Kept { quota, state: State::TokenBucket(TokenBucket { at: 100, credits: 0 }) }, 0);
        for (count, at, credits) in [(-1_i64, 101, 4), (-5, 101, 0), (-6, 102, 4), (0, 100, 0)] {
            document.insert("count", count);
            let kept = Seen::read(Some(&document), &check(quota), "x").unwrap().unwrap().kept();
            assert_eq!(kept.state, State::TokenBucket(TokenBucket { at, credits }), "{count}");
        }
    }

    #[test]
    fn what_another_version_or_program_wrote_is_unreadable() {
        let quota = Quota::sliding_window(5, Duration::from_mins(1));
        let sound = fields(&Kept { quota, state: State::SlidingWindow(SlidingWindow::new(vec![(7, 1)])) }, 3);
        let changes: [fn(&mut Document); 6] = [
            |d| drop(d.insert("form", 2)),
            |d| drop(d.insert("most", 0)),
            |d| drop(d.insert("window", -1)),
            |d| drop(d.remove("at")),
            |d| drop(d.insert("count", -1)),
            |d| drop(d.insert("log", vec!["-1 1"])),
        ];
        for change in changes {
            let mut document = sound.clone();
            change(&mut document);
            let failure = Seen::read(Some(&document), &check(quota), "x").unwrap_err();
            assert_eq!(failure.kind, StoreErrorKind::Corrupt, "{document}");
        }
    }
}
