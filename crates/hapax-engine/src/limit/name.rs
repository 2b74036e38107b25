//! A limit as a program names it.

use super::{LimitError, Template, ask::Settings, value::PushValue};
use hapax_core::{
    InvalidKey,
    limit::{Check, LimitKey, Quota},
};
use std::borrow::Cow;

/// Whose requests are counted, and how many are allowed. Made by a function that
/// [`define_limit!`](crate::define_limit) writes, or by [`new`](Self::new).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    policy: Cow<'static, str>,
    /// A request of cost 1, as a store is asked.
    check: Result<Check, Invalid>,
}

/// A limit whose name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Invalid {
    reason: String,
    quota: Quota,
}

impl Limit {
    /// The limit of a name, which is also the name of the policy. A name that cannot be used is reported by the call.
    pub fn new(name: &str, quota: Quota) -> Self {
        Self::named(Cow::Owned(name.to_owned()), name, quota)
    }

    /// For [`define_limit!`](crate::define_limit).
    #[doc(hidden)]
    pub fn fill(policy: &'static str, template: &Template, values: &[&dyn PushValue], quota: Quota) -> Self {
        Self::named(Cow::Borrowed(policy), &template.fill(values), quota)
    }

    fn named(policy: Cow<'static, str>, name: &str, quota: Quota) -> Self {
        let invalid =
            |error: InvalidKey| Invalid { reason: format!("the name of the limit: {error}"), quota };
        Self { policy, check: LimitKey::new(name).map(|key| Check::new(key, quota)).map_err(invalid) }
    }

    /// Named so in decisions and headers: what many limits share that differ in their values.
    #[must_use]
    pub fn policy(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.policy = name.into();
        self
    }

    /// Counted apart, and without a say in the decision: what the limit would do is seen before it does it.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        if let Ok(check) = &mut self.check {
            check.shadow = true;
        }
        self
    }

    /// The name of the policy.
    pub fn policy_name(&self) -> &str {
        &self.policy
    }

    pub(super) fn policy_text(&self) -> &Cow<'static, str> {
        &self.policy
    }

    pub(super) fn into_policy(self) -> Cow<'static, str> {
        self.policy
    }

    /// How much is allowed in which time.
    pub fn quota(&self) -> Quota {
        self.check.as_ref().map_or_else(|invalid| invalid.quota, |check| check.quota)
    }

    /// The name in the store.
    pub fn key(&self) -> Result<&LimitKey, LimitError> {
        self.check.as_ref().map(|check| &check.key).map_err(|invalid| LimitError::invalid(&invalid.reason))
    }

    /// What a store is asked.
    pub(super) fn check(&self, settings: &Settings) -> Result<Cow<'_, Check>, LimitError> {
        let check = self.check.as_ref().map_err(|invalid| LimitError::invalid(&invalid.reason))?;
        if settings.cost == 0 {
            return Err(LimitError::invalid("a cost is at least 1: `dry_run` asks without taking anything"));
        }
        let shadow = check.shadow || settings.shadow;
        if settings.cost == check.cost && shadow == check.shadow {
            return Ok(Cow::Borrowed(check));
        }
        Ok(Cow::Owned(Check { cost: settings.cost, shadow, ..check.clone() }))
    }
}

impl From<Limit> for Cow<'_, Limit> {
    fn from(limit: Limit) -> Self {
        Self::Owned(limit)
    }
}
impl<'a> From<&'a Limit> for Cow<'a, Limit> {
    fn from(limit: &'a Limit) -> Self {
        Self::Borrowed(limit)
    }
}

/// One limit, or several that are decided over together.
pub trait IntoLimits {
    /// All of them, in order.
    fn into_limits(self) -> Vec<Limit>;
}

impl IntoLimits for Vec<Limit> {
    fn into_limits(self) -> Vec<Limit> {
        self
    }
}
impl<const N: usize> IntoLimits for [Limit; N] {
    fn into_limits(self) -> Vec<Limit> {
        self.into()
    }
}
impl IntoLimits for Option<Limit> {
    fn into_limits(self) -> Vec<Limit> {
        self.into_iter().collect()
    }
}
impl IntoLimits for Limit {
    fn into_limits(self) -> Vec<Limit> {
        vec![self]
    }
}
