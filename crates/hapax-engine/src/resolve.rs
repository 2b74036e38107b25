//! A verdict by hand on an unknown outcome.

use crate::{Codec, IdempotencyError, Keeper, idempotency::Defaults};
use hapax_core::{
    Name, Span, Token, Version,
    idempotency::{Receipt, Resolution, Resolved},
};
use std::{fmt, time::Duration};

/// Settles an unknown outcome: say [`happened`](Self::happened) or [`did_not`](Self::did_not).
#[must_use = "say `.happened(&receipt)` or `.did_not()`"]
pub struct Resolve<'a, C> {
    keeper: &'a Keeper,
    codec: &'a C,
    name: Result<Name, IdempotencyError>,
    version: Option<Version>,
    ttl: Duration,
}

impl<C> fmt::Debug for Resolve<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolve")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl<'a, C> Resolve<'a, C> {
    pub(crate) fn new(
        keeper: &'a Keeper,
        codec: &'a C,
        name: Result<Name, IdempotencyError>,
        defaults: Defaults,
    ) -> Self {
        Self { keeper, codec, name, version: None, ttl: defaults.ttl }
    }

    /// Only if the record is still the one that was looked at.
    pub fn version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }

    /// How long the result answers (the handle's ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// It happened: later calls get this result.
    ///
    /// # Errors
    /// `idempotency.changed` when the key is not unknown, or not the version that was meant.
    pub async fn happened<T>(self, value: &T) -> Result<(), IdempotencyError>
    where
        C: Codec<T>,
    {
        let bytes = self.codec.encode(value).map_err(IdempotencyError::invalid)?;
        self.happened_as(Receipt::new(C::NAME, bytes)).await
    }

    /// As [`happened`](Self::happened), with a receipt that is encoded already.
    pub async fn happened_as(self, receipt: Receipt) -> Result<(), IdempotencyError> {
        let ttl = Span::new(self.ttl).map_err(IdempotencyError::invalid)?;
        self.settle(Resolution::Happened { receipt, ttl }).await
    }

    /// It did not happen: the key is free, the next call runs.
    ///
    /// # Errors
    /// As [`happened`](Self::happened).
    pub async fn did_not(self) -> Result<(), IdempotencyError> {
        self.settle(Resolution::DidNot).await
    }

    async fn settle(self, resolution: Resolution) -> Result<(), IdempotencyError> {
        let token = Token::random().map_err(IdempotencyError::store_failed)?;
        let request =
            hapax_core::idempotency::Resolve { name: self.name?, token, version: self.version, resolution };
        match self.keeper.resolve(&request).await {
            Ok(Resolved::Applied) => Ok(()),
            Ok(Resolved::Changed(_)) => Err(IdempotencyError::Changed {}),
            Err(error) => Err(IdempotencyError::store_failed(error)),
        }
    }
}
