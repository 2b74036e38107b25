//! A decorated stub on a store that a test can break and a clock that it can move.

use crate::support::plain;
use hapax_conformance::faulty::Faulty;
use hapax_core::{
    Backend, Fingerprint, Key, ManualClock, Name, Namespace, Scope, Span, Token,
    idempotency::{IdempotencyStore, Record, Reserve, Reserved},
    memory::MemoryStore,
};
use hapax_engine::{Idempotency, Keeper};
use hapax_mail::{IdempotencyTransport, Message, Receipt, Stub};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

pub(crate) const LEASE: Duration = Duration::from_mins(10);
pub(crate) const JUST_UNDER_A_LEASE: Duration = Duration::from_millis(10 * 60 * 1000 - 1);
pub(crate) const DAY: Duration = Duration::from_hours(24);
pub(crate) const JUST_UNDER_A_DAY: Duration = Duration::from_millis(24 * 60 * 60 * 1000 - 1);

pub(crate) type Store = Arc<Faulty<MemoryStore>>;

pub(crate) struct Kit {
    pub(crate) clock: ManualClock,
    pub(crate) store: Store,
    pub(crate) keeper: Keeper,
    pub(crate) idem: Idempotency,
    pub(crate) stub: Stub,
    pub(crate) transport: IdempotencyTransport<Stub>,
}

impl Kit {
    pub(crate) fn new() -> Self {
        Self::with(Stub::new())
    }

    pub(crate) fn with(stub: Stub) -> Self {
        Self::bounded(stub, MemoryStore::MAX_ENTRIES)
    }

    pub(crate) fn bounded(stub: Stub, max_entries: usize) -> Self {
        let clock = ManualClock::new();
        let memory = MemoryStore::new(Arc::new(clock.clone())).with_max_entries(max_entries);
        let store: Store = Arc::new(Faulty::new(memory));
        let (keeper, idem) = handle(Arc::clone(&store) as Arc<dyn IdempotencyStore>, &clock);
        let transport = IdempotencyTransport::new(stub.clone()).with_idempotency(&idem);
        Self { clock, store, keeper, idem, stub, transport }
    }

    /// The name of a key of this kit's transport.
    pub(crate) fn name(&self, key: &str) -> Name {
        name(&format!("mail:{}", hapax_mail::Transport::id(&self.stub)), key)
    }

    pub(crate) async fn record(&self, key: &str) -> Option<Record> {
        self.store.get_ref().read(&self.name(key)).await.unwrap()
    }

    /// The key is free: nothing is under it, and nothing is on its way.
    pub(crate) async fn is_free(&self, key: &str) -> bool {
        assert!(self.keeper.close(Duration::from_secs(5)).await.is_clean());
        self.record(key).await.is_none()
    }

    /// What a process leaves that reserved the key and died.
    pub(crate) async fn reserve_and_die(&self, key: &str, message: &Message) {
        let reserved = self.take(key, hapax_mail::fingerprint(message), LEASE).await;
        assert!(matches!(reserved, Reserved::Yours { .. }));
    }

    pub(crate) async fn take(&self, key: &str, fingerprint: Fingerprint, lease: Duration) -> Reserved {
        let lease = Span::new(lease).unwrap();
        let request = Reserve { name: self.name(key), token: Token::random().unwrap(), fingerprint, lease };
        self.store.get_ref().reserve(&request).await.unwrap()
    }

    /// Lets time pass as a machine does: in steps that leave the renewer its turns.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_secs(1);
        let mut left = time;
        while !left.is_zero() {
            let by = step.min(left);
            self.clock.advance(by);
            left -= by;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A handle on a store, on a clock that is moved.
pub(crate) fn handle(store: Arc<dyn IdempotencyStore>, clock: &ManualClock) -> (Keeper, Idempotency) {
    let backend = Backend::new("test", store).with_clock(Arc::new(clock.clone()));
    let keeper = Keeper::of(&backend, Duration::from_secs(5));
    let idem = Idempotency::on(keeper.clone(), Ok(Namespace::default()), "test");
    (keeper, idem)
}

pub(crate) fn name(scope: &str, key: &str) -> Name {
    Name::new(&Namespace::default(), &Scope::new(scope).unwrap(), &Key::new(key).unwrap())
}

/// The welcome under a key.
pub(crate) fn keyed(key: &str) -> Message {
    plain().idempotency_key(key).build().unwrap()
}

/// Another message under that key.
pub(crate) fn other(key: &str) -> Message {
    plain().subject("Something else").idempotency_key(key).build().unwrap()
}

pub(crate) fn code(receipt: &Receipt) -> &str {
    receipt.code().unwrap_or("none")
}

/// Polls until `condition` holds, for ten seconds at most.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not happen");
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What was logged: level and code of every event that has a code, or level and message.
#[derive(Clone, Default)]
pub(crate) struct Logs {
    events: Arc<Mutex<Vec<(tracing::Level, String, String)>>>,
}

impl Logs {
    /// Collects what this thread logs until the guard is dropped.
    pub(crate) fn collect() -> (Self, tracing::subscriber::DefaultGuard) {
        let logs = Self::default();
        let guard = tracing::subscriber::set_default(logs.clone());
        (logs, guard)
    }

    pub(crate) fn of(&self, level: tracing::Level) -> Vec<String> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events
            .iter()
            .filter(|(l, ..)| *l == level)
            .map(|(_, code, message)| format!("{code} {message}"))
            .collect()
    }

    pub(crate) fn codes(&self, level: tracing::Level) -> Vec<String> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let coded = events.iter().filter(|(l, code, _)| *l == level && !code.is_empty());
        coded.map(|(_, code, _)| code.clone()).collect()
    }

    pub(crate) fn everything(&self) -> String {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> =
            events.iter().map(|(level, code, text)| format!("{level} {code} {text}")).collect();
        lines.join("\n")
    }
}

#[derive(Default)]
struct Fields {
    code: String,
    text: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        if field.name() == "code" {
            self.code = format!("{value:?}");
        } else {
            let _ = write!(self.text, "{}={value:?} ", field.name());
        }
    }
}

impl Subscriber for Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hapax")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push((*event.metadata().level(), fields.code, fields.text));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
