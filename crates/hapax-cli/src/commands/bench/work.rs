//! The calls that are timed.

use crate::{exit::Exit, failure::Failure};
use futures_util::{StreamExt, TryStreamExt, stream};
use hapax::{
    Fingerprint, Hapax, Idempotency, Limit, Locks, Quota, RateLimiter,
    core::{
        Key, Name, Namespace, Scope, Span, Token,
        doctor::Examine,
        idempotency::{Complete, Completed, IdempotencyStore, Kind, Receipt, Reserve, Reserved},
        limit::{Check, Decide},
        lock::{Acquire, Acquired, Holder, Write},
    },
};
use serde::Serialize;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// So many keys, or limits, are asked again and again.
pub(super) const REPLAYED: usize = 1000;
/// So many locks each caller takes in turn: a store remembers each for a week.
const LOCKS: usize = 16;
/// Nobody reaches it.
const BILLION: u32 = 1_000_000_000;
/// A receipt, its quotation marks included.
const RECEIPT_BYTES: usize = 100;
const SIDE_BY_SIDE: usize = 64;
const LEASE: Duration = Duration::from_mins(1);
/// Fresh keys are over when the run is, and can be removed.
const TTL_FRESH: Duration = Duration::from_secs(1);
/// Keys to replay outlive their line, and not much more.
const TTL_REPLAYED: Duration = Duration::from_mins(1);
/// So many are removed in one step.
const STEP: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Operation {
    /// A new key each time
    Fresh,
    /// Keys that have run
    Replay,
    #[value(skip)]
    Lock,
    #[value(skip)]
    Limit(Algorithm),
}

/// How limits count that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Algorithm {
    /// A window that starts with its first request
    FixedWindow,
    /// The counts of two windows
    SlidingCounter,
    /// Tokens that come in evenly
    TokenBucket,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Replay => "replay",
            Self::Lock => "lock",
            Self::Limit(Algorithm::FixedWindow) => "fixed-window",
            Self::Limit(Algorithm::SlidingCounter) => "sliding-counter",
            Self::Limit(Algorithm::TokenBucket) => "token-bucket",
        }
    }

    /// What it asks.
    fn limits(self) -> Vec<Limit> {
        let Self::Limit(algorithm) = self else { return Vec::new() };
        let quota = match algorithm {
            Algorithm::FixedWindow => Quota::fixed_window(BILLION, LEASE),
            Algorithm::SlidingCounter => Quota::sliding_counter(BILLION, LEASE),
            Algorithm::TokenBucket => Quota::token_bucket(BILLION, LEASE),
        };
        (0..REPLAYED).map(|n| Limit::new(&format!("tenant:{n}"), quota).policy("bench")).collect()
    }

    /// Whether each call has a name that was never used.
    pub(super) fn is_fresh(self) -> bool {
        self == Self::Fresh
    }

    /// How many effects so many calls run.
    pub(super) fn effects(self, calls: usize) -> u64 {
        match self {
            Self::Fresh | Self::Lock => u64::try_from(calls).unwrap_or(u64::MAX),
            Self::Replay | Self::Limit(_) => 0,
        }
    }
}

/// Makes the calls.
#[derive(Debug)]
pub(super) struct Work {
    /// Without it the store is called directly.
    engine: Option<Idempotency>,
    store: Arc<dyn IdempotencyStore>,
    locks: Locks,
    limiter: RateLimiter,
    limits: Vec<(Operation, Vec<Limit>)>,
    examiner: Option<Arc<dyn Examine>>,
    namespace: Namespace,
    scope: Scope,
    fingerprint: Fingerprint,
    receipt: String,
}

impl Work {
    pub(super) fn new(
        hapax: &Hapax,
        namespace: &str,
        inline: bool,
        operations: &[Operation],
    ) -> Result<Self, Failure> {
        Ok(Self {
            engine: (!inline).then(|| hapax.idempotency("bench").with_lease(LEASE)),
            store: Arc::clone(&hapax.backend().idempotency),
            locks: hapax.locks(),
            limiter: hapax.limits(),
            limits: operations.iter().map(|operation| (*operation, operation.limits())).collect(),
            // The only one that says what its server used.
            examiner: hapax.backend().examiner.clone().filter(|_| hapax.backend().name == "redis"),
            namespace: Namespace::new(namespace)?,
            scope: Scope::new("bench")?,
            fingerprint: Fingerprint::of_bytes(b"bench"),
            receipt: "r".repeat(RECEIPT_BYTES - 2),
        })
    }

    /// A key as random as they come: they fall everywhere in an index.
    pub(super) fn key(&self) -> Result<Name, Failure> {
        let key = Key::new(&format!("key-{}", hex::encode(Token::random()?.as_bytes())))?;
        Ok(Name::new(&self.namespace, &self.scope, &key))
    }

    /// Names for so many calls of so many callers: each has its own.
    pub(super) async fn names(
        &self,
        operation: Operation,
        n: usize,
        conc: usize,
    ) -> Result<Vec<Name>, Failure> {
        let many = match operation {
            Operation::Fresh => n,
            Operation::Replay => return self.done().await,
            Operation::Lock => conc * LOCKS,
            Operation::Limit(_) => REPLAYED,
        };
        (0..many).map(|_| self.key()).collect()
    }

