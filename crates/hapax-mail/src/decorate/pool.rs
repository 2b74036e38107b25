//! One of several transports, and the next one if that fails.

mod choice;

use super::{
    Mail,
    around::freeze,
    once::{named, through_guarded},
};
use crate::{
    Failure, FailureScope, MailCategory, Message, Outcome, RawMessage, Receipt,
    receipt::{Attempt, of_a_layer},
    transport::{Commit, Ended, Layer, SendContext, Stack, Transport, stopped},
};
pub use choice::Strategy;
use choice::{Choice, Standing};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// So many messages of a batch go to one member, if they are there.
const RUN: usize = 100;

pub(crate) type Takes = Arc<dyn Fn(Mail<'_>) -> bool + Send + Sync>;

/// A transport in a pool.
pub(crate) struct Seat {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) weight: u32,
    pub(crate) priority: u32,
    pub(crate) takes: Option<Takes>,
}

/// Several transports as one.
pub(crate) struct Pool {
    id: String,
    seats: Vec<Seat>,
    choice: Mutex<Choice>,
    failover_on_unknown: bool,
}

impl Pool {
    pub(crate) fn new(id: String, seats: Vec<Seat>, strategy: Strategy, failover_on_unknown: bool) -> Self {
        let standings = seats.iter().map(|seat| Standing::new(seat.weight, seat.priority)).collect();
        Self { id, seats, choice: Mutex::new(Choice::new(strategy, standings)), failover_on_unknown }
    }

    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The members for a mail, in the order in which they are tried.
    fn order(&self, mail: Mail<'_>) -> VecDeque<usize> {
        let which = |wanted: &dyn Fn(&Seat) -> bool| -> Vec<usize> {
            self.seats.iter().enumerate().filter(|(_, seat)| wanted(seat)).map(|(at, _)| at).collect()
        };
        let chosen = which(&|seat| seat.takes.as_ref().is_some_and(|takes| takes(mail)));
        // Those that take everything stand back behind those that were made for it.
        let among = if chosen.is_empty() { which(&|seat| seat.takes.is_none()) } else { chosen };
        self.choice().order(&among).into()
    }

    async fn send_one(&self, mail: Mail<'_>, context: &SendContext) -> Receipt {
        let order = self.order(mail);
        if order.is_empty() {
            let failure = Failure::new(MailCategory::Configuration, "pool.no_match")
                .with_detail("no transport of the pool takes such a message");
            return Receipt::not_sent(failure);
        }
        Walk { pool: self, order, context: freeze(mail, context), tried: Vec::new() }.go(mail).await
    }

    /// What became of a member's attempt, for the choice of the next.
    fn seen(&self, at: usize, receipt: &Receipt) {
        let well = match &receipt.outcome {
            Outcome::Accepted => true,
            Outcome::Failed(failure) | Outcome::Unknown(failure) => match failure.category {
                MailCategory::Validation | MailCategory::Rejected | MailCategory::Cancelled => return,
                _ => false,
            },
        };
        self.choice().seen(at, well);
    }

    /// Whether another member may be asked.
    fn goes_on(&self, receipt: &Receipt) -> bool {
        match &receipt.outcome {
            Outcome::Accepted => false,
            // It may have gone: whoever goes on may deliver twice, and has said so.
            Outcome::Unknown(failure) => self.failover_on_unknown && !of_a_layer(&failure.code),
            Outcome::Failed(failure) => match failure.category {
                MailCategory::Cancelled => false,
                // What this transport cannot do, another may.
                MailCategory::Validation | MailCategory::Rejected => failure.scope == FailureScope::Provider,
                MailCategory::Unknown => failure.code == "mail.panicked",
                MailCategory::Configuration
                | MailCategory::Auth
                | MailCategory::RateLimit
                | MailCategory::Network
                | MailCategory::Timeout
                | MailCategory::Service => true,
            },
        }
    }
}

/// One mail on its way through the members.
struct Walk<'a> {
    pool: &'a Pool,
    order: VecDeque<usize>,
    context: SendContext,
    tried: Vec<(usize, Receipt)>,
}

impl Walk<'_> {
    async fn go(mut self, mail: Mail<'_>) -> Receipt {
        while let Some(at) = self.order.pop_front() {
            let Some(receipt) = self.attempt(at, mail, self.context.for_attempt(self.context.attempt)).await
            else {
                continue;
            };
            if let Some(receipt) = self.judge(at, receipt) {
                return receipt;
            }
        }
        self.last_resort(mail).await
    }

    async fn attempt(&self, at: usize, mail: Mail<'_>, context: SendContext) -> Option<Receipt> {
        let seat = self.pool.seats.get(at)?;
        let receipt = through_guarded(mail, &*seat.transport, &context).await;
        Some(booked(named(receipt, &*seat.transport), seat.transport.id()))
    }

    /// The end, if this is it.
    fn judge(&mut self, at: usize, receipt: Receipt) -> Option<Receipt> {
        self.pool.seen(at, &receipt);
        let over = self.context.cancel.is_cancelled()
            || self.context.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let goes_on = self.pool.goes_on(&receipt) && !over;
        self.tried.push((at, receipt));
        (!goes_on).then(|| self.end())
    }

    /// Where every member is being left alone, the one that would be asked first is asked now.
    async fn last_resort(mut self, mail: Mail<'_>) -> Receipt {
        let rest = |receipt: &Receipt| receipt.failure().and_then(|failure| failure.retry_after);
        if self.tried.iter().all(|(_, receipt)| receipt.code() == Some("breaker.open")) {
            let soonest = self.tried.iter().min_by_key(|(_, receipt)| rest(receipt)).map(|(at, _)| *at);
            let context = self.context.for_attempt(self.context.attempt).insisting();
            if let Some(at) = soonest
                && let Some(receipt) = self.attempt(at, mail, context).await
                && receipt.code() != Some("breaker.open")
                && let Some(receipt) = self.judge(at, receipt)
            {
                return receipt;
            }
        }
        self.end()
    }

    /// The receipt of all that was tried.
    fn end(&mut self) -> Receipt {
        let mut tried = std::mem::take(&mut self.tried);
        let attempts: Vec<Attempt> =
            tried.iter_mut().flat_map(|(_, receipt)| std::mem::take(&mut receipt.attempts)).collect();
        let Some((_, mut last)) = tried.pop() else {
            return stopped(&Ended::NoReceipt, self.context.is_committed());
        };
        // Only a success settles what may have gone.
        if !last.is_accepted()
            && let Some(at) = tried.iter().position(|(_, receipt)| receipt.is_unknown())
        {
            last = tried.swap_remove(at).1;
        } else if self.order.is_empty()
            && !tried.is_empty()
            && self.pool.goes_on(&last)
            && let Outcome::Failed(failure) = &mut last.outcome
        {
            *failure = exhausted(failure, &tried);
            self.pool.id.clone_into(&mut last.provider);
        }
        last.attempts = attempts;
        last
    }
}

