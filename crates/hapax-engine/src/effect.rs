//! One call from first to last: reserve, run the effect, keep its outcome.

use crate::{
    Answer, Class, Codec, EffectError, IdempotencyError, Keeper, Lease, Loss, Replay,
    asking::{self, Asked},
    detached::Start,
    idempotency::Defaults,
    protocol::{Begun, Kept, Reservation, Terms, UNENCODABLE, unencodable},
    run::{Out, Settings},
};
use futures_util::FutureExt;
use hapax_core::{
    BoxError, Fingerprint, Name, Timestamp,
    fingerprint::Agreement,
    idempotency::{Kind, Receipt, Record, RecordState},
};
use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Codec name of a receipt that says why an outcome is unknown: the code, as text.
const UNKNOWN: &str = "hapax.unknown/1";

/// What a call knows before its settings.
pub(crate) struct Call<C> {
    pub(crate) keeper: Keeper,
    pub(crate) codec: C,
    pub(crate) name: Result<Name, IdempotencyError>,
    pub(crate) fingerprint: Result<Fingerprint, IdempotencyError>,
    pub(crate) defaults: Defaults,
    /// A first look found nothing: it need not be repeated.
    pub(crate) looked: bool,
}

impl<C> Call<C> {
    fn terms<T>(&self, settings: &Settings<'_, T>) -> Result<Terms, IdempotencyError> {
        let terms = Terms::new(
            settings.lease.unwrap_or(self.defaults.lease),
            settings.ttl.unwrap_or(self.defaults.ttl),
            settings.unknown_ttl.unwrap_or(self.defaults.unknown_ttl),
        )?;
        Ok(terms.wait(settings.wait).ceiling(Some(self.defaults.ceiling)))
    }
}

/// The result of an earlier run, where the store sees at once that there is one: most replays end here. Anything else
/// is left to [`run`].
pub(crate) fn glance<T, C: Codec<T>>(
    call: &mut Call<C>,
    settings: &Settings<'_, T>,
) -> Option<Result<Answer<T>, IdempotencyError>> {
    call.terms(settings).ok()?;
    let (Ok(name), Ok(fingerprint)) = (&call.name, &call.fingerprint) else { return None };
    let Some(record) = call.keeper.glance(name) else {
        call.looked = true;
        return None;
    };
    let is_done = matches!(record.state, RecordState::Settled { kind: Kind::Done, .. });
    let is_same = fingerprint.agrees_with(&record.fingerprint) == Agreement::Same;
    (is_done && is_same).then(|| replay(&call.codec, &record))
}

pub(crate) async fn run<T, E, C, F, Fut>(
    call: Call<C>,
    effect: F,
    settings: Settings<'_, T>,
) -> Out<T, E::Error>
where
    F: FnOnce(Lease) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
    T: Send,
    E: EffectError,
    C: Codec<T>,
{
    let terms = call.terms(&settings);
    let Call { keeper, codec, name, fingerprint, mut looked, .. } = call;
    let (name, fingerprint, terms) = (name?, fingerprint?, terms?);
    let Settings { timeout, open, mut ask, start, .. } = settings;
    // What is rare is boxed: the future of the usual call is moved about, and stays small.
    let reservation = loop {
        let begun = if std::mem::take(&mut looked) {
            keeper.reserve_unseen(&name, fingerprint, &terms).await
        } else {
            keeper.reserve(&name, fingerprint, &terms).await
        };
        let record = match begun {
            Ok(Begun::Mine(reservation)) => break reservation,
            Ok(Begun::Settled(record)) => record,
            Err(IdempotencyError::StoreFailed { source }) if open => {
                tracing::warn!(key = ?name, error = %source, "running without deduplication, as asked: the store is down");
                return Box::pin(unguarded(&keeper, &name, effect, timeout, start)).await;
            }
            Err(error) => return Err(error),
        };
        let since = match &record.state {
            RecordState::Settled { kind: Kind::Unknown, completed_at, .. } => *completed_at,
            _ => return replay(&codec, &record).map(Ok),
        };
        let Some(asked) = ask.take() else {
            tracing::debug!(key = ?name, code = "idempotency.unknown", "answered from an earlier, unknown outcome");
            return Err(IdempotencyError::unknown(since, true, None));
        };
        let asking = asking::ask(&keeper, &codec, (&name, fingerprint), &terms, since, asked);
        match Box::pin(asking).await? {
            Asked::Happened(answer) => return Ok(Ok(answer)),
            Asked::Run(reservation) => break reservation,
            Asked::CantTell => return Err(IdempotencyError::unknown(since, true, None)),
            Asked::Changed => {}
        }
    };
    let reservation = reservation.ready().await?;
    perform(reservation, &keeper, &codec, effect, timeout, start).await
}

