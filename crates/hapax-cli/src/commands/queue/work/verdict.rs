//! What the end of a command means for its job.

use crate::child::{EndedBy, Exit};
use hapax::{
    core::queue::DeadReason,
    queue::{Halt, raw::Outcome},
};
use nix::sys::signal::Signal;
use std::time::Duration;

/// So much of what the command said is told of a failure.
const SAID: usize = 1024;
/// How long a job is put off whose command says that it cannot run now.
const SNOOZE: Duration = Duration::from_secs(5);

/// How a command ended, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) exit: Exit,
    pub(super) by: Option<EndedBy>,
    pub(super) halt: Option<Halt>,
    pub(super) limit: Option<Duration>,
}

pub(super) fn of(facts: &Facts, stderr: &[u8]) -> Outcome {
    let told = |what: String| {
        let said = String::from_utf8_lossy(stderr.get(..SAID).unwrap_or(stderr)).trim().to_owned();
        if said.is_empty() { what } else { format!("{what}: {said}") }
    };
    let broken = |what: String| Outcome::Broken { error: told(what) };
    match (facts.by, facts.exit) {
        (Some(EndedBy::Timeout), _) => {
            let limit = facts.limit.map(crate::duration::format).unwrap_or_default();
            broken(format!("it was ended after {limit}, its time-out"))
        }
        // Told to end, it ended well.
        (Some(EndedBy::LeaseLost), Exit::Code(0))
            if matches!(facts.halt, Some(Halt::Stopping | Halt::Cancelled)) =>
        {
            Outcome::Done { result: None }
        }
        (Some(EndedBy::LeaseLost), _) => broken(match facts.halt {
            Some(Halt::Stopping) => "its worker was stopped".to_owned(),
            Some(Halt::Cancelled) => "it was cancelled".to_owned(),
            _ => "its lease was lost while it ran".to_owned(),
        }),
        (None, Exit::Code(0)) => Outcome::Done { result: None },
        (None, Exit::Code(65)) => {
            Outcome::Dead { reason: DeadReason::Refused, error: told("it exited with 65".into()) }
        }
        (None, Exit::Code(69 | 75)) => Outcome::Snooze { by: SNOOZE },
        (None, Exit::Code(76)) => Outcome::Unknown { error: told("it exited with 76".into()) },
        (None, Exit::Code(code)) => {
            Outcome::Retry { error: told(format!("it exited with {code}")), after: None, certain: true }
        }
        (None, Exit::Signal(signal)) => {
            let name =
                Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |name| name.to_string());
            broken(format!("{name} ended it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(exit: Exit, by: Option<EndedBy>, halt: Option<Halt>) -> String {
        let facts = Facts { exit, by, halt, limit: Some(Duration::from_secs(5)) };
        match of(&facts, b" no such file\n") {
            Outcome::Done { .. } => "done".into(),
            Outcome::Dead { reason, error } => format!("dead {}: {error}", reason.as_str()),
            Outcome::Unknown { error } => format!("unknown: {error}"),
            Outcome::Snooze { .. } => "snooze".into(),
            Outcome::Retry { error, certain, .. } => format!("retry {certain}: {error}"),
            Outcome::Broken { error } => format!("broken: {error}"),
            Outcome::Discard { .. } => "discard".into(),
        }
    }

    #[test]
    fn exit_codes_have_their_meaning() {
        let code = |code| outcome(Exit::Code(code), None, None);
        assert_eq!(code(0), "done");
        assert_eq!(code(65), "dead refused: it exited with 65: no such file");
        assert_eq!((code(69), code(75)), ("snooze".into(), "snooze".into()));
        assert_eq!(code(76), "unknown: it exited with 76: no such file");
        assert_eq!(code(3), "retry true: it exited with 3: no such file");
        assert_eq!(outcome(Exit::Signal(9), None, None), "broken: SIGKILL ended it: no such file");
    }

    #[test]
    fn what_hapax_ended_is_broken_whatever_it_exited_with() {
        for exit in [Exit::Code(0), Exit::Code(65), Exit::Signal(15)] {
            assert!(outcome(exit, Some(EndedBy::Timeout), None).starts_with("broken: it was ended after 5s"));
            assert!(
                outcome(exit, Some(EndedBy::LeaseLost), Some(Halt::Lost)).starts_with("broken: its lease")
            );
            assert!(outcome(exit, Some(EndedBy::LeaseLost), None).starts_with("broken: its lease"));
        }
    }

    #[test]
    fn told_to_stop_it_may_still_end_well() {
        let stopped = |exit| outcome(exit, Some(EndedBy::LeaseLost), Some(Halt::Stopping));
        assert_eq!(stopped(Exit::Code(0)), "done");
        assert_eq!(stopped(Exit::Signal(15)), "broken: its worker was stopped: no such file");
    }
}
