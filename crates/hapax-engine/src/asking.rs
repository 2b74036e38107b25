//! A resolver's turn: a key of unknown outcome is held while its owner is asked what became of the effect.

use crate::{
    Answer, Codec, IdempotencyError, Keeper, Replay, Verdict,
    effect::encode,
    protocol::{Kept, Reservation, Terms},
    run::Ask,
};
use hapax_core::{
    Fingerprint, Name, Timestamp,
    idempotency::{Dropped, Kind},
};

/// What asking came to.
pub(crate) enum Asked<T> {
    Happened(Answer<T>),
    /// It did not happen: the effect runs under this reservation.
    Run(Reservation),
    CantTell,
    /// Somebody else settled it meanwhile: look again.
    Changed,
}

/// Asks about the unknown outcome of `since`. Until there is a verdict the unknown record lies beside the reservation,
/// and comes back when that ends in any way.
pub(crate) async fn ask<T: Send, C: Codec<T>>(
    keeper: &Keeper,
    codec: &C,
    (name, fingerprint): (&Name, Fingerprint),
    terms: &Terms,
    since: Timestamp,
    ask: Ask<'_, T>,
) -> Result<Asked<T>, IdempotencyError> {
    let Some(reservation) = keeper.retake(name, fingerprint, terms).await? else { return Ok(Asked::Changed) };
    let verdict = tokio::time::timeout(terms.lease.get() / 2, ask()).await;
    match verdict.unwrap_or(Verdict::CantTell) {
        Verdict::Happened(value) => {
            let expires_at = keeper.clock().now().after(terms.ttl.get());
            let replay = Replay { first_at: reservation.first_at(), completed_at: since, expires_at };
            let _: Kept = reservation.complete(Kind::Done, encode(codec, &value)).await;
            Ok(Asked::Happened(Answer::new(value, Some(replay))))
        }
        Verdict::DidNot => match reservation.drop_unknown().await {
            Ok(Dropped::Dropped) => Ok(Asked::Run(reservation)),
            // A success lies there by now, or the lease is gone: the record says what to do.
            Ok(Dropped::Refused | Dropped::Fenced) => {
                reservation.release().await;
                Ok(Asked::Changed)
            }
            Err(error) => {
                reservation.release().await;
                Err(IdempotencyError::store_failed(error))
            }
        },
        Verdict::CantTell => {
            reservation.release().await;
            Ok(Asked::CantTell)
        }
    }
}
