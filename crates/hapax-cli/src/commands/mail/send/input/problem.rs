//! What is wrong with one entry of the input.

use crate::text;
use hapax::mail::{Failure, InvalidMessage, MailCategory, Receipt};
use std::fmt;

/// One fault, with its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Empty where the entry as a whole is meant.
    pub(crate) field: String,
    pub(crate) code: &'static str,
    pub(crate) reason: String,
}

impl Problem {
    pub(crate) fn new(field: impl Into<String>, code: &'static str, reason: impl Into<String>) -> Self {
        Self { field: field.into(), code, reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", text::shown(&self.field))?;
        }
        f.write_str(&text::shown(&self.reason))
    }
}

/// Everything that is wrong with an entry: one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    /// Why it is not sent.
    pub(crate) fn receipt(&self) -> Receipt {
        let code = self.0.first().map_or("message.syntax", |problem| problem.code);
        let reasons: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        Receipt::not_sent(Failure::new(MailCategory::Validation, code).with_detail(reasons.join("; ")))
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl From<InvalidMessage> for Problems {
    fn from(invalid: InvalidMessage) -> Self {
        let faults = invalid.faults.into_iter();
        Self(
            faults
                .map(|fault| Problem {
                    field: fault.field.into_owned(),
                    code: fault.code,
                    reason: fault.reason,
                })
                .collect(),
        )
    }
}
