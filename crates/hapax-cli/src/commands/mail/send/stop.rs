//! Being told to stop, by signals or by everything going wrong.

use super::tally::Ending;
use crate::commands::interrupts::Interrupts;
use hapax::mail::Receipt;
use std::{future::pending, time::Duration};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// So long sends in progress are waited for once the run was stopped.
const GRACE: Duration = Duration::from_secs(10);
/// So long after that, receipts and releases may take.
const AFTERMATH: Duration = Duration::from_secs(5);
/// So many messages in a row that fail for a reason which may pass: the rest is left to a later run.
pub(super) const OUTAGE: u64 = 100;

/// What was told, and what follows from it.
pub(super) struct Stop<'a> {
    interrupts: &'a mut Interrupts,
    /// Nothing more starts.
    pub(super) drain: CancellationToken,
    /// What has started is given up.
    pub(super) abort: CancellationToken,
    signal: Option<i32>,
    /// A second signal has come, or what was given up does not end.
    at_once: bool,
    deadline: Option<Instant>,
    /// So many failures in a row were the store's or the provider's.
    in_a_row: u64,
    /// What they were, when they became too many.
    outage: Option<Receipt>,
}

impl<'a> Stop<'a> {
    pub(super) fn new(interrupts: &'a mut Interrupts) -> Self {
        let (drain, abort) = (CancellationToken::new(), CancellationToken::new());
        Self {
            interrupts,
            drain,
            abort,
            signal: None,
            at_once: false,
            deadline: None,
            in_a_row: 0,
            outage: None,
        }
    }

    /// The signal that stopped the run.
    pub(super) fn signal(&self) -> Option<i32> {
        self.signal
    }

    /// Whether nothing more starts.
    pub(super) fn is_ending(&self) -> bool {
        self.signal.is_some() || self.outage.is_some()
    }

    /// Why the rest was left, when nobody asked for it.
    pub(super) fn outage(&self) -> Option<&Receipt> {
        self.outage.as_ref()
    }

    /// Looks whether all goes wrong: then there is nothing to be gained by going on.
    pub(super) fn watch(&mut self, receipt: &Receipt) {
        match Ending::of(receipt) {
            Ending::Failed if receipt.failure().is_some_and(|failure| failure.retryable) => {
                self.in_a_row += 1;
            }
            Ending::Sent | Ending::Failed => self.in_a_row = 0,
            _ => {}
        }
        if self.in_a_row == OUTAGE && self.outage.is_none() {
            self.outage = Some(receipt.clone());
            self.drain.cancel();
        }
    }

    /// A further signal. Cancel safe.
    pub(super) async fn signalled(&mut self) {
        let signal = self.interrupts.next().await;
        self.signal.get_or_insert(signal);
    }

    /// Whether nothing is worth waiting for.
    pub(super) fn at_once(&self) -> bool {
        self.at_once
    }

    /// The next step of a stop: a signal, or the end of a grace. Cancel safe.
    pub(super) async fn step(&mut self) {
        let grace = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        tokio::select! {
            signal = self.interrupts.next() => {
                self.at_once = self.signal.is_some();
                self.signal.get_or_insert(signal);
                self.drain.cancel();
                self.deadline = Some(Instant::now() + GRACE);
            }
            () = grace => {
                self.at_once = self.abort.is_cancelled();
                self.abort.cancel();
                self.deadline = Some(Instant::now() + AFTERMATH);
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, raise};

    #[tokio::test(start_paused = true)]
    async fn a_signal_gives_what_has_started_ten_seconds_and_then_some_for_its_receipts() {
        let mut interrupts = Interrupts::listen().unwrap();
        let mut stop = Stop::new(&mut interrupts);
        let begun = Instant::now();
        raise(Signal::SIGTERM).unwrap();
        stop.step().await;
        assert!(stop.is_ending() && stop.drain.is_cancelled());
        assert_eq!((begun.elapsed(), stop.abort.is_cancelled()), (Duration::ZERO, false));
        stop.step().await;
        assert_eq!((begun.elapsed(), stop.abort.is_cancelled(), stop.at_once()), (GRACE, true, false));
        assert_eq!(GRACE, Duration::from_secs(10));
        stop.step().await;
        assert_eq!((begun.elapsed(), stop.at_once()), (GRACE + AFTERMATH, true));
        assert_eq!(stop.signal(), Some(15));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_gives_nothing() {
        let mut interrupts = Interrupts::listen().unwrap();
        let mut stop = Stop::new(&mut interrupts);
        let begun = Instant::now();
        raise(Signal::SIGTERM).unwrap();
        stop.step().await;
        assert!(!stop.at_once());
        raise(Signal::SIGINT).unwrap();
        stop.step().await;
        assert_eq!((begun.elapsed(), stop.at_once()), (Duration::ZERO, true));
        // It ends as the first one says.
        assert_eq!(stop.signal(), Some(15));
    }
}
