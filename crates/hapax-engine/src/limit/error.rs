//! Why a limit does not let pass.

use super::Decision;
use hapax_core::{Category, CodeInfo, Coded, Retry, StoreError};
use std::time::Duration;

/// Why a limit does not let pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The limit is reached.
    #[error("{}", .0.refusal())]
    Limited(Decision),
    /// The limit's name, its quota or a cost cannot be used.
    #[error("{what}")]
    #[non_exhaustive]
    Invalid {
        /// Which, and why.
        what: String,
    },
    /// The store could not decide, and nothing was said for that case.
    #[error("the limit's store failed")]
    #[non_exhaustive]
    StoreFailed {
        /// Why.
        source: StoreError,
    },
}

/// The codes of limits, that of the warning included.
pub const CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "limit.limited",
        "limited",
        true,
        "the limit is reached",
        "try again after `retry_after`, or ask to wait",
    ),
    CodeInfo::new(
        "limit.never",
        "validation",
        false,
        "the cost is above the limit: it is never allowed",
        "ask for less at a time, or raise the limit",
    ),
    CodeInfo::new(
        "limit.invalid",
        "validation",
        false,
        "the limit's name, its quota or a cost cannot be used",
        "the message names it",
    ),
    CodeInfo::new(
        "limit.store_failed",
        "unavailable",
        true,
        "the store could not decide",
        "bring the store back, or say what is answered without it (`when_down`, `--when-down`)",
    ),
    CodeInfo::new(
        "limit.degraded",
        "unavailable",
        true,
        "a limit was answered without its store (warning)",
        "bring the store back; `when_down` and `--when-down` say what is answered meanwhile",
    ),
];

impl LimitError {
    pub(super) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    /// For layers whose own step to the store failed.
    pub fn store_failed(source: StoreError) -> Self {
        Self::StoreFailed { source }
    }
}

impl Coded for LimitError {
    fn code(&self) -> &'static str {
        match self {
            Self::Limited(decision) if decision.never() => "limit.never",
            Self::Limited(_) => "limit.limited",
            Self::Invalid { .. } => "limit.invalid",
            Self::StoreFailed { .. } => "limit.store_failed",
        }
    }

    fn category(&self) -> Category {
        match self {
            Self::Limited(decision) if decision.never() => Category::Validation,
            Self::Limited(_) => Category::Limited,
            Self::Invalid { .. } => Category::Validation,
            Self::StoreFailed { .. } => Category::Unavailable,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Limited(decision) if decision.never() => Retry::Never,
            Self::Limited(decision) if decision.retry_after() == Duration::ZERO => Retry::Now,
            Self::Limited(decision) => Retry::After(decision.retry_after()),
            Self::Invalid { .. } => Retry::Never,
            // It may have counted: one more does no harm but to the caller's own quota.
            Self::StoreFailed { source } => match source.retry() {
                Retry::OnlyWithSameKey => Retry::Now,
                other => other,
            },
        }
    }
}