/// Gives back the result of an earlier run.
pub(crate) fn replay<T, C: Codec<T>>(codec: &C, record: &Record) -> Result<Answer<T>, IdempotencyError> {
    let RecordState::Settled { receipt, .. } = &record.state else {
        return Err(IdempotencyError::unreadable("the record has no result"));
    };
    if receipt.codec != C::NAME {
        let why = if receipt.codec == UNENCODABLE {
            String::from_utf8_lossy(&receipt.bytes).into_owned()
        } else {
            format!("it was written by the codec `{}`, and this call reads `{}`", receipt.codec, C::NAME)
        };
        return Err(IdempotencyError::unreadable(why));
    }
    let value = codec.decode(&receipt.bytes).map_err(IdempotencyError::unreadable)?;
    tracing::debug!("answered from an earlier run");
    metrics::counter!("hapax_replays_total").increment(1);
    Ok(Answer::new(value, Replay::of(record)))
}

/// Runs the effect under its reservation and keeps what became of it.
pub(crate) async fn perform<T, E, C, F, Fut>(
    mut reservation: Reservation,
    keeper: &Keeper,
    codec: &C,
    effect: F,
    timeout: Option<Duration>,
    start: Option<Arc<Start>>,
) -> Out<T, E::Error>
where
    F: FnOnce(Lease) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
    T: Send,
    E: EffectError,
    C: Codec<T>,
{
    let lease = reservation.lease();
    reservation.on_abort(unknown("idempotency.aborted"));
    let (began, clock) = (reservation.began(), keeper.clock());
    let effect = effect(lease.clone());
    let effect = AssertUnwindSafe(async {
        if let Some(start) = &start {
            start.begin(clock.now()).await;
        }
        began.store(true, Ordering::Release);
        // Split where it arises: the error itself need not be `Send`.
        effect.await.map_err(EffectError::split)
    })
    .catch_unwind();
    let ended = match timeout {
        Some(limit) => tokio::time::timeout(limit, effect).await.ok(),
        None => Some(effect.await),
    };
    match ended {
        Some(Ok(Ok(value))) => {
            let (lost, receipt) = (lease.loss(), encode(codec, &value));
            let kept = reservation.complete(Kind::Done, receipt).await;
            metrics::counter!("hapax_effects_total", "outcome" => "done").increment(1);
            // The store may know of a loss that the lease has not heard of.
            let taken = matches!(kept, Kept::Late | Kept::Superseded(_)).then_some(Loss::Fenced);
            Ok(Ok(Answer { lost: lost.or(taken), ..Answer::new(value, None) }))
        }
        Some(Ok(Err((error, Class::Failed)))) => {
            Box::pin(reservation.release()).await;
            metrics::counter!("hapax_effects_total", "outcome" => "failed").increment(1);
            Ok(Err(error))
        }
        Some(Ok(Err((error, Class::Unknown)))) => {
            let since = Box::pin(keep_unknown(reservation, keeper, "idempotency.unknown")).await;
            Err(IdempotencyError::unknown(since, false, Some(error.into())))
        }
        Some(Err(panic)) => {
            Box::pin(keep_unknown(reservation, keeper, "idempotency.aborted")).await;
            resume_unwind(panic)
        }
        None => {
            let since = Box::pin(keep_unknown(reservation, keeper, "idempotency.timed_out")).await;
            let source: BoxError = "the effect did not end within its time-out".into();
            Err(IdempotencyError::unknown(since, false, Some(source)))
        }
    }
}

async fn keep_unknown(reservation: Reservation, keeper: &Keeper, code: &'static str) -> Timestamp {
    let since = keeper.clock().now();
    tracing::warn!(key = ?reservation.name(), code, "an outcome is unknown: the key is kept");
    let _: Kept = reservation.complete(Kind::Unknown, unknown(code)).await;
    metrics::counter!("hapax_effects_total", "outcome" => "unknown").increment(1);
    since
}

fn unknown(code: &'static str) -> Receipt {
    Receipt::new(UNKNOWN, code.as_bytes())
}

pub(crate) fn encode<T, C: Codec<T>>(codec: &C, value: &T) -> Receipt {
    match codec.encode(value) {
        Ok(bytes) => Receipt::new(C::NAME, bytes),
        Err(error) => {
            tracing::warn!(code = "idempotency.unreadable", %error, "a result could not be encoded: replays say so");
            unencodable(&format!("the result could not be encoded: {error}"))
        }
    }
}

/// No reservation, no receipt: the caller chose to go on.
async fn unguarded<T, E, F, Fut>(
    keeper: &Keeper,
    name: &Name,
    effect: F,
    timeout: Option<Duration>,
    start: Option<Arc<Start>>,
) -> Out<T, E::Error>
where
    F: FnOnce(Lease) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
    E: EffectError,
{
    let effect = effect(Lease::unguarded(name, Arc::clone(keeper.clock())));
    let effect = async {
        if let Some(start) = &start {
            start.begin(keeper.clock().now()).await;
        }
        effect.await.map_err(EffectError::split)
    };
    let unknown = |source| IdempotencyError::unknown(keeper.clock().now(), false, Some(source));
    let ended = match timeout {
        Some(limit) => match tokio::time::timeout(limit, effect).await {
            Ok(ended) => ended,
            Err(elapsed) => return Err(unknown(elapsed.into())),
        },
        None => effect.await,
    };
    match ended {
        Ok(value) => Ok(Ok(Answer::new(value, None))),
        Err((error, Class::Failed)) => Ok(Err(error)),
        Err((error, Class::Unknown)) => Err(unknown(error.into())),
    }
}
