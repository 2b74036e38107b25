//! What is answered.

use super::Degraded;
use hapax_core::limit::{Answer, Quota};
use std::{borrow::Cow, time::Duration};

/// What one limit of a decision says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyDecision {
    /// The name of the limit, without the values in it.
    pub policy: Cow<'static, str>,
    /// How much is allowed in which time.
    pub quota: Quota,
    /// What it says.
    pub answer: Answer,
    /// It has no say: what it would do is seen before it does it.
    pub shadow: bool,
}

/// Whether a request may pass, and what the limits say of it.
#[must_use = "a request passes only where `allowed()` says so"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    policies: Policies,
    allowed: bool,
    dry_run: bool,
    best_effort: bool,
    degraded: Option<Degraded>,
}

/// Most decisions are over one limit: no allocation for those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Policies {
    One(PolicyDecision),
    Several(Vec<PolicyDecision>),
}

impl Decision {
    pub(super) fn new(
        policies: Policies,
        dry_run: bool,
        best_effort: bool,
        degraded: Option<Degraded>,
    ) -> Self {
        let mut decision = Self { policies, allowed: true, dry_run, best_effort, degraded };
        let allowed = decision.enforced().all(|policy| policy.answer.allowed);
        decision.allowed = allowed;
        decision
    }

    fn enforced(&self) -> impl Iterator<Item = &PolicyDecision> {
        self.policies().iter().filter(|policy| !policy.shadow)
    }

    /// The one that says most: of a refusal the one to wait longest for, else the one of which least is left. A shadow
    /// only where there is nothing else.
    fn tightest(&self) -> Option<&PolicyDecision> {
        let all = || self.enforced();
        let refused = all().filter(|policy| !policy.answer.allowed);
        let by_wait = |policy: &&PolicyDecision| (policy.answer.never, policy.answer.retry_after_ms);
        let by_rest = |policy: &&PolicyDecision| policy.answer.remaining;
        refused.max_by_key(by_wait).or_else(|| all().min_by_key(by_rest)).or_else(|| self.policies().first())
    }

    fn of<T: Default>(&self, figure: impl FnOnce(&Answer) -> T) -> T {
        self.tightest().map(|policy| figure(&policy.answer)).unwrap_or_default()
    }

    /// Whether the request may pass: every limit that is no shadow allows it.
    pub fn allowed(&self) -> bool {
        self.allowed
    }

    /// What each limit says, in the order in which they were given.
    pub fn policies(&self) -> &[PolicyDecision] {
        match &self.policies {
            Policies::One(policy) => std::slice::from_ref(policy),
            Policies::Several(policies) => policies,
        }
    }

    /// The names of the limits that refuse. Shadows are not among them.
    pub fn violated(&self) -> impl Iterator<Item = &str> {
        self.enforced().filter(|policy| !policy.answer.allowed).map(|policy| &*policy.policy)
    }

    /// The names of the shadows that would refuse.
    pub fn would_violate(&self) -> impl Iterator<Item = &str> {
        let shadows = self.policies().iter().filter(|policy| policy.shadow);
        shadows.filter(|policy| !policy.answer.allowed).map(|policy| &*policy.policy)
    }

    /// How much is allowed in a window, by the limit that says most: of a refusal the one to wait longest for, else the
    /// one of which least is left. So are all other figures.
    pub fn limit(&self) -> u32 {
        self.of(|answer| answer.limit)
    }

    /// How many requests of cost 1 would pass now.
    pub fn remaining(&self) -> u32 {
        self.of(|answer| answer.remaining)
    }

    /// What the request takes.
    pub fn cost(&self) -> u32 {
        self.of(|answer| answer.cost)
    }

    /// When the same request passes, if nothing else comes. Zero where it passes now, or [`never`](Self::never).
    pub fn retry_after(&self) -> Duration {
        Duration::from_millis(self.of(|answer| answer.retry_after_ms))
    }

    /// When all of the limit is there again.
    pub fn reset_after(&self) -> Duration {
        Duration::from_millis(self.of(|answer| answer.reset_after_ms))
    }

    /// When more is there than now.
    pub fn next_after(&self) -> Duration {
        Duration::from_millis(self.of(|answer| answer.next_after_ms))
    }

    /// The cost is above a limit: waiting does not help.
    pub fn never(&self) -> bool {
        self.enforced().any(|policy| policy.answer.never)
    }

    /// Nothing was counted.
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// The limits do not lie together: each was asked for itself, and what had counted was given back where another
    /// refused.
    pub fn best_effort(&self) -> bool {
        self.best_effort
    }

    /// The store could not be asked: who answered in its place.
    pub fn degraded(&self) -> Option<Degraded> {
        self.degraded
    }

    pub(super) fn refusal(&self) -> String {
        let names: Vec<_> = self.violated().collect();
        let names = names.join(", ");
        if self.never() {
            format!("{names}: the cost {} is above the limit {}", self.cost(), self.limit())
        } else if self.degraded.is_some() {
            format!("{names}: the store of the limit cannot be reached, and nothing passes meanwhile")
        } else {
            format!("{names}: the limit is reached; try again after {:?}", self.retry_after())
        }
    }
}

/// Says that a request may pass. It may be ignored: where it may not, there is an error in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit(pub(super) Decision);

impl Permit {
    /// What the limits say.
    pub fn decision(&self) -> &Decision {
        &self.0
    }
}
