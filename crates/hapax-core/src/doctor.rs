//! What a look at a store finds: facts, and what may harm its promise.

use crate::{StoreResult, Timestamp};
use async_trait::async_trait;
use std::{fmt, time::Duration};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs speed, or a promise in a rare case.
    Warning,
    /// The store cannot keep its promise like this.
    Error,
}

impl Severity {
    /// As it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked at: `eviction`, `persistence`, … Stable.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What is so, and what follows from it.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        check: &'static str,
        severity: Severity,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, severity, reason: reason.into(), remedy: remedy.into() }
    }
}

/// What a look at a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// Name and value: `version`, `place`, …
    pub facts: Vec<(&'static str, String)>,
    /// In the order of the checks.
    pub findings: Vec<Finding>,
    /// What the clock of the server showed, where the store has one of its own.
    pub store_time: Option<Timestamp>,
    /// Processor time that the server has used so far, where it says.
    pub server_cpu: Option<Duration>,
}

impl Examination {
    /// Adds a fact.
    pub fn fact(&mut self, name: &'static str, value: impl Into<String>) {
        self.facts.push((name, value.into()));
    }

    /// Adds a finding.
    pub fn find(
        &mut self,
        check: &'static str,
        severity: Severity,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding::new(check, severity, reason, remedy));
    }

    /// The worst of the findings.
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// A store that can be looked at. Changes nothing that anybody else would notice.
#[async_trait]
pub trait Examine: Send + Sync + fmt::Debug {
    /// Looks at the store.
    async fn examine(&self) -> StoreResult<Examination>;
}
