//! How a run came out: what is said at its end, and its exit code.

use super::{run::OUTAGE, tally::Tally};
use crate::{
    exit::Exit,
    failure::Failure,
    output::{self, Output},
};
use hapax::mail::Receipt;

/// A run that is over.
#[derive(Debug)]
pub(super) struct Ended {
    /// So many messages there were.
    pub(super) all: u64,
    pub(super) invalid: u64,
    pub(super) left_out: u64,
    pub(super) tally: Tally,
    pub(super) signal: Option<i32>,
    pub(super) outage: Option<Receipt>,
    /// Why not everything could be read.
    pub(super) read: Result<(), Failure>,
}

impl Ended {
    /// Says so. The last line is the counts, as they stand: scripts look for it.
    pub(super) fn say(self, output: &Output) -> Exit {
        let Self { all, invalid, left_out, tally, signal, outage, read } = self;
        let left = all.saturating_sub(tally.all());
        if let Some(outage) = &outage {
            let code = outage.code().unwrap_or_default();
            output::warn(&format!(
                "{OUTAGE} messages in a row failed, the last with {code}: nothing more was tried"
            ));
        }
        if invalid > 0 {
            output.note(&format!("{invalid} messages are not valid and were skipped; they count as failed"));
        }
        if left_out > 0 {
            output.note(&format!("--only-failed left out {left_out} messages"));
        }
        let was_ended = signal.is_some() || outage.is_some();
        if left > 0 && was_ended {
            output.note(&format!("{left} messages are left: run the same again to send them"));
        }
        let failure = match read {
            Err(failure) => Some(failure),
            // Whatever the reason: what was not dealt with must not look as if it were.
            Ok(()) if left > 0 && !was_ended => {
                Some(Failure::new(Exit::Bug, "command.internal", format!("{left} messages were passed over")))
            }
            Ok(()) => None,
        };
        if let Some(failure) = &failure {
            failure.explain();
        }
        output::stderr_bytes(format!("{tally}\n").as_bytes());
        match (signal, failure) {
            (Some(signal), _) if left > 0 || tally.in_flight > 0 => Exit::Signal(signal),
            (_, Some(failure)) => failure.exit,
            _ => tally.exit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(all: u64, sent: u64, in_flight: u64) -> Ended {
        let tally = Tally { sent, in_flight, ..Tally::default() };
        Ended { all, invalid: 0, left_out: 0, tally, signal: None, outage: None, read: Ok(()) }
    }

    fn exit(ended: Ended) -> Exit {
        ended.say(&Output::new(false, true))
    }

    #[test]
    fn a_stopped_run_ends_by_its_signal_unless_it_was_done() {
        assert_eq!(exit(Ended { signal: Some(15), ..ended(3, 1, 0) }), Exit::Signal(15));
        assert_eq!(exit(Ended { signal: Some(2), ..ended(3, 1, 2) }), Exit::Signal(2));
        assert_eq!(exit(Ended { signal: Some(2), ..ended(3, 3, 0) }), Exit::Done);
    }

    #[test]
    fn what_was_passed_over_is_no_success() {
        assert_eq!(exit(ended(3, 3, 0)), Exit::Done);
        assert_eq!(exit(ended(3, 2, 0)), Exit::Bug);
        assert_eq!(exit(Ended { read: Err(Failure::input("no")), ..ended(3, 2, 0) }), Exit::Invalid);
    }
}
