//! Many messages in one request.

use super::{Provider, answer::Verdict, ended, http::Answer, http::Request};
use crate::{
    Failure, Frozen, MailCategory, Message, Receipt, envelope,
    transport::{Ended, SendContext, frozen_or_random, stopped},
};
use futures_core::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, future::select_all, stream};
use hapax_core::{Clock, SystemClock};
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What a request may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

/// A provider that takes several messages in one request.
pub(crate) trait Batches: Provider {
    /// One message of a request, as bytes; none for a message that has to go alone.
    fn item(
        &self,
        message: &Message,
        context: &SendContext,
        frozen: &Frozen,
    ) -> Option<Result<Vec<u8>, Failure>>;

    /// The request of these items. `keys` are those of the messages, as far as they have some.
    fn batch(&self, items: &[Vec<u8>], keys: &[Option<&str>]) -> Request;

    /// What an answer says about each of them, in order; one verdict where it says the same of all.
    fn judge_batch(&self, answer: &Answer, count: usize) -> Vec<Verdict>;
}

/// A message of a request.
struct Item {
    message: Message,
    context: SendContext,
    message_id: String,
    bytes: Vec<u8>,
}

impl Item {
    fn ended<P: Provider>(&self, receipt: Receipt) -> Receipt {
        ended::<P>(receipt, &self.message_id, || envelope(&self.message).to)
    }
}

enum Part {
    Batch(Vec<Item>),
    Alone(Message, SendContext),
    Failed(Message, String, Failure),
}

/// Takes what is ready, as much as a request holds.
pub(crate) fn send_many<'a, P: Batches>(
    provider: &'a P,
    most: Most,
    messages: BoxStream<'a, (Message, SendContext)>,
) -> BoxStream<'a, Receipt> {
    let runs = messages.ready_chunks(most.messages);
    Box::pin(runs.flat_map(move |run| {
        let parts = parts(provider, most, run);
        stream::iter(parts).then(move |part| part.go(provider)).flat_map(stream::iter)
    }))
}

/// Divides a run into requests, in order.
fn parts<P: Batches>(provider: &P, most: Most, run: Vec<(Message, SendContext)>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut items: Vec<Item> = Vec::new();
    let mut bytes = 0;
    let flush = |items: &mut Vec<Item>, parts: &mut Vec<Part>| {
        if !items.is_empty() {
            parts.push(Part::Batch(std::mem::take(items)));
        }
    };
    for (message, context) in run {
        let frozen = frozen_or_random(&message, &context, SystemClock.now());
        let made = match &frozen {
            Ok(frozen) => provider.item(&message, &context, frozen),
            Err(error) => Some(Err(super::no_chance(error))),
        };
        let message_id = frozen.map(|frozen| frozen.message_id.clone()).unwrap_or_default();
        match made {
            Some(Ok(item)) => {
                if bytes + item.len() > most.bytes {
                    flush(&mut items, &mut parts);
                    bytes = 0;
                }
                bytes += item.len() + 1;
                items.push(Item { message, context, message_id, bytes: item });
            }
            other => {
                flush(&mut items, &mut parts);
                bytes = 0;
                parts.push(match other {
                    Some(Err(failure)) => Part::Failed(message, message_id, failure),
                    _ => Part::Alone(message, context),
                });
            }
        }
    }
    flush(&mut items, &mut parts);
    parts
}

impl Part {
    async fn go<P: Batches>(self, provider: &P) -> Vec<Receipt> {
        match self {
            Self::Alone(message, context) => vec![super::send(provider, &message, &context).await],
            Self::Failed(message, id, failure) => {
                vec![ended::<P>(Receipt::not_sent(failure), &id, || envelope(&message).to)]
            }
            Self::Batch(items) => batch(provider, items).await,
        }
    }
}

async fn batch<P: Batches>(provider: &P, items: Vec<Item>) -> Vec<Receipt> {
    let keys: Vec<_> = items.iter().map(|item| item.context.provider_key()).collect();
    let bodies: Vec<Vec<u8>> = items.iter().map(|item| item.bytes.clone()).collect();
    let request = provider.batch(&bodies, &keys);
    let committed = Arc::new(AtomicBool::new(false));
    let (flag, contexts): (_, Vec<_>) =
        (Arc::clone(&committed), items.iter().map(|item| item.context.clone()).collect());
    let on_commit = Arc::new(move || {
        flag.store(true, Ordering::Release);
        contexts.iter().for_each(SendContext::commit);
    });
    // It ends with the first of its messages that is to end: what may have gone then may have gone for all.
    let stops = || select_all(items.iter().map(|item| stop(&item.context).boxed()));
    if let Some((end, ..)) = stops().now_or_never() {
        return items.iter().map(|item| item.ended::<P>(stopped(&end, false))).collect();
    }
    let call = AssertUnwindSafe(provider.http().call(&request, on_commit)).catch_unwind();
    let ended_by = tokio::select! {
        biased;
        answered = call => match answered {
            Ok(answered) => Ok(answered),
            Err(panic) => Err(Ended::Panicked(panic)),
        },
        (end, ..) = stops() => Err(end),
    };
    let receipts: Vec<Receipt> = match ended_by {
        Ok(Ok(answer)) => verdicts(provider, &answer, items.len()),
        Ok(Err(trouble)) if trouble.committed => {
            items.iter().map(|_| Receipt::not_known(Failure::clone(&trouble.failure))).collect()
        }
        Ok(Err(trouble)) => {
            items.iter().map(|_| Receipt::not_sent(Failure::clone(&trouble.failure))).collect()
        }
        Err(end) => {
            let committed = committed.load(Ordering::Acquire);
            items.iter().map(|_| stopped(&end, committed)).collect()
        }
    };
    items.iter().zip(receipts).map(|(item, receipt)| item.ended::<P>(receipt)).collect()
}

/// One for each message, whatever came back.
fn verdicts<P: Batches>(provider: &P, answer: &Answer, count: usize) -> Vec<Receipt> {
    let verdicts = provider.judge_batch(answer, count);
    let status = answer.status;
    if verdicts.len() == count {
        return verdicts.into_iter().map(|verdict| verdict.into_receipt(status)).collect();
    }
    match verdicts.into_iter().next() {
        Some(one) if count > 0 => {
            let receipt = one.into_receipt(status);
            vec![receipt; count]
        }
        _ => {
            let failure = Failure::new(MailCategory::Unknown, "provider.answer")
                .with_detail("the answer says nothing of some messages");
            vec![Receipt::not_known(failure.with_http_status(status)); count]
        }
    }
}

/// When a message is to end.
async fn stop(context: &SendContext) -> Ended {
    let late = async {
        match context.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Ended::Cancelled,
        () = late => Ended::TimedOut,
    }
}
