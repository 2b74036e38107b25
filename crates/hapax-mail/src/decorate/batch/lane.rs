//! The transport at work on a batch.

use super::feed::{Shared, Start, Starts};
use crate::{
    Message, Receipt, Transport,
    transport::{Commit, Ended, SendContext, attempt},
};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use hapax_core::BoxFuture;
use std::{
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

/// The transport of a batch: lent, or shared.
#[derive(Clone)]
pub(crate) enum Wrapped<'a> {
    Lent(&'a dyn Transport),
    Shared(Arc<dyn Transport>),
}

impl<'a> Wrapped<'a> {
    pub(super) fn get(&self) -> &dyn Transport {
        match self {
            Self::Lent(transport) => *transport,
            Self::Shared(transport) => &**transport,
        }
    }

    fn send_many(self, messages: BoxStream<'a, (Message, SendContext)>) -> BoxStream<'a, Receipt> {
        match self {
            Self::Lent(transport) => transport.send_many(messages),
            Self::Shared(transport) => owned(transport, messages),
        }
    }
}

/// The receipts of a transport that has to be kept along with them.
///
/// A future may hold both; it leaves each receipt in a slot and stops until it was taken, so that none is lost when the
/// next one panics.
fn owned<'a>(
    transport: Arc<dyn Transport>,
    messages: BoxStream<'a, (Message, SendContext)>,
) -> BoxStream<'a, Receipt> {
    let slot: Arc<Mutex<Option<Receipt>>> = Arc::default();
    let put = Arc::clone(&slot);
    let mut drive: Option<BoxFuture<'a, ()>> = Some(Box::pin(async move {
        let mut receipts = transport.send_many(messages);
        while let Some(receipt) = receipts.next().await {
            *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(receipt);
            let mut stopped = false;
            poll_fn(|_| if std::mem::replace(&mut stopped, true) { Poll::Ready(()) } else { Poll::Pending })
                .await;
        }
    }));
    Box::pin(stream::poll_fn(move |cx| {
        let Some(driven) = drive.as_mut() else { return Poll::Ready(None) };
        let over = driven.as_mut().poll(cx).is_ready();
        match slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(receipt) => Poll::Ready(Some(receipt)),
            None if over => {
                drive = None;
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }))
}

/// A message, unless the transport gave one receipt too many, and how its send ended.
pub(super) type Lane<'a> = BoxStream<'a, (Option<u64>, Ended)>;

/// Sends through the transport's own batch.
pub(super) fn native(wrapped: Wrapped<'_>, starts: Starts) -> Lane<'_> {
    let feed: Shared = starts.feed.clone();
    let commit = wrapped.get().commit();
    let order = feed.clone();
    let taken = move |start: Start| {
        order.lock().order.push_back(start.at);
        if commit == Commit::Unsupported {
            start.context.commit();
        }
        (start.message, start.context)
    };
    let receipts = wrapped.send_many(Box::pin(starts.map(taken)));
    Box::pin(receipts.map(move |receipt| (feed.lock().order.pop_front(), Ended::Receipt(receipt))))
}

/// Sends one by one, several at a time.
pub(super) fn side_by_side(wrapped: Wrapped<'_>, starts: Starts, concurrency: usize) -> Lane<'_> {
    let send = move |start: Start| {
        let wrapped = wrapped.clone();
        async move {
            let transport = wrapped.get();
            let send = transport.send(&start.message, &start.context);
            let ended = attempt(&start.context, transport.commit(), start.lease.as_deref(), send).await;
            (Some(start.at), ended)
        }
    };
    Box::pin(starts.map(send).buffer_unordered(concurrency))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Batch, BatchSettings},
        *,
    };
    use crate::Stub;

    #[tokio::test]
    async fn nothing_is_left_of_messages_that_were_answered() {
        let message = Message::builder().from("a@example.com").to("b@example.com").subject("x").text("x");
        let message = message.build().unwrap();
        for concurrency in [None, Some(3)] {
            let stub = Stub::forgetful();
            let messages = (0..300).map(|_| (message.clone(), SendContext::default()));
            let settings = BatchSettings { concurrency, ..BatchSettings::default() };
            let mut batch =
                Batch::new(Wrapped::Lent(&stub), None, Box::pin(stream::iter(messages)), settings);
            let receipts: Vec<Receipt> = batch.by_ref().collect().await;
            assert!(receipts.len() == 300 && receipts.iter().all(Receipt::is_accepted));
            let feed = batch.feed.lock();
            assert!(feed.queue.is_empty() && feed.started.is_empty(), "{concurrency:?}");
            assert!(feed.order.is_empty() && feed.order.capacity() < 300, "{concurrency:?}");
        }
    }
}
