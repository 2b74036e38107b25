//! What a transport is made of, and in which order that may be.

use std::time::Duration;

/// A decorator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// Each message once per key.
    Idempotency,
    /// One of several transports.
    Pool,
    /// Further attempts.
    Retry,
    /// No attempts while the provider is down.
    Breaker,
    /// So many attempts in such a time.
    RateLimit,
}

impl Layer {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idempotency => "idempotency",
            Self::Pool => "a pool",
            Self::Retry => "a retry",
            Self::Breaker => "a breaker",
            Self::RateLimit => "a rate limit",
        }
    }

    /// Why `self` must not stand around `inner`, if it must not.
    pub(crate) const fn refuses(self, inner: Self) -> Option<&'static str> {
        use Layer::{Breaker, Idempotency, Pool, RateLimit, Retry};
        match (self, inner) {
            // Their keys are apart, and what the inner one did not send is freed by the outer one.
            (Idempotency, Idempotency) => None,
            (_, Idempotency) => Some("a message has to be reserved once for all its attempts"),
            (Breaker, Pool) => Some("one transport that fails would shut the others out"),
            (RateLimit, Pool) => Some("each member has a limit of its own, and takes part in it alone"),
            (Retry, Retry) => Some("the attempts of one would be multiplied by those of the other"),
            (Breaker, Retry) => Some("it would not see the attempts, and could not end them"),
            (RateLimit, Retry) => Some("further attempts would go past the limit"),
            (Breaker, Breaker) => Some("the outer one would count what the inner one answers by itself"),
            (RateLimit, Breaker) => Some("what the breaker answers by itself would use the limit up"),
            _ => None,
        }
    }
}

/// What a transport is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stack {
    /// Its decorators, the outermost first.
    pub layers: Vec<Layer>,
    /// How long a send takes at most, where it ends by itself.
    pub longest: Option<Duration>,
}

impl Stack {
    /// Of a transport that ends each send by itself within this time.
    pub fn bounded(longest: Duration) -> Self {
        Self { layers: Vec::new(), longest: Some(longest) }
    }

    /// The same with a decorator around it.
    #[must_use]
    pub fn within(mut self, layer: Layer) -> Self {
        self.layers.insert(0, layer);
        self
    }

    /// The first two layers that stand the wrong way round, and why that is wrong.
    pub(crate) fn disorder(&self) -> Option<(Layer, Layer, &'static str)> {
        let pairs = self
            .layers
            .iter()
            .enumerate()
            .flat_map(|(at, outer)| self.layers.iter().skip(at + 1).map(move |inner| (*outer, *inner)));
        pairs.into_iter().find_map(|(outer, inner)| outer.refuses(inner).map(|reason| (outer, inner, reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Layer::{Breaker, Idempotency, Pool, RateLimit, Retry},
        Stack,
    };

    #[test]
    fn one_order_is_right_and_each_other_has_its_reason() {
        let right = [Idempotency, Pool, Retry, Breaker, RateLimit];
        let stack = |layers: &[_]| Stack { layers: layers.to_vec(), longest: None };
        assert_eq!(stack(&right).disorder(), None);
        for (at, outer) in right.iter().enumerate() {
            for inner in right.iter().take(at) {
                let found = stack(&[*outer, *inner]).disorder();
                // A retry around a pool sees only what no member has taken for certain.
                if (*outer, *inner) == (Retry, Pool) {
                    assert_eq!(found, None);
                } else {
                    assert_eq!(found.map(|(a, b, _)| (a, b)), Some((*outer, *inner)));
                }
            }
        }
        for twice in [Retry, Breaker] {
            assert!(stack(&[twice, twice]).disorder().is_some(), "{twice:?}");
        }
        assert_eq!(stack(&[Idempotency, Idempotency]).disorder(), None);
        // A limit a second and a limit a day.
        assert_eq!(stack(&[RateLimit, RateLimit]).disorder(), None);
        assert_eq!(stack(&[Retry, Pool, Retry]).disorder().map(|(a, b, _)| (a, b)), Some((Retry, Retry)));
    }
}
