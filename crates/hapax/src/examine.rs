//! How the store is: round trip, clocks, and what the store says of itself.

use crate::Hapax;
use hapax_core::{
    BoxFuture, Clock, Key, Name, Namespace, Scope, StoreResult, SystemClock, Timestamp,
    doctor::{Examination, Finding, Severity},
};
use std::time::{Duration, Instant};

/// So many reads are timed.
const TRIPS: usize = 11;
/// A slower store is worth a word: a fresh call waits for it twice.
const SLOW: Duration = Duration::from_millis(50);
/// So far may clocks be apart before instants in messages mislead.
const APART: Duration = Duration::from_secs(5);

/// What [`Hapax::examine`] found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What the store says of itself, and what was found from outside.
    pub examination: Examination,
    /// Median and longest of some reads; none where the store is found broken and does not answer one.
    pub round_trip: Option<(Duration, Duration)>,
    /// How far the store's clock is ahead of this process's, in milliseconds; where it has one of its own.
    pub clock_ahead_ms: Option<i64>,
}

impl Diagnosis {
    /// The worst of the findings.
    pub fn severity(&self) -> Option<Severity> {
        self.examination.severity()
    }

    /// All findings, the worst first.
    pub fn findings(&self) -> Vec<&Finding> {
        let mut findings: Vec<_> = self.examination.findings.iter().collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

impl Hapax {
    /// Looks at the store: what may harm its promise, and what to do about it; also at the books of its queues. Reads only.
    pub fn examine(&self) -> BoxFuture<'_, StoreResult<Diagnosis>> {
        Box::pin(async move {
            // The machine's own clock: that of the backend may show the store's time.
            let (mut examination, asked) = (Examination::default(), SystemClock.now());
            if let Some(examiner) = &self.backend().examiner {
                examination = examiner.examine().await?;
            }
            if let Some(queues) = &self.backend().queue {
                match queues.books(None).await {
                    Ok(books) => books.judge(&mut examination),
                    // That says it.
                    Err(_) if examination.severity() == Some(Severity::Error) => {}
                    Err(error) => return Err(error),
                }
            }
            let clock_ahead_ms = examination.store_time.map(|store| ahead(store, asked, SystemClock.now()));
            let round_trip = match self.round_trip().await {
                Ok(took) => Some(took),
                // That says it.
                Err(_) if examination.severity() == Some(Severity::Error) => None,
                Err(error) => return Err(error),
            };
            judge(&mut examination, round_trip.map_or(Duration::ZERO, |(median, _)| median), clock_ahead_ms);
            Ok(Diagnosis { examination, round_trip, clock_ahead_ms })
        })
    }

    async fn round_trip(&self) -> StoreResult<(Duration, Duration)> {
        // A name that nobody uses.
        let (Ok(scope), Ok(key)) = (Scope::new("hapax:doctor"), Key::new("round-trip")) else {
            return Ok((Duration::ZERO, Duration::ZERO));
        };
        let name = Name::new(&Namespace::default(), &scope, &key);
        let mut took = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let began = now();
            self.backend().idempotency.read(&name).await?;
            took.push(now() - began);
        }
        took.sort_unstable();
        Ok((took.get(TRIPS / 2).copied().unwrap_or_default(), took.last().copied().unwrap_or_default()))
    }
}

#[expect(clippy::disallowed_methods, reason = "the time that real calls take, whatever clock a test moves")]
fn now() -> Instant {
    Instant::now()
}

/// The store showed its time somewhere between two readings of our clock.
fn ahead(store: Timestamp, before: Timestamp, after: Timestamp) -> i64 {
    let (store, before, after) = (store.as_millis(), before.as_millis(), after.as_millis());
    if store < before { store.saturating_sub(before) } else { store.saturating_sub(after).max(0) }
}

fn judge(found: &mut Examination, median: Duration, clock_ahead_ms: Option<i64>) {
    if median > SLOW {
        found.find(
            "round_trip",
            Severity::Warning,
            format!("a read takes {} ms, and a fresh call waits twice as long", median.as_millis()),
            "bring the store nearer to this process, or look at its load",
        );
    }
    if let Some(ms) = clock_ahead_ms
        && Duration::from_millis(ms.unsigned_abs()) > APART
    {
        let side = if ms > 0 { "ahead of" } else { "behind" };
        found.find(
            "clock",
            Severity::Warning,
            format!(
                "the store's clock is {} s {side} this machine's: leases and results are right, since the store's clock \
                 decides, but instants in messages mislead",
                ms.unsigned_abs() / 1000
            ),
            "let both set their clocks by NTP",
        );
    }
}

/// The store cannot keep its promise.
#[derive(Debug, thiserror::Error)]
#[error("{}", text(.findings))]
#[non_exhaustive]
pub struct Unfit {
    /// Those findings that are errors.
    pub findings: Vec<Finding>,
}

impl Unfit {
    pub(crate) fn check(diagnosis: &Diagnosis) -> Result<(), Self> {
        // The books of queues tell of what was lost before: a store that keeps its promise from now on is fit.
        let is_error =
            |finding: &&Finding| finding.severity == Severity::Error && !finding.check.starts_with("queue_");
        let findings: Vec<_> = diagnosis.examination.findings.iter().filter(is_error).cloned().collect();
        if findings.is_empty() { Ok(()) } else { Err(Self { findings }) }
    }
}

fn text(findings: &[Finding]) -> String {
    let each = findings.iter().map(|finding| format!("{}: {}", finding.check, finding.remedy));
    let first = findings.first().map_or("", |finding| finding.reason.as_str());
    format!("the store cannot keep its promise: {first} ({})", each.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_within_what_the_round_trip_allows() {
        let at = Timestamp::from_millis;
        assert_eq!(ahead(at(1_005), at(1_000), at(1_010)), 0);
        assert_eq!(ahead(at(900), at(1_000), at(1_010)), -100);
        assert_eq!(ahead(at(2_000), at(1_000), at(1_010)), 990);
    }

    #[test]
    fn slow_stores_and_clocks_far_apart_are_found() {
        let mut found = Examination::default();
        judge(&mut found, SLOW, Some(5_000));
        assert_eq!(found.findings, []);
        judge(&mut found, SLOW * 2, Some(-3_600_000));
        let checks: Vec<_> = found.findings.iter().map(|finding| finding.check).collect();
        assert_eq!(checks, ["round_trip", "clock"]);
        assert!(found.findings.iter().any(|finding| finding.reason.contains("3600 s behind")));
    }

    #[test]
    fn only_errors_make_a_store_unfit() {
        let of = |check, severity| {
            let mut examination = Examination::default();
            examination.find(check, severity, "it forgets", "set noeviction");
            Diagnosis { examination, round_trip: None, clock_ahead_ms: None }
        };
        let diagnosis = |severity| of("eviction", severity);
        assert!(Unfit::check(&diagnosis(Severity::Warning)).is_ok());
        assert!(Unfit::check(&of("queue_books", Severity::Error)).is_ok());
        let unfit = Unfit::check(&diagnosis(Severity::Error)).unwrap_err();
        assert!(unfit.to_string().contains("it forgets (eviction: set noeviction)"), "{unfit}");
    }
}
