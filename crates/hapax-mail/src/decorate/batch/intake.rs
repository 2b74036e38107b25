//! The way in: messages are pulled, planned, and given their keys.

use super::{
    super::{
        once::{Found, Mail, Ours, named},
        policy::{Call, why},
    },
    Batch,
    feed::{Ready, size},
    window::Claim,
};
use crate::{
    Failure, MailCategory, Message, Receipt,
    transport::{SendContext, panicked},
};
use futures_util::StreamExt;
use hapax_engine::{
    IdempotencyError,
    protocol::{Begun, Reservation},
};
use std::{
    future::Future,
    task::{Context, Poll},
};

/// So many bytes of messages may wait for their turn.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// A message that waits for its key.
pub(super) struct Planned {
    at: u64,
    message: Message,
    context: SendContext,
    call: Option<Call>,
}

pub(super) type Answers = Vec<Result<Begun, IdempotencyError>>;

impl Batch<'_> {
    fn is_draining(&self) -> bool {
        self.draining.is_none()
    }

    /// When told to: takes no more, and gives back what has not started.
    pub(super) fn drain(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(draining) = self.draining.as_mut() else { return false };
        if draining.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.draining = None;
        self.input = None;
        for planned in std::mem::take(&mut self.planned) {
            self.give_up(planned.at, &planned.message, None);
        }
        let waiting = std::mem::take(&mut self.feed.lock().queue);
        for ready in waiting {
            self.give_up(ready.at, &ready.message, ready.keyed.map(|(ours, _)| ours.reservation));
        }
        true
    }

    /// The receipt of a message that does not start any more.
    fn give_up(&mut self, at: u64, message: &Message, reservation: Option<Reservation>) {
        self.no_longer_ahead(message);
        let failure = Failure::new(MailCategory::Cancelled, "mail.cancelled")
            .with_detail("the batch was ended before this message was sent");
        let receipt = named(Receipt::not_sent(failure), self.wrapped.get());
        match reservation {
            None => self.window.settle(at, receipt, false),
            Some(reservation) => self.release(at, reservation, receipt, false),
        }
    }

    pub(super) fn release(&mut self, at: u64, reservation: Reservation, receipt: Receipt, was_sent: bool) {
        self.releasing.push(Box::pin(async move {
            reservation.release().await;
            (at, receipt, was_sent)
        }));
    }

    /// Takes messages while there is room for them.
    pub(super) fn pull(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        let most = self.pace.ahead();
        while self.ahead < most && self.ahead_bytes < MOST_BYTES && !self.window.is_full() {
            let Some(input) = self.input.as_mut() else { break };
            match input.poll_next_unpin(cx) {
                Poll::Pending => break,
                Poll::Ready(Some((message, context))) => self.plan(message, context),
                Poll::Ready(None) => self.input = None,
            }
            moved = true;
        }
        moved
    }

    fn plan(&mut self, message: Message, context: SendContext) {
        let at = self.window.push();
        let call = match &self.policy {
            None => None,
            Some(policy) => match policy.call(&message) {
                Ok(call) => call,
                Err(receipt) => return self.answer(at, *receipt),
            },
        };
        if let Some(call) = &call {
            match self.window.claim(at, &call.name, call.fingerprint) {
                Claim::First => {}
                Claim::Copy => return,
                Claim::Reused => {
                    tracing::warn!(
                        key = ?call.name, code = "idempotency.key_reused",
                        "two messages of a batch have one key"
                    );
                    let failure = Failure::new(MailCategory::Validation, "idempotency.key_reused")
                        .with_detail("another message of the batch has the key");
                    return self.answer(at, Receipt::not_sent(failure));
                }
            }
        }
        self.ahead += 1;
        self.ahead_bytes += size(&message);
        self.planned.push(Planned { at, message, context, call });
    }

    /// Answers a message that goes nowhere.
    pub(super) fn answer(&mut self, at: u64, receipt: Receipt) {
        let receipt = named(receipt, self.wrapped.get());
        self.window.settle(at, receipt, false);
    }

    pub(super) fn no_longer_ahead(&mut self, message: &Message) {
        self.ahead = self.ahead.saturating_sub(1);
        self.ahead_bytes = self.ahead_bytes.saturating_sub(size(message));
    }

    /// Reserves what was planned, a part at a time: small parts cost a trip each, so it waits until half of what may
    /// be held is free, unless the transport would wait too.
    pub(super) fn reserve(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        if self.reserving.is_none() && !self.planned.is_empty() {
            let most = self.pace.ahead();
            if self.planned.len() * 2 >= most || self.feed.lock().queue.len() * 4 <= most {
                self.start_reserving();
                moved = true;
            }
        }
        let Some((_, reserving)) = self.reserving.as_mut() else { return moved };
        let Poll::Ready(answers) = reserving.as_mut().poll(cx) else { return moved };
        let Some((planned, _)) = self.reserving.take() else { return moved };
        let mut answers = answers.into_iter();
        for planned in planned {
            match &planned.call {
                None => self.enqueue(planned, None),
                // A batch has an answer for each.
                Some(_) => match answers.next() {
                    Some(answer) => self.reserved(planned, answer),
                    None => self.answer_planned(&planned, panicked(false)),
                },
            }
        }
        self.feed.lock().wake();
        true
    }

    fn start_reserving(&mut self) {
        let planned = std::mem::take(&mut self.planned);
        let calls: Vec<_> =
            planned.iter().filter_map(|p| p.call.as_ref()).map(|c| (c.name.clone(), c.fingerprint)).collect();
        let policy = self.policy.clone().filter(|_| !calls.is_empty());
        let Some(policy) = policy else {
            self.reserving = Some((planned, Box::pin(std::future::ready(Vec::new()))));
            return;
        };
        let reserving = async move {
            match policy.terms() {
                Ok(terms) => policy.keeper.reserve_many(&calls, &terms).await,
                Err(error) => {
                    let reason = why(&error);
                    calls.iter().map(|_| Err(IdempotencyError::invalid(reason.clone()))).collect()
                }
            }
        };
        self.reserving = Some((planned, Box::pin(reserving)));
    }

    fn reserved(&mut self, planned: Planned, answer: Result<Begun, IdempotencyError>) {
        let (Some(policy), Some(call)) = (self.policy.clone(), planned.call.clone()) else { return };
        let mail = Mail::Message(&planned.message);
        match answer {
            Ok(Begun::Mine(reservation)) => {
                self.enqueue(planned, Some((Ours { reservation, standing: None }, call)));
            }
            Ok(Begun::Settled(record))
                if policy.retries(&record, self.wrapped.get()) && !self.is_draining() =>
            {
                let wrapped = self.wrapped.clone();
                self.settling.push(Box::pin(async move {
                    let mail = Mail::Message(&planned.message);
                    let found = match policy.terms() {
                        Ok(terms) => policy.settled(wrapped.get(), &record, mail, &call, &terms).await,
                        Err(error) => Found::Answer(Box::new(policy.refused(&error, mail, &call))),
                    };
                    (planned, found)
                }));
            }
            Ok(Begun::Settled(record)) => {
                let receipt = policy.replay(&record, mail, &call);
                self.answer_planned(&planned, receipt);
            }
            Err(error) => {
                let receipt = policy.refused(&error, mail, &call);
                self.answer_planned(&planned, receipt);
            }
        }
    }

    fn answer_planned(&mut self, planned: &Planned, receipt: Receipt) {
        self.no_longer_ahead(&planned.message);
        self.answer(planned.at, receipt);
    }

    fn enqueue(&mut self, planned: Planned, keyed: Option<(Ours, Call)>) {
        let Planned { at, message, context, .. } = planned;
        if self.is_draining() {
            return self.give_up(at, &message, keyed.map(|(ours, _)| ours.reservation));
        }
        self.feed.lock().queue.push_back(Ready { at, message, context, keyed });
    }

    /// Keys of unknown outcome that are taken again.
    pub(super) fn settle(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while let Poll::Ready(Some((planned, found))) = self.settling.poll_next_unpin(cx) {
            match found {
                Found::Answer(receipt) => self.answer_planned(&planned, *receipt),
                Found::Ours(ours) => {
                    let call = planned.call.clone();
                    self.enqueue(planned, call.map(|call| (*ours, call)));
                    self.feed.lock().wake();
                }
            }
            moved = true;
        }
        moved
    }
}
