//! Stable codes: `area.reason`, one for each way in which something can end.
//!
//! A code may be added, never renamed or removed: scripts and dashboards match on it.

use std::time::Duration;

/// Who has to act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Category {
    /// The call is wrong and stays wrong.
    Validation,
    /// Something else holds what the call asked for.
    Conflict,
    /// A limit was reached.
    Limited,
    /// A store or server could not be reached, or refused to work.
    Unavailable,
    /// What the call asked for may have happened.
    Unknown,
    /// A fault of hapax itself.
    Internal,
}

impl Category {
    /// The word used in JSON and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Conflict => "conflict",
            Self::Limited => "limited",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::Internal => "internal",
        }
    }
}

/// Whether, and how, the same call may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// It would end the same way.
    Never,
    /// At any time.
    Now,
    /// Not before this much time has passed.
    After(Duration),
    /// Only under the same key: the first call may have had its effect.
    OnlyWithSameKey,
}

/// What every public error of hapax answers.
pub trait Coded {
    /// `area.reason`, for programs.
    fn code(&self) -> &'static str;
    /// Who has to act.
    fn category(&self) -> Category;
    /// Whether the call may be made again.
    fn retry(&self) -> Retry;
}

/// One line of the table of codes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CodeInfo {
    /// `area.reason`.
    pub code: &'static str,
    /// The category's word: one of [`Category`], or of the mail categories for codes of receipts.
    pub category: &'static str,
    /// Whether the same call may be made again.
    pub retryable: bool,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// The way out, in one sentence.
    pub remedy: &'static str,
}

impl CodeInfo {
    /// A line of the table.
    pub const fn new(
        code: &'static str,
        category: &'static str,
        retryable: bool,
        meaning: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self { code, category, retryable, meaning, remedy }
    }
}
