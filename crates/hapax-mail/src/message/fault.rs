//! What is wrong with a message: every fault at once, each with its field.

use hapax_core::{Category, Coded, Retry};
use std::{borrow::Cow, fmt};

/// One fault of a message. Names the field and the reason, never what was in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The field, as a JSON line names it: `to[1]`, `attachments[0].path`.
    pub field: Cow<'static, str>,
    /// `message.…`, from [`MESSAGE_CODES`](crate::MESSAGE_CODES).
    pub code: &'static str,
    /// One sentence.
    pub reason: String,
}

impl Fault {
    pub(crate) fn new(
        field: impl Into<Cow<'static, str>>,
        code: &'static str,
        reason: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), code, reason: reason.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "{}: {}", self.field, self.reason)
        }
    }
}

/// The message is not valid; it lists why.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InvalidMessage {
    /// Every fault that was found, in the order of the fields; one at least.
    pub faults: Vec<Fault>,
}

/// So many faults are spelled out in one line of text.
const SHOWN: usize = 8;

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message is not valid")?;
        for (i, fault) in self.faults.iter().take(SHOWN).enumerate() {
            write!(f, "{} {fault}", if i == 0 { ":" } else { ";" })?;
        }
        match self.faults.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for InvalidMessage {}

impl InvalidMessage {
    /// `Ok` while nothing is wrong.
    pub(crate) fn unless_empty(faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self { faults }) }
    }
}

impl From<Fault> for InvalidMessage {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }
}

impl Coded for InvalidMessage {
    fn code(&self) -> &'static str {
        self.faults.first().map_or("message.syntax", |fault| fault.code)
    }

    fn category(&self) -> Category {
        Category::Validation
    }

    fn retry(&self) -> Retry {
        Retry::Never
    }
}
