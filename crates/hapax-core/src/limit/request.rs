//! What a store of limits is asked, and what it answers.

use super::{LimitKey, Quota};
use crate::Namespace;

/// One limit of a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Whose requests are counted.
    pub key: LimitKey,
    /// How much is allowed. A quota that differs from the one of the last decision takes effect at once.
    pub quota: Quota,
    /// How much this request takes: 1 at least. More than the limit is never allowed.
    pub cost: u32,
    /// Counted apart from the real limit of the same name, and without a say in the decision: to see what a limit would
    /// do before it does it.
    pub shadow: bool,
}

impl Check {
    /// A request of cost 1.
    pub fn new(key: LimitKey, quota: Quota) -> Self {
        Self { key, quota, cost: 1, shadow: false }
    }
}

/// Asks for one decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decide {
    /// Of the keys.
    pub namespace: Namespace,
    /// All must allow it, shadows excepted.
    pub checks: Vec<Check>,
    /// Answers as if it were asked in earnest, and writes nothing.
    pub dry_run: bool,
}

/// What one limit says of a request. All times are counted from the decision on, in milliseconds, with no other request
/// in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// This limit lets the request pass. Of a decision over several limits, all must.
    pub allowed: bool,
    /// How much is allowed in a window.
    pub limit: u32,
    /// What the request takes.
    pub cost: u32,
    /// How many requests of cost 1 would pass now, after this decision.
    pub remaining: u32,
    /// When the same request is allowed: not a millisecond earlier. Zero where it is allowed now, or never.
    pub retry_after_ms: u64,
    /// When all of the limit is there again.
    pub reset_after_ms: u64,
    /// When `remaining` is larger by one. Zero where it is all there.
    pub next_after_ms: u64,
    /// The cost is above the limit: waiting does not help.
    pub never: bool,
}

/// Answer to [`Decide`].
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decided {
    /// In the order of the checks.
    pub answers: Vec<Answer>,
    /// The limits do not lie together, and the store could not decide over them in one step: each was asked for
    /// itself, and what had counted was given back where another refused.
    pub best_effort: bool,
}

impl Decided {
    /// Whether the request may pass: every limit that is no shadow allows it.
    pub fn allowed(&self, checks: &[Check]) -> bool {
        let mut enforced = self.answers.iter().zip(checks).filter(|(_, check)| !check.shadow);
        enforced.all(|(answer, _)| answer.allowed)
    }
}
