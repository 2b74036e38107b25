//! An answer as HTTP headers.
//!
//! `RateLimit-Policy` and `RateLimit` are the structured fields of the IETF draft: one item for each limit, with its
//! quota and window, and with what is left and when there is more. The older fields say it of one limit, the one that
//! says most. Shadows are left out: a client is not told of a limit that does not limit it.

use super::{Decision, PolicyDecision};
use std::time::Duration;

/// Which of the older fields are written along.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Legacy {
    /// None.
    #[default]
    None,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, and `RateLimit-Reset` in seconds from now.
    Plain,
    /// The same with `X-` in front, the reset too.
    X,
}

/// The fields, by name and value. On a refusal, `Retry-After` is among them: whole seconds, and never 0; waiting for so
/// long is long enough.
pub fn headers(decision: &Decision, legacy: Legacy) -> Vec<(&'static str, String)> {
    let policies: Vec<_> = decision.policies().iter().filter(|policy| !policy.shadow).collect();
    let mut fields = Vec::new();
    let list = |item: fn(&PolicyDecision) -> String| {
        policies.iter().map(|policy| item(policy)).collect::<Vec<_>>().join(", ")
    };
    let mut add = |name, value: String| {
        if !value.is_empty() {
            fields.push((name, value));
        }
    };
    add("RateLimit-Policy", list(policy_item));
    add("RateLimit", list(state_item));
    let [limit, remaining, reset] = match legacy {
        Legacy::None => ["", "", ""],
        Legacy::Plain => ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
        Legacy::X => ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"],
    };
    if legacy != Legacy::None {
        add(limit, decision.limit().to_string());
        add(remaining, decision.remaining().to_string());
        add(reset, seconds(decision.reset_after()).to_string());
    }
    if let Some(after) = retry_after(decision) {
        add("Retry-After", after.to_string());
    }
    fields
}

/// The value of `Retry-After` of a refusal: at least 1, and not before there is more of any limit that refuses. None
/// where the request passes, and where waiting does not help.
pub fn retry_after(decision: &Decision) -> Option<u64> {
    if decision.allowed() || decision.never() {
        return None;
    }
    let refused = decision.policies().iter().filter(|policy| !policy.shadow && !policy.answer.allowed);
    let waits = refused.map(|policy| policy.answer.retry_after_ms.max(policy.answer.next_after_ms));
    Some(seconds(Duration::from_millis(waits.max().unwrap_or_default())).max(1))
}

/// Whole seconds, a part of one as a whole one.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// `"login";q=5;w=60`. A window below a second has no such form.
fn policy_item(policy: &PolicyDecision) -> String {
    let item = format!("{};q={}", quoted(&policy.policy), policy.quota.limit());
    match policy.quota.window() {
        window if window < Duration::from_secs(1) => item,
        window => format!("{item};w={}", seconds(window)),
    }
}

/// `"login";r=0;t=12`.
fn state_item(policy: &PolicyDecision) -> String {
    let item = format!("{};r={}", quoted(&policy.policy), policy.answer.remaining);
    match seconds(Duration::from_millis(policy.answer.next_after_ms)) {
        0 => item,
        after => format!("{item};t={after}"),
    }
}

/// As a string of a structured field, which holds what ASCII can print.
fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            ' '..='~' => text.push(c),
            _ => text.push('?'),
        }
    }
    text.push('"');
    text
}
