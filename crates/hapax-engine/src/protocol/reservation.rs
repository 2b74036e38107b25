//! A key that is ours, from the grant to its one end.

use super::{
    call,
    keeper::Keeper,
    lease::{Lease, LeaseView},
    renewer::Renewal,
    terms::Terms,
};
use crate::IdempotencyError;
use hapax_core::{
    BootTime, Fingerprint, Name, StoreError, StoreErrorKind, StoreResult, Timestamp, Token,
    idempotency::{Complete, Completed, Dropped, Kind, Receipt, Record, Reserve, Write},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::watch;

/// A key that is ours, renewed until it ends.
///
/// It ends by [`complete`](Self::complete), by [`release`](Self::release), or by a drop: then the key is kept as
/// unknown when [`began`](Self::began) is set, with the receipt of [`on_abort`](Self::on_abort), and freed otherwise.
#[must_use = "dropping it frees the key, or keeps it as unknown"]
#[derive(Debug)]
pub struct Reservation(Box<Held>);

/// Apart, so that a reservation is a pointer: it goes through many futures, each of which would have room for all of it.
#[derive(Debug)]
struct Held {
    keeper: Keeper,
    name: Name,
    token: Token,
    fingerprint: Fingerprint,
    terms: Terms,
    first_at: Timestamp,
    renewal: Option<Renewal>,
    view: watch::Receiver<LeaseView>,
    began: Arc<AtomicBool>,
    aborted: Option<Receipt>,
    end: End,
}

/// How far the end has come: a drop in the middle of a call goes on from there.
#[derive(Debug)]
enum End {
    Open,
    Completing(Complete),
    Releasing,
    Over,
}

/// Where a result is.
#[must_use]
#[derive(Debug)]
#[non_exhaustive]
pub enum Kept {
    /// In the store, as the record.
    Stored,
    /// In the store, beside a newer owner's reservation.
    Late,
    /// Another owner's result was there first: two effects happened.
    Superseded(Record),
    /// In this process, on its way: [`Keeper::close`] waits for it.
    Deferred(StoreError),
}

impl Reservation {
    pub(super) fn new(
        keeper: Keeper,
        req: &Reserve,
        terms: Terms,
        first_at: Timestamp,
        asked: BootTime,
    ) -> Self {
        let inner = &keeper.inner;
        let (renewal, view) = inner.renewer.keep(&inner.runner, (req.name.clone(), req.token), terms, asked);
        Self(Box::new(Held {
            name: req.name.clone(),
            token: req.token,
            fingerprint: req.fingerprint,
            terms,
            first_at,
            renewal: Some(renewal),
            view,
            began: Arc::default(),
            aborted: None,
            end: End::Open,
            keeper,
        }))
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// When the first reservation of this life of the key was made.
    pub fn first_at(&self) -> Timestamp {
        self.0.first_at
    }

    /// Its durations.
    pub fn terms(&self) -> &Terms {
        &self.0.terms
    }

    /// For the effect.
    pub fn lease(&self) -> Lease {
        Lease::new(&self.0.name, Arc::clone(self.0.keeper.clock()), self.0.view.clone())
    }

    /// Set it when the effect may have begun to have consequences. A drop looks at it.
    pub fn began(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.began)
    }

    /// The receipt that a drop keeps when the effect had begun. Without it, an empty one.
    pub fn on_abort(&mut self, receipt: Receipt) {
        self.0.aborted = Some(receipt);
    }

    /// To be asked right before the effect starts: is the lease held, and enough of it left? One extension is tried;
    /// if half the lease is still not there, the key is released and the call ends with `idempotency.store_failed`.
    pub async fn ready(mut self) -> Result<Self, IdempotencyError> {
        if self.has_half() {
            return Ok(self);
        }
        if let Some(renewal) = &self.0.renewal {
            let limit = self.0.keeper.call_limit(&self.0.terms);
            Box::pin(self.0.keeper.inner.renewer.extend_now(renewal, limit)).await;
        }
        if self.has_half() {
            return Ok(self);
        }
        Box::pin(self.release_in_place()).await;
        let reason = "the key was granted too late: less than half its lease was left";
        Err(IdempotencyError::store_failed(StoreError::new(
            StoreErrorKind::Timeout,
            "hapax",
            "reserve",
            reason,
        )))
    }

    /// Keeps the result. Never fails: what the store refuses is kept here and retried.
    ///
    /// # Cancel safety
    /// Once called, the result is stored whether or not the future is polled to its end.
    pub async fn complete(mut self, kind: Kind, receipt: Receipt) -> Kept {
        let complete = self.ended(kind, receipt);
        let limit = self.0.keeper.call_limit(&self.0.terms);
        let answer = call::one(limit, "complete", self.0.keeper.inner.store().complete(&complete)).await;
        let kept = self.completed(answer);
        warn_not_stored(std::iter::once((&complete.name, &kept)));
        kept
    }

    /// Keeps the results of a batch that ended together, in one step where the store can. All belong to one keeper.
    ///
    /// # Cancel safety
    /// As [`complete`](Self::complete).
    pub async fn complete_many(batch: Vec<(Self, Kind, Receipt)>) -> Vec<Kept> {
        let end = |(mut reservation, kind, receipt): (Self, Kind, Receipt)| {
            let complete = reservation.ended(kind, receipt);
            (reservation, complete)
        };
        let (reservations, requests): (Vec<_>, Vec<_>) = batch.into_iter().map(end).unzip();
        let Some(first) = reservations.first() else { return Vec::new() };
        let (keeper, limit) = (first.0.keeper.clone(), first.0.keeper.call_limit(&first.0.terms));
        let answers =
            call::many(limit, "complete", requests.len(), keeper.inner.store().complete_many(&requests))
                .await;
        let kept: Vec<_> = reservations
            .into_iter()
            .zip(answers)
            .map(|(reservation, answer)| reservation.completed(answer))
            .collect();
        warn_not_stored(requests.iter().map(|request| &request.name).zip(&kept));
        kept
    }

    /// Ends it in a step of the caller's own, which carries out the completion given: [`ended_by`](Self::ended_by) says
    /// what came of it. Dropped before, the completion is carried out in the background.
    pub(crate) fn ending(mut self, kind: Kind, receipt: Receipt) -> (Self, Complete) {
        let complete = self.ended(kind, receipt);
        (self, complete)
    }

    /// What became of the completion of [`ending`](Self::ending).
    pub(crate) fn ended_by(self, answer: StoreResult<Completed>) -> Kept {
        let name = self.0.name.clone();
        let kept = self.completed(answer);
        warn_not_stored(std::iter::once((&name, &kept)));
        kept
    }

    /// Carries out the completion of [`ending`](Self::ending) by itself.
    pub(crate) async fn end_now(self, complete: Complete) -> Kept {
        let limit = self.0.keeper.call_limit(&self.0.terms);
        let answer = call::one(limit, "complete", self.0.keeper.inner.store().complete(&complete)).await;
        self.ended_by(answer)
    }

    /// Keeps a success by a step that the caller takes, as a part of a transaction. Renewal stops before: it would wait for
    /// that transaction. What does not end as `Stored` frees the key, where it is still held.
    pub(crate) async fn complete_by<F>(mut self, receipt: Receipt, step: F) -> Result<(), IdempotencyError>
    where
        F: AsyncFnOnce(&Complete) -> StoreResult<Completed>,
    {
        self.0.renewal = None;
        let complete = self.outcome(Kind::Done, receipt);
        match step(&complete).await.map_err(IdempotencyError::store_failed)? {
            Completed::Stored => {
                self.0.end = End::Over;
                Ok(())
            }
            other => Err(self.lost("complete", &other)),
        }
    }

    /// Frees the key by a step that the caller takes, as a part of a transaction.
    pub(crate) async fn release_by<F>(mut self, step: F) -> Result<(), IdempotencyError>
    where
        F: AsyncFnOnce(&Name, &Token) -> StoreResult<Write>,
    {
        self.0.renewal = None;
        match step(&self.0.name, &self.0.token).await.map_err(IdempotencyError::store_failed)? {
            Write::Applied => {
                self.0.end = End::Over;
                Ok(())
            }
            other @ Write::Fenced => Err(self.lost("release", &other)),
        }
    }

    fn lost(&self, op: &'static str, answer: &dyn std::fmt::Debug) -> IdempotencyError {
        tracing::warn!(key = ?self.0.name, ?answer, "a key was lost before its transaction was to commit");
        let reason = "the key is another call's by now: roll back, and call again";
        IdempotencyError::store_failed(StoreError::new(StoreErrorKind::Timeout, "hapax", op, reason))
    }

    /// Frees the key. What the store refuses is retried until the lease has passed.
    ///
    /// # Cancel safety
    /// Once called, the key is freed whether or not the future is polled to its end.
    pub async fn release(mut self) {
        self.release_in_place().await;
    }

    /// After [`Keeper::retake`]: forgets the unknown result, so that the effect may run under this reservation.
    pub async fn drop_unknown(&self) -> StoreResult<Dropped> {
        let limit = self.0.keeper.call_limit(&self.0.terms);
        let step = self.0.keeper.inner.store().drop_unknown(&self.0.name, &self.0.token);
        call::one(limit, "drop_unknown", step).await
    }

    fn has_half(&self) -> bool {
        let view = *self.0.view.borrow();
        let rest = view.deadline.since(self.0.keeper.inner.clock.boot());
        view.lost.is_none() && rest >= self.0.terms.lease.get() / 2
    }

    /// From here on a drop goes on with the completion.
    fn ended(&mut self, kind: Kind, receipt: Receipt) -> Complete {
        let complete = self.outcome(kind, receipt);
        self.0.end = End::Completing(complete.clone());
        // The lease is kept until the result is: the first attempt may fail. Its loss is no news from here on.
        if let Some(renewal) = &self.0.renewal {
            renewal.effect_ended();
        }
        complete
    }

    fn outcome(&self, kind: Kind, receipt: Receipt) -> Complete {
        let ttl = match kind {
            Kind::Done => self.0.terms.ttl,
            Kind::Unknown => self.0.terms.unknown_ttl,
        };
        Complete {
            name: self.0.name.clone(),
            token: self.0.token,
            fingerprint: self.0.fingerprint,
            kind,
            receipt,
            ttl,
        }
    }

    fn completed(mut self, answer: StoreResult<Completed>) -> Kept {
        match answer {
            Ok(answer) => {
                self.0.end = End::Over;
                report(&self.0.name, answer)
            }
            // The drop hands it over.
            Err(error) => Kept::Deferred(error),
        }
    }

    async fn release_in_place(&mut self) {
        self.0.end = End::Releasing;
        // A token is never used again once its release is under way.
        self.0.renewal = None;
        let limit = self.0.keeper.call_limit(&self.0.terms);
        let step = self.0.keeper.inner.store().release(&self.0.name, &self.0.token);
        match call::one(limit, "release", step).await {
            Ok(Write::Applied | Write::Fenced) => self.0.end = End::Over,
            Err(error) => {
                tracing::debug!(key = ?self.0.name, %error, "a key could not be freed yet: it is retried");
            }
        }
    }
}

/// One warning for a call, however many receipts it was for.
fn warn_not_stored<'a>(kept: impl Iterator<Item = (&'a Name, &'a Kept)>) {
    let mut deferred = kept.filter_map(|(name, kept)| match kept {
        Kept::Deferred(error) => Some((name, error)),
        _ => None,
    });
    if let Some((name, error)) = deferred.next() {
        let (receipts, code) = (1 + deferred.count(), "idempotency.complete_failed");
        tracing::warn!(key = ?name, receipts, code, %error, "receipts could not be stored yet: they are retried");
    }
}

