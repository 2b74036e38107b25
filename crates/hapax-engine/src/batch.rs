//! Many calls at once: keys reserved ahead in batches, effects run side by side, answers in order.

use crate::{
    Codec, EffectError, IdempotencyError, Keeper,
    effect::{perform, replay},
    idempotency::Defaults,
    protocol::{Begun, Terms},
};
use futures_util::{FutureExt, StreamExt, stream};
use hapax_core::{
    BoxFuture, Fingerprint, Name,
    idempotency::{Kind, RecordState},
};
use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
    time::Duration,
};

/// So many keys are reserved in one step, and so many at most are held beyond those that run.
const CHUNK: usize = 64;

pub(crate) struct Item<I> {
    pub(crate) call: Result<(Name, Fingerprint), IdempotencyError>,
    pub(crate) item: I,
}

type Outcome<T, E> = Result<Result<T, E>, IdempotencyError>;
type Start<'a, T, E> = Box<dyn FnOnce(Defaults, usize) -> BoxFuture<'a, Vec<Outcome<T, E>>> + Send + 'a>;

/// A batch that has not started.
#[must_use = "the effects do not run until this is awaited"]
pub struct RunMany<'a, T, E> {
    start: Start<'a, T, E>,
    settings: Defaults,
    concurrency: usize,
}

impl<T, E> fmt::Debug for RunMany<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunMany").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}

impl<T, E> RunMany<'_, T, E> {
    /// How many effects run at a time (8).
    pub fn concurrency(mut self, n: usize) -> Self {
        self.concurrency = n.max(1);
        self
    }

    /// The lease of each key, renewed until its effect has ended.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long results answer.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }
}

impl<'a, T: Send + 'a, E: Send + 'a> IntoFuture for RunMany<'a, T, E> {
    type Output = Vec<Outcome<T, E>>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        (self.start)(self.settings, self.concurrency)
    }
}

pub(crate) fn run_many<'a, I, F, Fut, T, E, C>(
    keeper: Keeper,
    codec: C,
    settings: Defaults,
    items: Vec<Item<I>>,
    effect: F,
) -> RunMany<'a, T, E::Error>
where
    I: Send + 'a,
    F: Fn(I) -> Fut + Send + Sync + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Clone + Send + 'a,
    E: EffectError + 'a,
    E::Error: 'a,
    C: Codec<T>,
{
    let start: Start<'a, T, E::Error> = Box::new(move |settings, concurrency| {
        Box::pin(async move {
            let Plan { firsts, copies, mut outcomes } = plan(items);
            let terms = match Terms::new(settings.lease, settings.ttl, settings.unknown_ttl) {
                Ok(terms) => terms.ceiling(Some(settings.ceiling)),
                Err(error) => return refused(&error, firsts.len() + copies.len() + outcomes.len()),
            };
            // Owned by each future: with borrows, the batch could not be proved to be `Send`.
            let (reserving, effect) = (keeper.clone(), Arc::new(effect));
            let ended: Vec<_> = stream::iter(firsts)
                .chunks(CHUNK)
                .then(move |chunk| reserve(reserving.clone(), chunk, terms))
                .flat_map(stream::iter)
                .map(move |(first, begun)| {
                    let one = one(keeper.clone(), codec.clone(), Arc::clone(&effect), first, begun);
                    // An effect that panics cuts no other effect off: the panic goes on when all have ended.
                    AssertUnwindSafe(one).catch_unwind()
                })
                .buffer_unordered(concurrency)
                .collect()
                .await;
            outcomes
                .extend(ended.into_iter().map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic))));
            for (at, first) in copies {
                if let Some(copy) = outcomes.get(&first).map(copy_of) {
                    outcomes.insert(at, copy);
                }
            }
            outcomes.into_values().collect()
        })
    });
    RunMany { start, settings, concurrency: 8 }
}

/// The first item with its key.
struct First<I> {
    at: usize,
    call: (Name, Fingerprint),
    item: I,
}

