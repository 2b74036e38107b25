//! Why a value has no stable form, and where in it.

use std::{borrow::Cow, fmt};

use super::MAX_DEPTH;

/// The value has no form that is the same every time it is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no stable form at `{path}`: {reason}")]
#[non_exhaustive]
pub struct NoStableForm {
    /// Where in the value, from its root `$`: `$.items[3].price`. May hold keys of the value's maps.
    pub path: String,
    /// What is wrong there, and what to do about it.
    pub reason: NoStableReason,
}

/// Why there is no stable form at the path of a [`NoStableForm`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoStableReason {
    /// NaN or an infinity.
    #[error("the number is not finite; leave it out, or make it an `Option` or a text")]
    NotFinite,
    /// The key of a map is of a kind that does not become a property name.
    #[error(
        "{kind} cannot be a map's key; use text, an integer, a bool or a unit variant, or make the map a list of pairs"
    )]
    UnorderableKey {
        /// The kind of the key, with its article: `a float`.
        kind: &'static str,
    },
    /// Two entries of one map or struct become the same property.
    #[error("two entries have this key once it is text; rename one, or make the map a list of pairs")]
    CollidingKeys,
    /// Nested too deep.
    #[error("the value is nested deeper than {MAX_DEPTH} levels; flatten it, or hash its parts")]
    TooDeep,
    /// JSON text that nobody has parsed, whose spaces and property order would count.
    #[error("this is JSON text that was not parsed; parse it, or use `Fingerprint::of_bytes`")]
    RawJson,
    /// The value's own `Serialize` answered an error.
    #[error("the value refuses to be serialized: {message}")]
    Refused {
        /// What the value said.
        message: String,
    },
}

/// One step from a value to a part of it.
#[derive(Debug)]
pub(super) enum Step {
    Property(Cow<'static, str>),
    Element(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element(index) => write!(f, "[{index}]"),
            Self::Property(name) if is_plain(name) => write!(f, ".{name}"),
            // Debug form: a path ends up in logs and terminals, where control characters do harm.
            Self::Property(name) => match name.char_indices().nth(MAX_SHOWN) {
                Some((end, _)) => write!(f, "[{:?}…]", name.get(..end).unwrap_or_default()),
                None => write!(f, "[{name:?}]"),
            },
        }
    }
}

/// A key may be a whole document; this many characters of it are enough to find it.
const MAX_SHOWN: usize = 64;

fn is_plain(name: &str) -> bool {
    name.len() <= MAX_SHOWN
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The serializer's error. The way to the fault is noted on the way out, so values without one pay nothing.
#[derive(Debug)]
pub(super) struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    reason: NoStableReason,
    /// Innermost step first.
    steps: Vec<Step>,
}

impl Fault {
    pub(super) fn new(reason: NoStableReason) -> Self {
        Self(Box::new(Inner { reason, steps: Vec::new() }))
    }

    pub(super) fn unorderable(kind: &'static str) -> Self {
        Self::new(NoStableReason::UnorderableKey { kind })
    }

    pub(super) fn inside(mut self, step: Step) -> Self {
        self.0.steps.push(step);
        self
    }

    pub(super) fn inside_property(self, name: impl Into<Cow<'static, str>>) -> Self {
        self.inside(Step::Property(name.into()))
    }

    pub(super) fn into_public(self) -> NoStableForm {
        let Inner { reason, steps } = *self.0;
        let mut path = String::from("$");
        path.extend(steps.iter().rev().map(Step::to_string));
        NoStableForm { path, reason }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.reason.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl serde::ser::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(NoStableReason::Refused { message: message.to_string() })
    }
}
