//! What goes to the transport: messages whose turn has come, each made ready as it is taken.

use super::super::{
    once::{Mail, Ours},
    policy::{Call, Policy},
};
use crate::{
    Message, Receipt,
    transport::{SendContext, panicked},
};
use futures_core::Stream;
use futures_util::FutureExt;
use hapax_core::BoxFuture;
use hapax_engine::Lease;
use std::{
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::Instant;

/// A message that may start.
pub(super) struct Ready {
    pub(super) at: u64,
    pub(super) message: Message,
    pub(super) context: SendContext,
    pub(super) keyed: Option<(Ours, Call)>,
}

/// A message that has started.
pub(super) struct Start {
    pub(super) at: u64,
    pub(super) message: Message,
    pub(super) context: SendContext,
    pub(super) lease: Option<Arc<Lease>>,
}

/// What is known of a message that has started. A drop of it ends the reservation by the commit flag.
pub(super) struct Started {
    pub(super) context: SendContext,
    pub(super) ours: Option<Ours>,
}

/// Shared by the batch, which fills it, and the stream that the transport takes from.
#[derive(Default)]
pub(super) struct Feed {
    pub(super) queue: VecDeque<Ready>,
    preparing: Option<BoxFuture<'static, Prepared>>,
    pub(super) started: HashMap<u64, Started>,
    /// The order in which the transport's own batch took them, for those that it has not answered.
    pub(super) order: VecDeque<u64>,
    /// Those that could not start.
    pub(super) refused: Vec<(u64, Box<Receipt>)>,
    /// How many have started since the batch last asked.
    pub(super) starts: u32,
    /// How many messages, and how many bytes of them, have left the queue since then.
    pub(super) left: (usize, usize),
    /// How many receipts are not stored yet; at the limit nothing starts.
    pub(super) unkept: usize,
    /// No more comes.
    pub(super) closed: bool,
    waker: Option<Waker>,
}

impl Feed {
    /// Tells the transport's side that something has changed.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether nothing waits or is about to start.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.preparing.is_none()
    }
}

/// A message that starts, or the receipt of one that cannot.
type Prepared = Result<(Start, Started), (u64, Box<Receipt>)>;

#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Feed>>);

impl Shared {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Feed> {
        // A panic of the transport happens outside of the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of the transport.
pub(super) struct Starts {
    pub(super) feed: Shared,
    pub(super) policy: Option<Arc<Policy>>,
    /// Counted from the start of each message.
    pub(super) timeout: Option<Duration>,
    /// Receipts that may wait to be stored.
    pub(super) most_unkept: usize,
}

impl Stream for Starts {
    type Item = Start;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Start>> {
        let mut feed = self.feed.lock();
        loop {
            if let Some(preparing) = feed.preparing.as_mut() {
                let Poll::Ready(prepared) = preparing.as_mut().poll(cx) else { return Poll::Pending };
                feed.preparing = None;
                match prepared {
                    Ok((start, started)) => {
                        feed.started.insert(start.at, started);
                        feed.starts = feed.starts.saturating_add(1);
                        return Poll::Ready(Some(start));
                    }
                    Err(refused) => feed.refused.push(refused),
                }
            }
            let ready = if feed.unkept < self.most_unkept { feed.queue.pop_front() } else { None };
            match ready {
                Some(ready) => {
                    feed.left = (feed.left.0 + 1, feed.left.1 + size(&ready.message));
                    feed.preparing = Some(self.prepare(ready));
                }
                None if feed.closed && feed.queue.is_empty() => return Poll::Ready(None),
                None => {
                    feed.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Starts {
    fn prepare(&self, ready: Ready) -> BoxFuture<'static, Prepared> {
        let (policy, timeout, at) = (self.policy.clone(), self.timeout, ready.at);
        // A store that panics takes its own message along, not the batch.
        let prepared = AssertUnwindSafe(prepare(policy, timeout, ready)).catch_unwind();
        Box::pin(async move { prepared.await.unwrap_or_else(|_| Err((at, Box::new(panicked(false))))) })
    }
}

/// About what a message holds in memory.
pub(super) fn size(message: &Message) -> usize {
    let text = |text: Option<&str>| text.map_or(0, str::len);
    let attached: usize = message.attachments().iter().map(|attachment| attachment.bytes().len()).sum();
    text(message.subject()) + text(message.text()) + text(message.html()) + attached
}

async fn prepare(policy: Option<Arc<Policy>>, timeout: Option<Duration>, ready: Ready) -> Prepared {
    let Ready { at, message, mut context, keyed } = ready;
    let (mut ours, mut lease) = (None, None);
    if let (Some(policy), Some((reserved, call))) = (policy, keyed) {
        let prepared = policy.prepare(reserved, &call, Mail::Message(&message), &context).await;
        let (kept, within, held) = prepared.map_err(|receipt| (at, receipt))?;
        (ours, context, lease) = (Some(kept), within, Some(held));
    }
    if let Some(limit) = timeout {
        let deadline = Instant::now() + limit;
        context.deadline = Some(context.deadline.map_or(deadline, |given| given.min(deadline)));
    }
    let started = Started { context: context.clone(), ours };
    Ok((Start { at, message, context, lease }, started))
}
