//! Many messages: keys reserved ahead in batches, receipts kept as soon as they are known, given out in order.
//!
//! ```text
//! input ─ planned ─ reserved ─ feed ─ lane (the transport) ─ gathered ─ written ─ window ─ output
//! ```
//!
//! The whole is one state machine without tasks of its own: it moves while it is polled, and what it holds when it is
//! dropped ends by the rules of a drop.

mod feed;
mod intake;
mod lane;
mod pace;
mod window;

pub(crate) use lane::Wrapped;

use super::{
    answers::Fate,
    once::{Attempted, Found, Ours, finished, report},
    policy::Policy,
};
use crate::{
    Message, Receipt,
    transport::{Ended, SendContext},
};
use feed::{Ready, Shared, Started, Starts};
use futures_core::{Stream, stream::BoxStream};
use futures_util::{StreamExt, stream::FuturesUnordered};
use hapax_core::{BoxFuture, idempotency, idempotency::Kind};
use hapax_engine::protocol::{Kept, Reservation};
use intake::{Answers, Planned};
use lane::Lane;
use pace::Pace;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use window::Window;

/// So many receipts may wait to be stored: what a kill loses beside the sends in progress.
const ONE_WRITE: usize = 128;

/// How a batch is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchSettings {
    /// So many single sends at a time; without it, the transport's own batch.
    pub(crate) concurrency: Option<usize>,
    /// For each message, from its start.
    pub(crate) timeout: Option<Duration>,
    /// Ends the batch early and in order.
    pub(crate) drain: CancellationToken,
}

/// A send whose receipt waits to be stored.
struct Gathered {
    at: u64,
    receipt: Receipt,
    kind: Kind,
    stored: idempotency::Receipt,
    reservation: Reservation,
}

