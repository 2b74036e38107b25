//! Exit codes. Scripts rely on them: one may be added, none changes its meaning.

use hapax::{Category, CodeInfo};
use std::process::ExitCode;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    ItemFailed,
    Usage,
    Invalid,
    Unreachable,
    Bug,
    TryAgain,
    Unknown,
    LeaseLost,
    TimedOut,
    /// The exit code of the command that was run, or of a shell that could not run it.
    Command(u8),
    /// Stopped by this signal, in order.
    Signal(i32),
}

/// What each code means.
pub(crate) const TABLE: &[(&str, &str)] = &[
    ("0", "done, or answered from an earlier run"),
    ("1", "at least one item of a batch failed for certain, or a job went dead"),
    ("2", "usage: the command line, the environment or hapax.toml is wrong"),
    ("65", "the input is invalid, or the key was used for something else"),
    ("69", "the store or a server cannot be reached or refused to work; nothing was run"),
    ("70", "a bug in hapax"),
    (
        "75",
        "try again later: a call under the key is in flight, a lock is held by another, a limit is reached, the queue is full, or \
         a --wait for one of these ran out",
    ),
    ("76", "the outcome is unknown: the effect may have happened"),
    ("79", "the lease was lost while the command ran"),
    ("124", "a --timeout on the whole command ran out"),
    ("126", "the command could not be executed"),
    ("127", "the command was not found"),
    ("130", "stopped by SIGINT, in order, before the work was done"),
    ("143", "stopped by SIGTERM, in order, before the work was done"),
    ("other", "of the command that was run; 128+N where it was killed by signal N"),
];

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::ItemFailed => 1,
            Self::Usage => 2,
            Self::Invalid => 65,
            Self::Unreachable => 69,
            Self::Bug => 70,
            Self::TryAgain => 75,
            Self::Unknown => 76,
            Self::LeaseLost => 79,
            Self::TimedOut => 124,
            Self::Command(code) => code,
            Self::Signal(signal) => u8::try_from(signal).unwrap_or(0).saturating_add(128),
        }
    }

    /// Of a stable code.
    pub(crate) fn of(code: &str, category: Category) -> Self {
        Self::of_words(code, category.as_str())
    }

    /// Of a line of the table of codes.
    pub(crate) fn of_info(info: &CodeInfo) -> Self {
        match info.code {
            // Where the URL is right and its place is not, it is `Unreachable`.
            "store.config" => Self::Usage,
            _ => Self::of_words(info.code, info.category),
        }
    }

    fn of_words(code: &str, category: &str) -> Self {
        match (code, category) {
            ("command.usage" | "command.config", _) => Self::Usage,
            ("command.not_found", _) => Self::Command(127),
            ("command.not_executable", _) => Self::Command(126),
            // Or of whichever signal it was.
            ("command.interrupted", _) => Self::Signal(2),
            ("idempotency.timed_out" | "command.timed_out", _) => Self::TimedOut,
            (
                "idempotency.lease_lost"
                | "idempotency.lease_ceiling"
                | "idempotency.fenced"
                | "queue.lease_lost"
                | "lock.lost",
                _,
            ) => Self::LeaseLost,
            // The verdict was meant for something else.
            ("idempotency.changed", _) => Self::Invalid,
            // One of the jobs that a worker ran.
            ("queue.dead", _) => Self::ItemFailed,
            (_, "internal") => Self::Bug,
            // Nothing was run, whether or not the request reached the store.
            (code, _) if code.starts_with("store.") => Self::Unreachable,
            (_, "validation") => Self::Invalid,
            (_, "conflict" | "limited") => Self::TryAgain,
            (_, "unavailable") => Self::Unreachable,
            (_, "unknown") => Self::Unknown,
            // The words of receipts: one item of a batch.
            _ => Self::ItemFailed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_hapax_has_an_exit_of_the_table() {
        for info in hapax::codes().iter().chain(crate::failure::CODES) {
            let exit = Exit::of_info(info).code().to_string();
            assert!(TABLE.iter().any(|(code, _)| *code == exit), "{}: {exit}", info.code);
        }
    }

    #[test]
    fn codes_of_the_main_answers() {
        let exit = |code, category| Exit::of(code, category).code();
        assert_eq!(exit("idempotency.in_flight", Category::Conflict), 75);
        assert_eq!(exit("idempotency.key_reused", Category::Validation), 65);
        assert_eq!(exit("idempotency.unknown", Category::Unknown), 76);
        assert_eq!(exit("idempotency.changed", Category::Conflict), 65);
        assert_eq!(exit("idempotency.store_failed", Category::Unavailable), 69);
        assert_eq!(exit("store.timeout", Category::Unknown), 69);
        assert_eq!(exit("store.internal", Category::Internal), 70);
        assert_eq!(Exit::Signal(15).code(), 143);
    }
}
