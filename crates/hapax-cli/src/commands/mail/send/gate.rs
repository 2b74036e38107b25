//! What stands between a key and its transports: the rate, further attempts, and the end of a run that was stopped.
//!
//! It is inside of the idempotent decorator, so one reservation covers all attempts, and replays take no part in the
//! rate.
//!
//! ```text
//! keys ─ gate (log, stop, rate, time-out) ─ suppression ─ pool ─ retry ─ breaker ─ turns (rate of further attempts) ─ transport
//! ```

use super::rate::Rate;
use crate::{failure::Failure, text};
use hapax::{
    Backoff,
    mail::{
        Decorate, Decorated, InvalidSuppression, Mail, MailCategory, Mailer, MailerBuilder, Member, Observed,
        Receipt, SendContext, Stack, Suppressing, SuppressionList, Transport,
    },
};
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A run does not wait longer for one message. What a provider asks for beyond it is for the next run.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Of a pool: after so many failures in a row a transport is left alone.
const FAILURES: u32 = 5;
const COOL_DOWN: Duration = Duration::from_secs(30);
/// For all attempts of all transports, where --timeout does not say less: a key is held for an hour.
const LONGEST: Duration = Duration::from_mins(55);

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

/// What all mails go through.
pub(in super::super) type Gate = Observed<Decorated<Entry, Suppressing<Mailer>>>;

/// The transports behind the gate: one after the other where there are several, each with its attempts.
pub(in super::super) fn stack(
    transports: Vec<Arc<dyn Transport>>,
    suppressed: SuppressionList,
    passage: &Passage,
) -> Result<Gate, Failure> {
    let pacer = Arc::new(Pacer { rate: passage.rate, stop: passage.stop.clone(), next: Mutex::default() });
    let among = u32::try_from(transports.len().max(1)).unwrap_or(u32::MAX);
    let mut members = transports.into_iter().map(|transport| {
        let mut member = if passage.attempts > 1 {
            Member::new(Decorated::new(Turns(Arc::clone(&pacer)), transport))
        } else {
            Member::new(transport)
        };
        if among > 1 {
            member = member.breaker(FAILURES, COOL_DOWN);
        }
        if passage.attempts > 1 {
            let backoff = Backoff::exponential(FIRST_PAUSE, LONGEST_PAUSE);
            member = member.retry(passage.attempts, backoff).retry_until(passage.stop.clone());
            member = member.retry_within(LONGEST / among);
        }
        member
    });
    let built = match (members.next(), among) {
        (Some(first), 1) => Mailer::via(first),
        (Some(first), _) => members.fold(Mailer::via(first), MailerBuilder::or_via),
        (None, _) => return Err(Failure::usage("there is no transport")),
    };
    let inner = built.build().map_err(|error| Failure::usage(error.to_string()))?;
    let entry = Entry { timeout: passage.timeout, pacer };
    Ok(Observed::new(Decorated::new(entry, Suppressing::new(inner, suppressed))))
}

/// Who gets no mail, from a file.
pub(in super::super) fn suppressed(file: Option<&Path>) -> Result<SuppressionList, Failure> {
    let Some(file) = file else { return Ok(SuppressionList::default()) };
    let shown = text::shown(&file.display().to_string());
    let list = std::fs::read_to_string(file);
    let list = list.map_err(|error| Failure::input(format!("--suppress {shown} cannot be read: {error}")))?;
    list.parse().map_err(|error: InvalidSuppression| {
        Failure::input(format!("--suppress {shown}: {error}"))
            .help("write one address a line, or @domain for everybody there; # begins a comment")
    })
}

/// Spreads starts evenly, and lets none through when the run is stopped.
#[derive(Debug)]
struct Pacer {
    rate: Option<Rate>,
    stop: CancellationToken,
    /// When the next send may start.
    next: Mutex<Option<Instant>>,
}

impl Pacer {
    /// Waits until a send may start.
    async fn turn(&self) -> Result<(), Box<Receipt>> {
        if self.stop.is_cancelled() {
            return Err(cancelled());
        }
        let Some(rate) = self.rate else { return Ok(()) };
        let now = Instant::now();
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = next.map_or(now, |next| next.max(now));
            *next = Some(at + rate.interval);
            at
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(cancelled()),
            () = sleep_until(at) => Ok(()),
        }
    }
}

fn cancelled() -> Box<Receipt> {
    Box::new(Receipt::failed(MailCategory::Cancelled, "mail.cancelled"))
}

/// Waits for the turn of a message, and gives it its time from then on.
#[derive(Debug)]
pub(in super::super) struct Entry {
    timeout: Option<Duration>,
    pacer: Arc<Pacer>,
}

impl Decorate for Entry {
    type Pass = ();

    async fn admit<'a>(&'a self, _: Mail<'a>, context: &'a mut SendContext) -> Result<(), Box<Receipt>> {
        self.pacer.turn().await?;
        let own = self.timeout.and_then(|limit| Instant::now().checked_add(limit));
        context.deadline = own.into_iter().chain(context.deadline).min();
        Ok(())
    }

    fn stack(&self, mut inner: Stack) -> Stack {
        inner.longest = inner.longest.into_iter().chain(self.timeout).min();
        inner
    }
}

/// A further attempt has to wait for its turn, too; the gate has seen to that of the first.
#[derive(Debug)]
struct Turns(Arc<Pacer>);

impl Decorate for Turns {
    type Pass = ();

    async fn admit<'a>(&'a self, _: Mail<'a>, context: &'a mut SendContext) -> Result<(), Box<Receipt>> {
        if context.attempt > 1 {
            self.0.turn().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::mail::{Act, Message, Stub};

    fn gate(stub: &Stub, attempts: u32, rate: Option<&str>) -> (Gate, CancellationToken) {
        let stop = CancellationToken::new();
        let rate = rate.map(|text| Rate::parse(text).unwrap());
        let passage = Passage { attempts, rate, timeout: Some(Duration::from_mins(1)), stop: stop.clone() };
        (stack(vec![Arc::new(stub.clone())], SuppressionList::default(), &passage).unwrap(), stop)
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
    async fn further_attempts_wait_for_their_turn_too() {
        let stub = Stub::new();
        stub.then(busy()).then(busy());
        let (gate, _stop) = gate(&stub, 3, Some("1/m"));
        let start = Instant::now();
        let context = SendContext::default();
        assert_eq!(gate.send(&message(), &context).await.code(), Some("mail.timeout"));
        assert_eq!((stub.handed(), start.elapsed()), (1, Duration::from_mins(1)));
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
