//! A limit as a program names it.

use super::{LimitError, Template, value::PushValue};
use hapax_core::limit::{Check, LimitKey, Quota};
use std::borrow::Cow;

/// Whose requests are counted, and how many are allowed. Made by a function that
/// [`define_limit!`](crate::define_limit) writes, or by [`new`](Self::new).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    policy: Cow<'static, str>,
    key: Result<LimitKey, String>,
    quota: Quota,
    shadow: bool,
}

impl Limit {
    /// The limit of a name, which is also the name of the policy. A name that cannot be used is reported by the call.
    pub fn new(name: &str, quota: Quota) -> Self {
        Self {
            policy: Cow::Owned(name.to_owned()),
            key: LimitKey::new(name).map_err(|error| error.to_string()),
            quota,
            shadow: false,
        }
    }

    /// For [`define_limit!`](crate::define_limit).
    #[doc(hidden)]
    pub fn fill(policy: &'static str, template: &Template, values: &[&dyn PushValue], quota: Quota) -> Self {
        let key = LimitKey::new(&template.fill(values)).map_err(|error| error.to_string());
        Self { policy: Cow::Borrowed(policy), key, quota, shadow: false }
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
        self.shadow = true;
        self
    }

    /// The name of the policy.
    pub fn policy_name(&self) -> &str {
        &self.policy
    }

    /// How much is allowed in which time.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The name in the store.
    pub fn key(&self) -> Result<&LimitKey, LimitError> {
        self.key.as_ref().map_err(LimitError::invalid)
    }

    pub(super) fn from_check(policy: Cow<'static, str>, check: Check) -> Self {
        Self { policy, key: Ok(check.key), quota: check.quota, shadow: check.shadow }
    }

    pub(super) fn into_check(self, cost: u32) -> Result<(Cow<'static, str>, Check), LimitError> {
        let key = self.key.map_err(LimitError::invalid)?;
        if cost == 0 {
            return Err(LimitError::invalid("a cost is at least 1: `dry_run` asks without taking anything"));
        }
        Ok((self.policy, Check { key, quota: self.quota, cost, shadow: self.shadow }))
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