    /// Keys that have run.
    async fn done(&self) -> Result<Vec<Name>, Failure> {
        let names = (0..REPLAYED).map(|_| self.key()).collect::<Result<Vec<_>, _>>()?;
        // Side by side: a store that syncs each commit then syncs once for many.
        let ran = AtomicU64::new(0);
        let calls = names.iter().map(|name| self.call(name, TTL_REPLAYED, &ran));
        stream::iter(calls).buffer_unordered(SIDE_BY_SIDE).try_collect::<()>().await?;
        Ok(names)
    }

    /// The call that is timed. Counts the bodies that ran.
    pub(super) async fn lock(&self, name: &Name, ran: &AtomicU64) -> Result<(), Failure> {
        if self.engine.is_some() {
            let body = |_| async {
                ran.fetch_add(1, Ordering::Relaxed);
            };
            return Ok(self.locks.with_lock(name.key(), body).await?);
        }
        let lease = Span::new(Locks::TTL).map_err(|error| Failure::usage(error.to_string()))?;
        let (store, token) = (self.locks.store()?, Token::random()?);
        let holder = Holder::default();
        let request = Acquire { name: name.clone(), token, lease, holder };
        match store.acquire(&request).await? {
            Acquired::Yours(_) => ran.fetch_add(1, Ordering::Relaxed),
            busy @ Acquired::Busy { .. } => return Err(unexpected("an acquire", &busy)),
        };
        match store.release(name, &token).await? {
            Write::Applied => Ok(()),
            fenced @ Write::Fenced => Err(unexpected("a release", &fenced)),
        }
    }

    /// The call that is timed: of the limit with this number.
    pub(super) async fn check(&self, operation: Operation, number: usize) -> Result<(), Failure> {
        let limits = self.limits.iter().find(|(known, _)| *known == operation);
        let Some(limit) = limits.and_then(|(_, limits)| limits.get(number)) else {
            return Err(unexpected("a check", &number));
        };
        let is_allowed = if self.engine.is_some() {
            self.limiter.check(limit).await?.allowed()
        } else {
            let store = self.limiter.store()?;
            let check = Check::new(limit.key()?.clone(), limit.quota());
            match store.decide_now(&self.namespace, &check, false) {
                Some(answer) => answer?.allowed,
                None => {
                    let checks = vec![check];
                    let request = Decide { namespace: self.namespace.clone(), checks, dry_run: false };
                    store.decide(&request).await?.allowed(&request.checks)
                }
            }
        };
        if is_allowed { Ok(()) } else { Err(unexpected("a check", &"a refusal")) }
    }

    /// The call that is timed. Counts the effects that ran.
    pub(super) async fn fresh(&self, name: &Name, ran: &AtomicU64) -> Result<(), Failure> {
        // A server that removes what is over by itself does so within a second, while the next line is measured.
        let ttl = if self.examiner.is_some() { TTL_REPLAYED } else { TTL_FRESH };
        self.call(name, ttl, ran).await
    }

    /// The call that is timed. Counts the effects that ran.
    pub(super) async fn replay(&self, name: &Name, ran: &AtomicU64) -> Result<(), Failure> {
        self.call(name, TTL_REPLAYED, ran).await
    }

    /// Processor time that the server has used so far, where there is one that says.
    pub(super) async fn server_cpu(&self) -> Option<Duration> {
        self.examiner.as_ref()?.examine().await.ok()?.server_cpu
    }

    /// Whether the store itself answers without a request, which the engine asks first of all.
    pub(super) fn is_known(&self, name: &Name) -> bool {
        self.engine.is_none() && self.store.peek(name).is_some()
    }

    async fn call(&self, name: &Name, ttl: Duration, ran: &AtomicU64) -> Result<(), Failure> {
        match &self.engine {
            Some(engine) => {
                let effect = || async {
                    ran.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Infallible>(self.receipt.clone())
                };
                let Ok(_receipt) = engine.run(name.key(), self.fingerprint, effect).ttl(ttl).await?;
                Ok(())
            }
            None => self.call_store(name, ttl, ran).await,
        }
    }

    async fn call_store(&self, name: &Name, ttl: Duration, ran: &AtomicU64) -> Result<(), Failure> {
        if self.is_known(name) {
            return Ok(());
        }
        let span = |duration| Span::new(duration).map_err(|error| Failure::usage(error.to_string()));
        let (token, fingerprint) = (self.store.token()?, self.fingerprint);
        let reserve = Reserve { name: name.clone(), token, fingerprint, lease: span(LEASE)? };
        if let Reserved::Held(_) = self.store.reserve(&reserve).await? {
            return Ok(());
        }
        ran.fetch_add(1, Ordering::Relaxed);
        let receipt = Receipt::new("bench/1", vec![0x5a; RECEIPT_BYTES]);
        let (name, kind, ttl) = (reserve.name, Kind::Done, span(ttl)?);
        match self.store.complete(&Complete { name, token, fingerprint, kind, receipt, ttl }).await? {
            Completed::Stored => Ok(()),
            other => Err(unexpected("a completion", &other)),
        }
    }

    /// Removes what is over.
    pub(super) async fn clean_up(&self, hapax: &Hapax) -> Result<(), Failure> {
        let _ = hapax.close().within(LEASE).await;
        for limit in self.limits.iter().flat_map(|(_, limits)| limits) {
            self.limiter.reset(limit).await?;
        }
        tokio::time::sleep(TTL_FRESH).await;
        while self.store.prune(STEP).await? == STEP {}
        Ok(())
    }
}

fn unexpected(what: &str, end: &dyn std::fmt::Debug) -> Failure {
    Failure::new(Exit::Bug, "command.internal", format!("{what} ended as {end:?}"))
}