pub(crate) struct Batch<'a> {
    // First, so that a send in progress is stopped before its reservation looks at the commit flag.
    lane: Option<Lane<'a>>,
    feed: Shared,
    wrapped: Wrapped<'a>,
    policy: Option<Arc<Policy>>,
    settings: BatchSettings,
    draining: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    input: Option<BoxStream<'a, (Message, SendContext)>>,
    planned: Vec<Planned>,
    reserving: Option<(Vec<Planned>, BoxFuture<'a, Answers>)>,
    settling: FuturesUnordered<BoxFuture<'a, (Planned, Found)>>,
    releasing: FuturesUnordered<BoxFuture<'a, (u64, Receipt, bool)>>,
    gathered: Vec<Gathered>,
    writing: Option<BoxFuture<'a, Vec<(u64, Receipt)>>>,
    window: Window,
    pace: Pace,
    /// Messages, and their bytes, that were pulled and have not started.
    ahead: usize,
    ahead_bytes: usize,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(
        wrapped: Wrapped<'a>,
        policy: Option<Arc<Policy>>,
        input: BoxStream<'a, (Message, SendContext)>,
        settings: BatchSettings,
    ) -> Self {
        let lease = policy.as_ref().map_or(Policy::LEASE, |policy| policy.lease);
        Self {
            lane: None,
            feed: Shared::new(),
            wrapped,
            policy,
            draining: Some(Box::pin(settings.drain.clone().cancelled_owned())),
            settings,
            input: Some(input),
            planned: Vec::new(),
            reserving: None,
            settling: FuturesUnordered::new(),
            releasing: FuturesUnordered::new(),
            gathered: Vec::new(),
            writing: None,
            window: Window::default(),
            pace: Pace::new(lease),
            ahead: 0,
            ahead_bytes: 0,
        }
    }

    /// Moves everything that can move; answers whether anything did.
    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = self.drain(cx);
        moved |= self.pull(cx);
        moved |= self.reserve(cx);
        moved |= self.settle(cx);
        moved |= self.close_feed();
        moved |= self.send(cx);
        moved |= self.free(cx);
        moved |= self.write(cx);
        moved
    }

    /// Tells the transport that no more comes: one that gathers has to send what it has.
    fn close_feed(&mut self) -> bool {
        let over = self.input.is_none()
            && self.planned.is_empty()
            && self.reserving.is_none()
            && self.settling.is_empty();
        let mut feed = self.feed.lock();
        if !over || feed.closed {
            return false;
        }
        feed.closed = true;
        feed.wake();
        true
    }

    /// Lets the transport work, and takes what it answers.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        if self.lane.is_none() {
            if self.feed.lock().is_idle() {
                return false;
            }
            self.open_lane();
        }
        let mut moved = false;
        while let Some(lane) = self.lane.as_mut() {
            let polled = catch_unwind(AssertUnwindSafe(|| lane.poll_next_unpin(cx)));
            moved |= self.account();
            match polled {
                Ok(Poll::Pending) => break,
                Ok(Poll::Ready(Some((Some(at), ended)))) => self.ended(at, ended),
                Ok(Poll::Ready(Some((None, _)))) => {
                    tracing::warn!(
                        transport = self.wrapped.get().id(),
                        "a transport gave more receipts than messages"
                    );
                }
                Ok(Poll::Ready(None)) => self.lane_over(|| Ended::NoReceipt),
                // The hook has said what it was about.
                Err(_) => self.lane_over(|| Ended::Panicked(Box::new(()))),
            }
            moved = true;
        }
        moved
    }

    fn open_lane(&mut self) {
        let starts = Starts {
            feed: self.feed.clone(),
            policy: self.policy.clone(),
            timeout: self.settings.timeout,
            most_unkept: ONE_WRITE,
        };
        self.lane = Some(match self.settings.concurrency {
            Some(n) => lane::side_by_side(self.wrapped.clone(), starts, n.max(1)),
            None => lane::native(self.wrapped.clone(), starts),
        });
    }

    /// Books what the transport's side of the feed did.
    fn account(&mut self) -> bool {
        let (starts, (left, left_bytes), refused) = {
            let mut feed = self.feed.lock();
            (
                std::mem::take(&mut feed.starts),
                std::mem::take(&mut feed.left),
                std::mem::take(&mut feed.refused),
            )
        };
        (0..starts).for_each(|_| self.pace.started());
        self.ahead = self.ahead.saturating_sub(left);
        self.ahead_bytes = self.ahead_bytes.saturating_sub(left_bytes);
        let moved = left > 0 || !refused.is_empty();
        for (at, receipt) in refused {
            self.answer(at, *receipt);
        }
        moved
    }

    /// A send has ended: its key is kept or freed.
    fn ended(&mut self, at: u64, ended: Ended) {
        let started = self.feed.lock().started.remove(&at);
        let Some(Started { context, ours }) = started else { return };
        let Attempted { receipt, unsent } = Attempted::new(ended, &context);
        let first_at = ours.as_ref().map(|ours| ours.reservation.first_at());
        let receipt = finished(receipt, self.wrapped.get().id(), &context, first_at);
        let (Some(policy), Some(Ours { reservation, standing })) = (&self.policy, ours) else {
            return self.window.settle(at, receipt, true);
        };
        let fate = if unsent { Fate::Freed } else { policy.fate(&receipt) };
        match fate {
            Fate::Kept(kind) => {
                report(&receipt, kind, &reservation);
                let stored = receipt.to_stored();
                self.gathered.push(Gathered { at, receipt, kind, stored, reservation });
                self.feed.lock().unkept += 1;
            }
            Fate::Freed => self.release(at, reservation, standing.unwrap_or(receipt), true),
        }
    }

    /// The transport's batch has ended, well or not. What it has taken and not answered gets a receipt; what it has not
    /// taken goes to another one.
    fn lane_over(&mut self, how: impl Fn() -> Ended) {
        self.lane = None;
        let mut open: Vec<u64> = {
            let mut feed = self.feed.lock();
            feed.order.clear();
            feed.started.keys().copied().collect()
        };
        open.sort_unstable();
        if open.is_empty() {
            // It took nothing: without a victim this would go on for ever.
            let victim = self.feed.lock().queue.pop_front();
            if let Some(Ready { at, message, context, keyed }) = victim {
                self.no_longer_ahead(&message);
                let ours = keyed.map(|(ours, _)| ours);
                self.feed.lock().started.insert(at, Started { context, ours });
                open.push(at);
            }
        }
        for at in open {
            self.ended(at, how());
        }
    }

    /// Keys that are given back, and the receipts that come after it.
    fn free(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while let Poll::Ready(Some((at, receipt, was_sent))) = self.releasing.poll_next_unpin(cx) {
            self.window.settle(at, receipt, was_sent);
            moved = true;
        }
        moved
    }

    /// Stores receipts: at once when no write is under way, else with what has gathered when that one returns.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        loop {
            if self.writing.is_none() && !self.gathered.is_empty() {
                self.writing = Some(Box::pin(keep(std::mem::take(&mut self.gathered))));
            }
            let Some(writing) = self.writing.as_mut() else { return moved };
            let Poll::Ready(kept) = writing.as_mut().poll(cx) else { return moved };
            self.writing = None;
            {
                let mut feed = self.feed.lock();
                feed.unkept = feed.unkept.saturating_sub(kept.len());
                feed.wake();
            }
            for (at, receipt) in kept {
                self.window.settle(at, receipt, true);
            }
            moved = true;
        }
    }
}

async fn keep(gathered: Vec<Gathered>) -> Vec<(u64, Receipt)> {
    let mut receipts = Vec::with_capacity(gathered.len());
    let mut batch = Vec::with_capacity(gathered.len());
    for Gathered { at, receipt, kind, stored, reservation } in gathered {
        receipts.push((at, receipt));
        batch.push((reservation, kind, stored));
    }
    let _: Vec<Kept> = Reservation::complete_many(batch).await;
    receipts
}

impl Stream for Batch<'_> {
    type Item = Receipt;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Receipt>> {
        let this = self.get_mut();
        loop {
            let moved = this.turn(cx);
            if let Some(receipt) = this.window.pop() {
                return Poll::Ready(Some(receipt));
            }
            if this.input.is_none() && this.window.is_empty() {
                return Poll::Ready(None);
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.lane = None;
        let gathered = std::mem::take(&mut self.gathered);
        // Receipts that are known must not become unknown: once begun, the write goes on without us. It needs a
        // runtime to begin in.
        if !gathered.is_empty() && tokio::runtime::Handle::try_current().is_ok() {
            let _ = std::pin::pin!(keep(gathered)).poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}
