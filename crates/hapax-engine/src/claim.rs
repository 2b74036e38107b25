//! A key held by hand, for a result that is kept by another way than the store's own step: in a transaction of the
//! caller's, above all.

use crate::{
    Codec, Idempotency, IdempotencyError, Json,
    effect::{encode, replay},
    protocol::{Begun, Reservation},
};
use hapax_core::{
    IntoFingerprint, IntoKey, Name, StoreResult, Token,
    idempotency::{Complete, Completed, Kind, RecordState, Write},
};
use std::{fmt, marker::PhantomData};

/// Answer to a claim.
#[must_use = "a key that is held is freed when it is dropped"]
#[derive(Debug)]
pub enum Claim<T, C = Json> {
    /// The key is ours.
    New(Claimed<T, C>),
    /// An earlier call answered this.
    Replayed(T),
}

/// A key that is ours. Nothing has happened under it yet: dropped, it is freed.
#[must_use = "dropping it frees its key"]
pub struct Claimed<T, C = Json> {
    /// In a box, so that an answer stays small.
    reservation: Box<Reservation>,
    codec: C,
    value: PhantomData<fn(&T)>,
}

impl<T, C> fmt::Debug for Claimed<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed").field("name", self.reservation.name()).finish_non_exhaustive()
    }
}

impl<C: Clone + Send + Sync + 'static> Idempotency<C> {
    /// Holds the key and renews it, or answers what an earlier call under it answered. For results that are kept by the
    /// caller: see [`Claimed::complete_by`].
    ///
    /// # Errors
    /// Those of [`run`](Self::run). An earlier outcome that is unknown is one.
    ///
    /// # Cancel safety
    /// A key that was granted meanwhile is freed.
    pub async fn claim<T>(
        &self,
        key: impl IntoKey,
        fingerprint: impl IntoFingerprint,
    ) -> Result<Claim<T, C>, IdempotencyError>
    where
        C: Codec<T>,
    {
        let name = self.name(key)?;
        let fingerprint = fingerprint.into_fingerprint().map_err(IdempotencyError::invalid)?;
        let terms = self.defaults.terms()?;
        match self.keeper.reserve(&name, fingerprint, &terms).await? {
            Begun::Mine(reservation) => {
                let reservation = Box::new(reservation.ready().await?);
                Ok(Claim::New(Claimed { reservation, codec: self.codec.clone(), value: PhantomData }))
            }
            Begun::Settled(record) => match &record.state {
                RecordState::Settled { kind: Kind::Unknown, completed_at, .. } => {
                    Err(IdempotencyError::unknown(*completed_at, true, None))
                }
                _ => Ok(Claim::Replayed(replay(&self.codec, &record)?.value)),
            },
        }
    }
}

impl<T, C: Codec<T>> Claimed<T, C> {
    /// Keeps `value` by `step`, which carries out the completion that it is given: as a part of a transaction that is
    /// committed afterwards. Renewal stops before: from here on the lease is what is left of it.
    ///
    /// # Errors
    /// Anything but [`Completed::Stored`] is `idempotency.store_failed`: the transaction must not commit, because the
    /// key is another call's by now. The key is then freed in the background, where it is still ours.
    ///
    /// # Cancel safety
    /// Dropped before its end, the transaction may hold the receipt or not: roll back. The key is freed in the
    /// background.
    pub async fn complete_by<F>(self, value: &T, step: F) -> Result<(), IdempotencyError>
    where
        F: AsyncFnOnce(&Complete) -> StoreResult<Completed>,
    {
        self.reservation.complete_by(encode(&self.codec, value), step).await
    }

    /// Frees the key by `step`, as a part of a transaction that is committed afterwards.
    ///
    /// # Errors
    /// Anything but [`Write::Applied`] is `idempotency.store_failed`: the transaction must not commit.
    ///
    /// # Cancel safety
    /// As [`complete_by`](Self::complete_by).
    pub async fn release_by<F>(self, step: F) -> Result<(), IdempotencyError>
    where
        F: AsyncFnOnce(&Name, &Token) -> StoreResult<Write>,
    {
        self.reservation.release_by(step).await
    }

    /// Frees the key. What the store refuses is retried in the background until the lease has passed.
    pub async fn release(self) {
        self.reservation.release().await;
    }
}
