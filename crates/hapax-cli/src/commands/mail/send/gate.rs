//! What stands between a key and its transport: the rate, further attempts, and the end of a run that was stopped.
//!
//! It is inside of the idempotent decorator, so one reservation covers all attempts, and replays take no part in the
//! rate.

use super::rate::Rate;
use hapax::{
    async_trait,
    mail::{Commit, MailCategory, Message, Outcome, RawMessage, Receipt, SendContext, Transport},
};
use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A run does not wait longer for one message. What a provider asks for beyond it is for the next run.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How a message goes through the gate.
#[derive(Clone, Debug)]
pub(in super::super) struct Passage {
    /// Of one message; the first counts.
    pub(in super::super) attempts: u32,
    pub(in super::super) rate: Option<Rate>,
    /// For all attempts together, from the start of the first.
    pub(in super::super) timeout: Option<Duration>,
    /// What has not started when this is cancelled does not start.
    pub(in super::super) stop: CancellationToken,
}

/// A transport behind the gate.
#[derive(Debug)]
pub(in super::super) struct Gate {
    inner: Arc<dyn Transport>,
    passage: Passage,
    /// When the next send may start.
    next: Mutex<Option<Instant>>,
}

impl Gate {
    pub(in super::super) fn new(inner: Arc<dyn Transport>, passage: Passage) -> Self {
        Self { inner, passage, next: Mutex::default() }
    }

    /// Waits until a send may start.
    async fn turn(&self) -> Result<(), Receipt> {
        if self.passage.stop.is_cancelled() {
            return Err(cancelled());
        }
        let Some(rate) = self.passage.rate else { return Ok(()) };
        let now = Instant::now();
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = next.map_or(now, |next| next.max(now));
            *next = Some(at + rate.interval);
            at
        };
        self.pause(at).await
    }

    async fn pause(&self, until: Instant) -> Result<(), Receipt> {
        tokio::select! {
            biased;
            () = self.passage.stop.cancelled() => Err(cancelled()),
            () = sleep_until(until) => Ok(()),
        }
    }

    async fn pass(&self, mail: Mail<'_>, context: &SendContext) -> Receipt {
        if let Err(refused) = self.turn().await {
            return refused;
        }
        let own = self.passage.timeout.map(|limit| Instant::now() + limit);
        let deadline = own.into_iter().chain(context.deadline).min();
        let (mut pause, mut earlier) = (FIRST_PAUSE, Vec::new());
        for attempt in 1.. {
            let mut within = context.within(Arc::new(AtomicBool::new(false))).with_attempt(attempt);
            within.deadline = deadline;
            let mut receipt = within.guard(self.inner.commit(), mail.through(&*self.inner, &within)).await;
            receipt.attempts.splice(0..0, earlier);
            let Outcome::Failed(failure) = &receipt.outcome else { return receipt };
            let wait = failure.retry_after.unwrap_or_default().max(pause.mul_f64(0.5 + chance() / 2.0));
            let again_at = Instant::now() + wait;
            let too_late = wait > LONGEST_PAUSE || deadline.is_some_and(|deadline| deadline <= again_at);
            if !failure.retryable || attempt >= self.passage.attempts || too_late {
                return receipt;
            }
            if self.pause(again_at).await.is_err() || self.turn().await.is_err() {
                return receipt;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            earlier = receipt.attempts;
        }
        cancelled()
    }
}

fn cancelled() -> Receipt {
    Receipt::failed(MailCategory::Cancelled, "mail.cancelled")
}

/// Between 0 and 1.
fn chance() -> f64 {
    let random = RandomState::new().hash_one(0_u8) >> 32;
    f64::from(u32::try_from(random).unwrap_or_default()) / f64::from(u32::MAX)
}

#[derive(Clone, Copy)]
enum Mail<'a> {
    Message(&'a Message),
    Raw(&'a RawMessage),
}

impl Mail<'_> {
    async fn through(self, transport: &dyn Transport, context: &SendContext) -> Receipt {
        match self {
            Self::Message(message) => transport.send(message, context).await,
            Self::Raw(raw) => transport.send_raw(raw, context).await,
        }
    }
}

#[async_trait]
impl Transport for Gate {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        self.pass(Mail::Message(message), context).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.pass(Mail::Raw(raw), context).await
    }

    /// Each attempt is guarded by itself, so what waits here has not begun.
    fn commit(&self) -> Commit {
        Commit::Supported
    }

    fn dedupes_for(&self) -> Option<Duration> {
        self.inner.dedupes_for()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::mail::{Act, Stub};

    fn gate(stub: &Stub, attempts: u32, rate: Option<&str>) -> (Gate, CancellationToken) {
        let stop = CancellationToken::new();
        let rate = rate.map(|text| Rate::parse(text).unwrap());
        let passage = Passage { attempts, rate, timeout: Some(Duration::from_mins(1)), stop: stop.clone() };
        (Gate::new(Arc::new(stub.clone()), passage), stop)
    }

    fn message() -> Message {
        Message::builder().from("a@x.example").to("b@x.example").text("").build().unwrap()
    }

    fn busy() -> Receipt {
        Receipt::failed(MailCategory::Service, "smtp.busy")
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_until_the_attempts_are_used_up() {
        let stub = Stub::new();
        stub.then(busy()).then(busy());
        let (gate, _stop) = gate(&stub, 3, None);
        let context = SendContext::default();
        let receipt = gate.send(&message(), &context).await;
        assert!(receipt.is_accepted());
        assert_eq!(receipt.attempts.len(), 3);
        assert!(context.is_committed());
        stub.then(busy()).then(busy()).then(busy());
        assert_eq!(gate.send(&message(), &SendContext::default()).await.code(), Some("smtp.busy"));
        assert_eq!(stub.sent().len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_permanent_or_unknown_is_not_tried_again() {
        for receipt in [Receipt::failed(MailCategory::Rejected, "smtp.no"), Receipt::unknown("smtp.lost")] {
            let stub = Stub::new();
            stub.then(receipt.clone());
            let (gate, _stop) = gate(&stub, 3, None);
            assert_eq!(gate.send(&message(), &SendContext::default()).await.code(), receipt.code());
            assert_eq!(stub.sent().len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sends_start_at_the_rate() {
        let stub = Stub::new();
        let (gate, _stop) = gate(&stub, 1, Some("10/s"));
        let start = Instant::now();
        let (message, context) = (message(), SendContext::default());
        futures_util::future::join_all((0..6).map(|_| gate.send(&message, &context))).await;
        assert_eq!(start.elapsed().as_millis() / 10, 50);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_run_starts_nothing_more() {
        let stub = Stub::new();
        let (gate, stop) = gate(&stub, 1, Some("1/h"));
        let (message, context) = (message(), SendContext::default());
        assert!(gate.send(&message, &context).await.is_accepted());
        let (waiting, ()) = tokio::join!(gate.send(&message, &context), async { stop.cancel() });
        assert_eq!(waiting.code(), Some("mail.cancelled"));
        assert_eq!(gate.send(&message, &context).await.code(), Some("mail.cancelled"));
        assert_eq!(stub.sent().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_timeout_is_for_all_attempts_together() {
        let stub = Stub::new();
        stub.then(busy()).then_act([Act::Hang]);
        let (gate, _stop) = gate(&stub, 3, None);
        let start = Instant::now();
        let receipt = gate.send(&message(), &SendContext::default()).await;
        assert_eq!((receipt.code(), start.elapsed()), (Some("mail.timeout"), Duration::from_mins(1)));
        assert_eq!(stub.calls().len(), 2);
    }
}