/// Why no member took it: as the last one says, to be tried again if any of them may be.
fn exhausted(last: &Failure, earlier: &[(usize, Receipt)]) -> Failure {
    let all = || earlier.iter().filter_map(|(_, receipt)| receipt.failure()).chain([last]);
    let waits =
        || all().filter(|failure| failure.retryable).map(|failure| failure.retry_after.unwrap_or_default());
    let detail = format!("no transport of the pool took the message; the last one ended with {}", last.code);
    Failure {
        code: "pool.exhausted".into(),
        retryable: waits().next().is_some(),
        retry_after: waits().min().filter(|wait| !wait.is_zero()),
        detail: Some(detail.into()),
        ..last.clone()
    }
}

fn booked(mut receipt: Receipt, transport: &str) -> Receipt {
    if receipt.attempts.is_empty() {
        let code = receipt.failure().map(|failure| failure.code.clone());
        receipt.attempts = vec![Attempt::new(transport, code)];
    }
    receipt
}

#[deny(clippy::missing_trait_methods)]
#[async_trait::async_trait]
impl Transport for Pool {
    fn id(&self) -> &str {
        &self.id
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        self.send_one(Mail::Message(message), context).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        self.send_one(Mail::Raw(raw), context).await
    }

    /// What is ready goes to one member as a batch; what fails there goes to the others one by one.
    fn send_many<'a>(&'a self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        if self.seats.iter().any(|seat| seat.takes.is_some()) {
            return Box::pin(messages.then(move |(message, context)| async move {
                self.send_one(Mail::Message(&message), &context).await
            }));
        }
        Box::pin(messages.ready_chunks(RUN).flat_map(move |run| self.run(run)))
    }

    /// Each attempt is guarded by itself.
    fn commit(&self) -> Commit {
        Commit::Supported
    }

    /// A second send may go to another member, which knows nothing of the first.
    fn dedupes_for(&self) -> Option<Duration> {
        match self.seats.as_slice() {
            [only] => only.transport.dedupes_for(),
            _ => None,
        }
    }

    fn stack(&self) -> Stack {
        let stacks: Vec<Stack> = self.seats.iter().map(|seat| seat.transport.stack()).collect();
        // Members were checked one by one, so what they are made of has one order.
        let mut layers: Vec<Layer> = stacks.iter().flat_map(|stack| stack.layers.iter().copied()).collect();
        layers.sort_unstable();
        layers.dedup();
        let sum = |sum: Duration, stack: &Stack| Some(sum.saturating_add(stack.longest?));
        Stack { layers, longest: stacks.iter().try_fold(Duration::ZERO, sum) }.within(Layer::Pool)
    }
}

impl Pool {
    fn run(&self, run: Vec<(Message, SendContext)>) -> BoxStream<'_, Receipt> {
        let Some((first, _)) = run.first() else { return Box::pin(stream::empty()) };
        let mut order = self.order(Mail::Message(first));
        let Some((at, seat)) = order.pop_front().and_then(|at| Some((at, self.seats.get(at)?))) else {
            return Box::pin(stream::empty());
        };
        let run: Vec<_> = run
            .into_iter()
            .map(|(message, context)| {
                let context = freeze(Mail::Message(&message), &context);
                let within = context.for_attempt(context.attempt);
                (message, context, within)
            })
            .collect();
        let unsupported = seat.transport.commit() == Commit::Unsupported;
        let batch: Vec<_> =
            run.iter().map(|(message, _, within)| (message.clone(), within.clone())).collect();
        let batch = stream::iter(batch).inspect(move |(_, within)| {
            if unsupported {
                within.commit();
            }
        });
        let receipts = seat.transport.send_many(Box::pin(batch));
        Box::pin(stream::unfold((receipts, run.into_iter()), move |(mut receipts, mut run)| {
            let order = order.clone();
            async move {
                let (message, context, within) = run.next()?;
                let receipt = match receipts.next().await {
                    Some(receipt) => receipt,
                    None => stopped(&Ended::NoReceipt, within.is_committed()),
                };
                let receipt = booked(named(receipt, &*seat.transport), seat.transport.id());
                let mut walk = Walk { pool: self, order, context, tried: Vec::new() };
                let receipt = match walk.judge(at, receipt) {
                    Some(receipt) => receipt,
                    None => walk.go(Mail::Message(&message)).await,
                };
                Some((receipt, (receipts, run)))
            }
        }))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.seats.iter().map(|seat| &seat.transport);
        f.debug_struct("Pool")
            .field("id", &self.id)
            .field("members", &members.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
