//! What the server's clock shows, as far as can be known: the server said so once, and the clock that counts from the
//! start of this machine carries it on. Whatever this machine's wall clock shows changes nothing.

use hapax_core::{BootTime, Clock, Now, Timestamp};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// So long a sample is good.
const GOOD_FOR: Duration = Duration::from_secs(30);
/// Something is over when the server's clock is past its end by this, whoever asks: two processes that differ by what
/// their samples left open do not take a lease from each other.
const MARGIN: i64 = 1_000;

/// Between which instants the server's clock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// What ended then or before is over.
    pub(crate) over: Timestamp,
    /// What lasts from now on lasts from then on.
    pub(crate) now: Timestamp,
}

/// The server's clock less this machine's, at least and at most, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    least: i64,
    most: i64,
    taken: BootTime,
    term: u64,
}

#[derive(Debug)]
pub(crate) struct ServerClock {
    here: Arc<dyn Clock>,
    sample: Mutex<Option<Sample>>,
    /// Another primary has another clock.
    term: AtomicU64,
    primary: Mutex<Option<String>>,
}

/// Where a sample begins: before the question is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    at: BootTime,
    term: u64,
}

impl ServerClock {
    pub(crate) fn new(here: Arc<dyn Clock>) -> Self {
        Self { here, sample: Mutex::default(), term: AtomicU64::new(0), primary: Mutex::default() }
    }

    /// Writes go there from now on. What is known of another's clock is forgotten.
    pub(crate) fn is_of(&self, primary: &str) {
        let mut known = self.primary.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != Some(primary) {
            // What was asked before the first is told was asked of it.
            if known.replace(primary.to_owned()).is_some() {
                self.term.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    pub(crate) fn ask(&self) -> Asked {
        Asked { at: self.here.boot(), term: self.term.load(Ordering::SeqCst) }
    }

    /// The server showed this at some moment between the question and now.
    pub(crate) fn shown(&self, asked: Asked, shown: Timestamp) -> Moment {
        let taken = self.here.boot();
        let shown = shown.as_millis();
        // Every reading may be up to 1 ms behind.
        let sample = Sample {
            least: shown.saturating_sub(millis(taken)).saturating_sub(1),
            most: shown.saturating_sub(millis(asked.at)).saturating_add(2),
            taken,
            term: asked.term,
        };
        *self.sample.lock().unwrap_or_else(PoisonError::into_inner) = Some(sample);
        sample.carried_to(taken)
    }

    /// By the last sample; none where it is old, or of another primary.
    pub(crate) fn moment(&self) -> Option<Moment> {
        let (sample, boot) = (self.last()?, self.here.boot());
        let is_good = boot.since(sample.taken) < GOOD_FOR && sample.term == self.term.load(Ordering::SeqCst);
        is_good.then(|| sample.carried_to(boot))
    }

    fn last(&self) -> Option<Sample> {
        *self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sample {
    fn carried_to(&self, boot: BootTime) -> Moment {
        let boot = millis(boot);
        Moment {
            over: Timestamp::from_millis(boot.saturating_add(self.least).saturating_sub(MARGIN)),
            now: Timestamp::from_millis(boot.saturating_add(self.most)),
        }
    }
}

fn millis(boot: BootTime) -> i64 {
    i64::try_from(boot.as_millis()).unwrap_or(i64::MAX)
}

impl Clock for ServerClock {
    fn read(&self) -> Now {
        Now { wall: Clock::now(self), boot: self.here.boot() }
    }

    fn now(&self) -> Timestamp {
        match self.last() {
            Some(sample) => Timestamp::from_millis(millis(self.here.boot()).saturating_add(sample.most)),
            None => self.here.now(),
        }
    }

    fn boot(&self) -> BootTime {
        self.here.boot()
    }

    fn boot_id(&self) -> Arc<str> {
        self.here.boot_id()
    }

    fn is_manual(&self) -> bool {
        self.here.is_manual()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::ManualClock;

    const SHOWN: Timestamp = Timestamp::from_millis(5_000_000);

    #[test]
    fn the_servers_time_lies_within_the_round_trip() {
        let here = ManualClock::new();
        let clock = ServerClock::new(Arc::new(here.clone()));
        let asked = clock.ask();
        here.advance(Duration::from_millis(40));
        let moment = clock.shown(asked, SHOWN);
        assert_eq!(moment.over.as_millis(), 5_000_000 - 1 - MARGIN);
        assert_eq!(moment.now.as_millis(), 5_000_000 + 40 + 2);
        here.advance(Duration::from_secs(10));
        let later = clock.moment().unwrap();
        assert_eq!(later.over.since(moment.over), Duration::from_secs(10));
        assert_eq!(later.now.since(moment.now), Duration::from_secs(10));
    }

    #[test]
    fn a_sample_is_good_for_a_while_and_for_one_primary() {
        let here = ManualClock::new();
        let clock = ServerClock::new(Arc::new(here.clone()));
        assert_eq!(clock.moment(), None);
        clock.shown(clock.ask(), SHOWN);
        here.advance(GOOD_FOR.saturating_sub(Duration::from_millis(1)));
        assert!(clock.moment().is_some());
        here.advance(Duration::from_millis(1));
        assert_eq!(clock.moment(), None);
        let asked = clock.ask();
        clock.shown(asked, SHOWN);
        assert!(clock.moment().is_some());
        clock.is_of("a:1");
        clock.is_of("a:1");
        assert!(clock.moment().is_some());
        clock.is_of("b:1");
        assert_eq!(clock.moment(), None);
        // An answer to a question that was put to the primary of before.
        clock.shown(asked, SHOWN);
        assert_eq!(clock.moment(), None);
    }

    #[test]
    fn the_wall_clock_here_changes_nothing() {
        let here = ManualClock::new();
        let moments: Vec<_> = [Duration::ZERO, Duration::from_hours(1)]
            .into_iter()
            .map(|ahead| {
                let clock = ServerClock::new(Arc::new(here.ahead(ahead)));
                (clock.shown(clock.ask(), SHOWN), Clock::now(&clock))
            })
            .collect();
        assert_eq!(moments.first(), moments.last());
    }
}
