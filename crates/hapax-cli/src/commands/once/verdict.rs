//! What the end of a command means for its key: the table of `docs/guarantees.md`, row by row.

use crate::{
    child::{EndedBy, Exit as ChildExit},
    commands::program::name_of,
    exit::Exit,
    receipt,
};
use hapax::core::idempotency::Kind;

/// What of it can be chosen.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Exit codes by which the command says that nobody knows.
    pub(super) unknown_exit: Vec<u8>,
    /// Whether another exit code than 0 is a result.
    pub(super) keep_failures: bool,
}

/// What becomes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Freed,
    Kept(Kind),
}

/// The meaning of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) fate: Fate,
    /// What this call exits with.
    pub(super) exit: u8,
    pub(super) ended: receipt::Ended,
    /// Why nobody knows, as the end of a sentence.
    pub(super) why: String,
}

impl Verdict {
    pub(super) fn of(exit: ChildExit, by: Option<EndedBy>, passed_on: Option<i32>, rules: &Rules) -> Self {
        let unknown =
            |exit: Exit, ended, why| Self { fate: Fate::Kept(Kind::Unknown), exit: exit.code(), ended, why };
        let exited = |fate, exit| Self { fate, exit, ended: receipt::Ended::Exited, why: String::new() };
        // Whatever it then exited with.
        match by {
            Some(EndedBy::LeaseLost) => {
                let why = "its lease was lost while it ran, so it was ended".to_owned();
                return unknown(Exit::LeaseLost, receipt::Ended::LeaseLost, why);
            }
            Some(EndedBy::Timeout) => {
                let why = "it was ended when its --timeout ran out".to_owned();
                return unknown(Exit::TimedOut, receipt::Ended::TimedOut, why);
            }
            None => {}
        }
        match (exit, passed_on) {
            (ChildExit::Code(0), _) => exited(Fate::Kept(Kind::Done), 0),
            (ChildExit::Code(code), _) if rules.unknown_exit.contains(&code) => {
                let why = format!("it exited with {code}, which says so");
                unknown(Exit::Command(code), receipt::Ended::Exited, why)
            }
            (ChildExit::Code(code), Some(signal)) => {
                let why = format!("it exited with {code} after {}", name_of(signal));
                unknown(Exit::Signal(signal), receipt::Ended::Signalled, why)
            }
            (ChildExit::Code(code), None) if rules.keep_failures => exited(Fate::Kept(Kind::Done), code),
            (ChildExit::Code(code), None) => exited(Fate::Freed, code),
            (ChildExit::Signal(signal), _) => {
                let why = format!("{} ended it", name_of(signal));
                unknown(Exit::Signal(signal), receipt::Ended::Signalled, why)
            }
        }
    }

    /// Whether nobody knows what it did.
    pub(super) fn is_unknown(&self) -> bool {
        self.fate == Fate::Kept(Kind::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Fate = Fate::Kept(Kind::Done);
    const UNKNOWN: Fate = Fate::Kept(Kind::Unknown);

    fn verdict(
        exit: ChildExit,
        by: Option<EndedBy>,
        passed_on: Option<i32>,
        keep_failures: bool,
    ) -> (Fate, u8) {
        let rules = Rules { unknown_exit: vec![76, 5], keep_failures };
        let verdict = Verdict::of(exit, by, passed_on, &rules);
        (verdict.fate, verdict.exit)
    }

    fn code(code: u8, passed_on: Option<i32>) -> (Fate, u8) {
        verdict(ChildExit::Code(code), None, passed_on, false)
    }

    #[test]
    fn exit_0_is_done_also_after_a_signal_was_passed_on() {
        assert_eq!(code(0, None), (DONE, 0));
        assert_eq!(code(0, Some(15)), (DONE, 0));
    }

    #[test]
    fn codes_for_unknown_are_unknown_and_exit_as_they_are() {
        assert_eq!(code(76, None), (UNKNOWN, 76));
        assert_eq!(code(5, Some(2)), (UNKNOWN, 5));
        assert_eq!(verdict(ChildExit::Code(5), None, None, true), (UNKNOWN, 5));
    }

    #[test]
    fn other_codes_free_the_key_or_are_kept_on_request() {
        assert_eq!(code(3, None), (Fate::Freed, 3));
        assert_eq!(verdict(ChildExit::Code(3), None, None, true), (DONE, 3));
    }

    #[test]
    fn other_ends_around_a_signal_are_unknown() {
        assert_eq!(code(3, Some(15)), (UNKNOWN, 143));
        assert_eq!(verdict(ChildExit::Code(3), None, Some(2), true), (UNKNOWN, 130));
        assert_eq!(verdict(ChildExit::Signal(9), None, None, true), (UNKNOWN, 137));
    }

    #[test]
    fn what_hapax_ended_is_unknown_whatever_it_exited_with() {
        for exit in [ChildExit::Code(0), ChildExit::Code(3), ChildExit::Code(76), ChildExit::Signal(15)] {
            assert_eq!(verdict(exit, Some(EndedBy::Timeout), None, true), (UNKNOWN, 124));
            assert_eq!(verdict(exit, Some(EndedBy::LeaseLost), Some(2), false), (UNKNOWN, 79));
        }
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(name_of(15), "SIGTERM");
        assert_eq!(name_of(64), "signal 64");
    }
}
