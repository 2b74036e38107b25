//! How a run came out: what is said at its end, and its exit code.

use super::{stop::OUTAGE, tally::Tally};
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
    /// `--only-failed` left them out because the report does not name them.
    pub(super) unreported: u64,
    pub(super) tally: Tally,
    pub(super) signal: Option<i32>,
    pub(super) outage: Option<Receipt>,
    /// Why not everything could be read.
    pub(super) read: Result<(), Failure>,
}

impl Ended {
    /// Says so. The last line is the counts, as they stand: scripts look for it, unless they want no notes.
    pub(super) fn say(self, output: &Output) -> Exit {
        let Self { all, invalid, left_out, unreported, tally, signal, outage, read } = self;
        let left = all.saturating_sub(tally.all());
        if let Some(outage) = &outage {
            let code = outage.code().unwrap_or_default();
            output::warn(&format!(
                "{OUTAGE} messages in a row failed, the last with {code}: nothing more was tried"
            ));
        }
        if invalid > 0 {
            let counted = if invalid == 1 {
                "is not valid and was skipped; it counts"
            } else {
                "are not valid and were skipped; they count"
            };
            output.note(&format!("{} {counted} as failed", messages(invalid)));
        }
        if left_out > 0 {
            output.note(&format!("--only-failed left out {}", messages(left_out)));
        }
        say_unreported(unreported);
        let was_ended = signal.is_some() || outage.is_some();
        if left > 0 && was_ended {
            let (are, them) = if left == 1 { ("is", "it") } else { ("are", "them") };
            output.note(&format!("{} {are} left: run the same again to send {them}", messages(left)));
        }
        let failure = match read {
            Err(failure) => Some(failure),
            // Whatever the reason: what was not dealt with must not look as if it were.
            Ok(()) if left > 0 && !was_ended => {
                let message = format!("passed over: {}", messages(left));
                Some(Failure::new(Exit::Bug, "command.internal", message))
            }
            Ok(()) => None,
        };
        if let Some(failure) = &failure {
            failure.explain();
        }
        if !output.quiet {
            output::stderr_bytes(format!("{tally}\n").as_bytes());
        }
        match (signal, failure) {
            (Some(signal), _) if left > 0 || tally.in_flight > 0 => Exit::Signal(signal),
            (_, Some(failure)) => failure.exit,
            _ => match tally.exit() {
                // There is more to do, and nobody should take it for done.
                Exit::Done | Exit::ItemFailed if unreported > 0 => Exit::TryAgain,
                exit => exit,
            },
        }
    }
}

/// Says that messages were left out because an earlier run never came to them.
pub(super) fn say_unreported(unreported: u64) {
    if unreported > 0 {
        let (are, were) = if unreported == 1 { ("is", "was") } else { ("are", "were") };
        output::warn(&format!(
            "{} {are} not in the report, as after a run that was cut short, and {were} left out\n  help: run without \
             --only-failed: it sends what is left",
            messages(unreported)
        ));
    }
}

/// So many.
pub(in super::super) fn messages(count: u64) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(all: u64, sent: u64, in_flight: u64) -> Ended {
        let tally = Tally { sent, in_flight, ..Tally::default() };
        Ended { all, invalid: 0, left_out: 0, unreported: 0, tally, signal: None, outage: None, read: Ok(()) }
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
    fn what_the_report_does_not_name_is_no_success() {
        assert_eq!(exit(Ended { unreported: 1, ..ended(3, 3, 0) }), Exit::TryAgain);
        assert_eq!(exit(Ended { unreported: 1, signal: Some(2), ..ended(3, 2, 0) }), Exit::Signal(2));
    }

    #[test]
    fn what_was_passed_over_is_no_success() {
        assert_eq!(exit(ended(3, 3, 0)), Exit::Done);
        assert_eq!(exit(ended(3, 2, 0)), Exit::Bug);
        assert_eq!(exit(Ended { read: Err(Failure::input("no")), ..ended(3, 2, 0) }), Exit::Invalid);
    }
}