struct Plan<I, T, E> {
    firsts: Vec<First<I>>,
    /// The place of a copy, and that of the first it is a copy of.
    copies: Vec<(usize, usize)>,
    /// By place; here those that are known already.
    outcomes: BTreeMap<usize, Outcome<T, E>>,
}

/// Tells first items from copies. A copy with another fingerprint is a reuse of the key.
fn plan<I, T, E>(items: Vec<Item<I>>) -> Plan<I, T, E> {
    let mut plan = Plan { firsts: Vec::new(), copies: Vec::new(), outcomes: BTreeMap::new() };
    let mut seen: HashMap<Name, (Fingerprint, usize)> = HashMap::new();
    for (at, Item { call, item }) in items.into_iter().enumerate() {
        match call {
            Err(error) => drop(plan.outcomes.insert(at, Err(error))),
            Ok(call) => match seen.get(&call.0) {
                None => {
                    seen.insert(call.0.clone(), (call.1, at));
                    plan.firsts.push(First { at, call, item });
                }
                Some((fingerprint, first)) if *fingerprint == call.1 => plan.copies.push((at, *first)),
                Some(_) => drop(plan.outcomes.insert(at, Err(IdempotencyError::key_reused()))),
            },
        }
    }
    plan
}

/// What the first came to, as an item with the same key hears it.
fn copy_of<T: Clone, E>(first: &Outcome<T, E>) -> Outcome<T, E> {
    Err(match first {
        Ok(Ok(value)) => return Ok(Ok(value.clone())),
        Err(IdempotencyError::Unknown { since, .. }) => IdempotencyError::unknown(*since, true, None),
        Err(IdempotencyError::InFlight { retry_after }) => IdempotencyError::in_flight(*retry_after),
        Err(IdempotencyError::KeyReused {}) => IdempotencyError::key_reused(),
        Err(IdempotencyError::Unreadable { source }) => IdempotencyError::unreadable(source.to_string()),
        Ok(Err(_)) | Err(_) => IdempotencyError::CopyFailed {},
    })
}

/// The same refusal for every item: the settings are wrong.
fn refused<T, E>(error: &IdempotencyError, items: usize) -> Vec<Outcome<T, E>> {
    let why = error.source().map(ToString::to_string).unwrap_or_default();
    (0..items).map(|_| Err(IdempotencyError::invalid(why.clone()))).collect()
}

type Answered<I> = (First<I>, Result<Begun, IdempotencyError>);

async fn reserve<I>(keeper: Keeper, chunk: Vec<First<I>>, terms: Terms) -> Vec<Answered<I>> {
    let calls: Vec<_> = chunk.iter().map(|first| first.call.clone()).collect();
    let answers = keeper.reserve_many(&calls, &terms).await;
    chunk.into_iter().zip(answers).collect()
}

async fn one<I, F, Fut, T, E, C>(
    keeper: Keeper,
    codec: C,
    effect: Arc<F>,
    First { at, item, .. }: First<I>,
    begun: Result<Begun, IdempotencyError>,
) -> (usize, Outcome<T, E::Error>)
where
    I: Send,
    F: Fn(I) -> Fut + Send + Sync,
    Fut: Future<Output = Result<T, E>> + Send,
    T: Send,
    E: EffectError,
    C: Codec<T>,
{
    let outcome = async {
        let record = match begun? {
            Begun::Mine(reservation) => {
                let reservation = reservation.ready().await?;
                return perform(reservation, &keeper, &codec, |_| effect(item), None, None).await;
            }
            Begun::Settled(record) => record,
        };
        match &record.state {
            RecordState::Settled { kind: Kind::Unknown, completed_at, .. } => {
                Err(IdempotencyError::unknown(*completed_at, true, None))
            }
            _ => replay(&codec, &record).map(Ok),
        }
    };
    (at, outcome.await.map(|ended| ended.map(|answer| answer.value)))
}