/// Says what a completion met.
pub(super) fn report(name: &Name, answer: Completed) -> Kept {
    match answer {
        Completed::Stored | Completed::AlreadyDone => Kept::Stored,
        Completed::StoredLate => {
            tracing::warn!(
                key = ?name, code = "idempotency.lease_lost",
                "a result came after its lease; it is kept beside the newer owner's reservation"
            );
            Kept::Late
        }
        Completed::Superseded(record) => {
            metrics::counter!("hapax_duplicate_effects_total").increment(1);
            tracing::warn!(key = ?name, code = "idempotency.duplicate_effect", "two effects happened under one key");
            Kept::Superseded(record)
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let complete = match std::mem::replace(&mut self.0.end, End::Over) {
            End::Over => return,
            End::Completing(complete) => complete,
            End::Open if self.0.began.load(Ordering::Acquire) => {
                tracing::warn!(key = ?self.0.name, code = "idempotency.aborted", "dropped after its effect began");
                let receipt =
                    self.0.aborted.take().unwrap_or_else(|| Receipt::new("hapax.aborted/1", Vec::new()));
                self.ended(Kind::Unknown, receipt)
            }
            End::Open | End::Releasing => {
                self.0.renewal = None;
                let (name, lease) = (self.0.name.clone(), self.0.terms.lease.get());
                return self.0.keeper.inner.background.release(&self.0.keeper, name, self.0.token, lease);
            }
        };
        let renewal = self.0.renewal.take();
        self.0.keeper.inner.background.complete(&self.0.keeper, complete, renewal, self.0.first_at);
    }
}
