//! A batch that is being sent.

use super::Mailer;
use crate::{
    Message, Receipt,
    decorate::{Batch, BatchSettings},
    transport::SendContext,
};
use futures_core::{Stream, stream::BoxStream};
use futures_util::StreamExt;
use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Receipts as they come, in the order of the messages: the first receipt is that of the first message. A `Stream`, with
/// its own `next`, so that no extra trait is needed.
///
/// It works while it is asked for receipts, and takes at most 1,024 messages beyond the one whose receipt is next.
/// Dropped before its end, it stops: messages that had not begun are free to be sent again, those that may have gone
/// keep their keys.
#[must_use = "no message is sent until receipts are asked for"]
pub struct SendMany<'a> {
    state: State<'a>,
}

enum State<'a> {
    Waiting {
        mailer: Mailer,
        messages: BoxStream<'a, Message>,
        settings: BatchSettings,
        cancel: CancellationToken,
    },
    Running(Box<Batch<'a>>),
    Over,
}

impl<'a> SendMany<'a> {
    pub(super) fn new(mailer: Mailer, messages: BoxStream<'a, Message>) -> Self {
        let (settings, cancel) = (BatchSettings::default(), CancellationToken::new());
        Self { state: State::Waiting { mailer, messages, settings, cancel } }
    }

    fn set(mut self, change: impl FnOnce(&mut BatchSettings, &mut CancellationToken)) -> Self {
        debug_assert!(
            matches!(self.state, State::Waiting { .. }),
            "a setting after the first receipt has no effect"
        );
        if let State::Waiting { settings, cancel, .. } = &mut self.state {
            change(settings, cancel);
        }
        self
    }

    /// Sends so many messages at a time, each on its own. Without it, the batch of the transport decides.
    pub fn concurrency(self, n: usize) -> Self {
        self.set(|settings, _| settings.concurrency = Some(n.max(1)))
    }

    /// Gives a message up when it takes longer than this, from its start.
    pub fn timeout(self, each: Duration) -> Self {
        self.set(|settings, _| settings.timeout = Some(each))
    }

    /// When `token` is cancelled, no more messages are taken; those in progress are finished, and those that were taken
    /// and have not begun end with `mail.cancelled`, their keys free.
    pub fn drain_on(self, token: CancellationToken) -> Self {
        self.set(|settings, _| settings.drain = token)
    }

    /// When `token` is cancelled, sends in progress are stopped: what may have gone is of unknown delivery. Messages
    /// that have not begun end with `mail.cancelled`.
    pub fn stop_on(self, token: CancellationToken) -> Self {
        self.set(|_, cancel| *cancel = token)
    }

    /// The next receipt.
    ///
    /// # Cancel safety
    /// No receipt is lost.
    pub async fn next(&mut self) -> Option<Receipt> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// All receipts.
    pub async fn collect(mut self) -> Vec<Receipt> {
        let mut receipts = Vec::new();
        while let Some(receipt) = self.next().await {
            receipts.push(receipt);
        }
        receipts
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Receipt>> {
        if matches!(self.state, State::Waiting { .. })
            && let State::Waiting { mailer, messages, settings, cancel } =
                std::mem::replace(&mut self.state, State::Over)
        {
            let template = SendContext::default().with_cancel(cancel);
            let with_context = move |message| (message, template.another());
            let batch = mailer.batch(messages.map(with_context).boxed(), settings);
            self.state = State::Running(Box::new(batch));
        }
        let State::Running(batch) = &mut self.state else { return Poll::Ready(None) };
        let polled = batch.poll_next_unpin(cx);
        if let Poll::Ready(None) = polled {
            self.state = State::Over;
        }
        polled
    }
}

impl Stream for SendMany<'_> {
    type Item = Receipt;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Receipt>> {
        self.get_mut().poll(cx)
    }
}

impl fmt::Debug for SendMany<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting { .. } => "waiting",
            State::Running(_) => "running",
            State::Over => "over",
        };
        f.debug_struct("SendMany").field("state", &state).finish_non_exhaustive()
    }
}
