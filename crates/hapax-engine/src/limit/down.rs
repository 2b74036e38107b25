//! What is answered when the store cannot be reached.

use super::decision::{Policies, PolicyDecision};
use hapax_core::{
    Namespace,
    limit::{Answer, Check, Decide, LimitStore},
    memory::MemoryLimits,
};
use std::{borrow::Cow, num::NonZeroU32};

/// What is answered when the store cannot be reached. Without one of these the call ends with `limit.store_failed`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WhenDown {
    /// Everything passes.
    Open,
    /// Nothing passes.
    Closed,
    /// Each process counts for itself, its share of the limit: that of one of so many. At least one of each window
    /// passes.
    Local(NonZeroU32),
}

impl WhenDown {
    /// Each of so many processes counts its share.
    pub fn local(processes: u32) -> Self {
        Self::Local(NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN))
    }
}

/// Who answered in place of the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Degraded {
    /// Nobody: everything passes.
    Open,
    /// Nobody: nothing passes.
    Closed,
    /// This process counted for itself.
    Local,
}

impl Degraded {
    /// The word used in JSON and in headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
        }
    }
}

/// How soon it may be tried again where nothing passes, in milliseconds.
const CLOSED_FOR: u64 = 1000;

/// The answers without the store.
pub(super) async fn answers(down: WhenDown, local: &MemoryLimits, req: &Decide) -> (Vec<Answer>, Degraded) {
    let fixed = |allowed: bool| {
        let of = |check: &Check| {
            let (limit, never) = (check.quota.limit(), check.cost > check.quota.limit());
            Answer {
                allowed: allowed && !never,
                limit,
                cost: check.cost,
                remaining: if allowed { limit } else { 0 },
                retry_after_ms: if allowed || never { 0 } else { CLOSED_FOR },
                reset_after_ms: if allowed { 0 } else { CLOSED_FOR },
                next_after_ms: if allowed { 0 } else { CLOSED_FOR },
                never,
            }
        };
        req.checks.iter().map(of).collect()
    };
    match down {
        WhenDown::Open => (fixed(true), Degraded::Open),
        WhenDown::Closed => (fixed(false), Degraded::Closed),
        WhenDown::Local(processes) => {
            let share = |check: &Check| {
                let limit = (check.quota.limit() / processes).max(1);
                // A smaller limit is valid where a larger one is.
                let quota = check.quota.with_limit(limit).unwrap_or(check.quota);
                Check { quota, ..check.clone() }
            };
            let checks = req.checks.iter().map(share).collect();
            let own = Decide { namespace: Namespace::clone(&req.namespace), checks, dry_run: req.dry_run };
            match local.decide(&own).await {
                Ok(decided) => (decided.answers, Degraded::Local),
                Err(_) => (fixed(false), Degraded::Closed),
            }
        }
    }
}

/// Joins answers with what they answer.
pub(super) fn policies(
    names: impl IntoIterator<Item = Cow<'static, str>>,
    checks: &[Check],
    answers: Vec<Answer>,
) -> Policies {
    let join = |((policy, check), answer): ((Cow<'static, str>, &Check), Answer)| PolicyDecision {
        policy,
        quota: check.quota,
        answer,
        shadow: check.shadow,
    };
    let mut all: Vec<_> = names.into_iter().zip(checks).zip(answers).map(join).collect();
    match all.pop() {
        Some(only) if all.is_empty() => Policies::One(only),
        Some(last) => {
            all.push(last);
            Policies::Several(all)
        }
        None => Policies::Several(all),
    }
}
