//! The sending itself: messages from the feed through the mailer, receipts to the report.

use super::{
    check::Checker,
    feed::{self, Fed, Feed, Slot},
    input::Mail,
    progress::Progress,
    report::Report,
    stop::Stop,
    tally::{Ending, Tally},
};
use futures_util::{FutureExt, Stream, StreamExt, stream, stream::FuturesOrdered};
use hapax::{
    BoxFuture,
    mail::{Mailer, Message, Receipt, SendContext},
};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// A run, and what has become of its messages.
pub(super) struct Run<'a> {
    pub(super) mailer: Mailer,
    pub(super) checker: &'a Checker,
    pub(super) concurrency: usize,
    pub(super) report: Report<'a>,
    pub(super) progress: &'a Progress,
    pub(super) stop: Stop<'a>,
    pub(super) tally: Tally,
    /// Messages that another run holds.
    pub(super) waiting: Vec<(Slot, Receipt)>,
}

/// Places of messages whose receipts are to come, in order; those that are not sent have theirs already.
#[derive(Default)]
struct Places(Mutex<VecDeque<(Slot, Option<Receipt>)>>);

impl Places {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Slot, Option<Receipt>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first, if it waits for nothing.
    fn pop_settled(&self) -> Option<(Slot, Receipt)> {
        let mut places = self.lock();
        places.front()?.1.as_ref()?;
        let (slot, receipt) = places.pop_front()?;
        receipt.map(|receipt| (slot, receipt))
    }
}

impl Run<'_> {
    /// Sends everything that the feed has.
    pub(super) async fn send(&mut self, feed: &mut Feed) {
        while !self.stop.is_ending() {
            let ready = std::future::poll_fn(|cx| feed.poll_ready(cx));
            tokio::select! {
                () = ready => {}
                () = self.stop.step() => continue,
            }
            match feed.peek().map(|fed| matches!(fed.mail, Ok(Mail::Raw(_)))) {
                Some(true) => self.send_raw(feed).await,
                Some(false) => self.send_messages(feed).await,
                None => break,
            }
        }
    }

    /// Sends messages up to the next raw mail, or the end.
    async fn send_messages(&mut self, feed: &mut Feed) {
        let places = Places::default();
        let messages = stream::poll_fn(|cx| {
            loop {
                ready!(feed.poll_ready(cx));
                if feed.peek().is_some_and(|fed| matches!(fed.mail, Ok(Mail::Raw(_)))) {
                    return Poll::Ready(None);
                }
                match feed.pop() {
                    None => return Poll::Ready(None),
                    Some(fed) => {
                        if let Some(message) = place(&places, fed) {
                            return Poll::Ready(Some(message));
                        }
                    }
                }
            }
        });
        self.batch(&places, messages).await;
    }

    async fn batch(&mut self, places: &Places, messages: impl Stream<Item = Message> + Send) {
        let mut receipts = self
            .mailer
            .send_stream(messages)
            .concurrency(self.concurrency)
            .drain_on(self.stop.drain.clone())
            .stop_on(self.stop.abort.clone());
        for n in 1_u64.. {
            // A batch that is always ready must not keep signals from being heard.
            if n.is_multiple_of(128) {
                tokio::task::yield_now().await;
                self.progress.tally(&self.tally);
                if self.stop.step().now_or_never().is_some() && self.stop.at_once() {
                    return;
                }
            }
            self.settled(places);
            let receipt = match receipts.next().now_or_never() {
                Some(receipt) => receipt,
                None => {
                    self.idle();
                    tokio::select! {
                        receipt = receipts.next() => receipt,
                        () = self.stop.step() => {
                            if self.stop.at_once() {
                                return;
                            }
                            continue;
                        }
                    }
                }
            };
            let Some(receipt) = receipt else { break };
            self.settled(places);
            let slot = places.lock().pop_front();
            if let Some((slot, _)) = slot {
                self.receipt(slot, receipt);
            }
        }
        self.settled(places);
    }

    fn settled(&mut self, places: &Places) {
        while let Some((slot, receipt)) = places.pop_settled() {
            self.receipt(slot, receipt);
        }
    }

    /// Sends raw mails up to the next message, or the end.
    async fn send_raw(&mut self, feed: &mut Feed) {
        let mut sends: FuturesOrdered<BoxFuture<'static, (Slot, Receipt)>> = FuturesOrdered::new();
        let mut open = true;
        while open || !sends.is_empty() {
            open &= !self.stop.is_ending();
            if open && sends.len() < self.concurrency {
                let ready = std::future::poll_fn(|cx| feed.poll_ready(cx));
                tokio::select! {
                    biased;
                    () = ready => {}
                    Some((slot, receipt)) = sends.next() => {
                        self.receipt(slot, receipt);
                        continue;
                    }
                    () = self.stop.step() => continue,
                }
                match feed.peek() {
                    Some(Fed { mail: Ok(Mail::Raw(_)) | Err(_), .. }) => {
                        sends.extend(feed.pop().map(|fed| self.raw(fed)));
                    }
                    _ => open = false,
                }
                continue;
            }
            self.idle();
            tokio::select! {
                Some((slot, receipt)) = sends.next() => self.receipt(slot, receipt),
                () = self.stop.step() => if self.stop.at_once() { return },
            }
        }
    }

    fn raw(&self, Fed { slot, mail }: Fed) -> BoxFuture<'static, (Slot, Receipt)> {
        let (mailer, context) =
            (self.mailer.clone(), SendContext::default().with_cancel(self.stop.abort.clone()));
        Box::pin(async move {
            let receipt = match mail {
                Ok(Mail::Raw(raw)) => mailer.send_raw_with(&raw, &context).await,
                Ok(Mail::Message(message)) => mailer.send_with(&message, &context).await,
                Err(problems) => problems.receipt(),
            };
            (slot, receipt)
        })
    }

    /// Waits for the messages that another run holds, `limit` at most, and sends those that it did not.
    pub(super) async fn wait(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut look = FIRST_LOOK;
        while !self.waiting.is_empty() && !self.stop.is_ending() {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            self.idle();
            self.progress.waiting(self.waiting.len(), deadline - now);
            let next = self.waiting.iter().filter_map(|(_, receipt)| receipt.failure()?.retry_after).min();
            let pause = next.unwrap_or(look).max(Duration::from_millis(1)).min(look);
            tokio::select! {
                () = sleep_until((now + pause).min(deadline)) => {}
                () = self.stop.step() => break,
            }
            let started = Instant::now();
            self.try_again().await;
            // Looking must not become the work.
            look = (look * 3 / 2).min(LONGEST_LOOK).max(started.elapsed() * 4);
        }
        for (slot, receipt) in std::mem::take(&mut self.waiting) {
            self.count(&slot, &receipt);
        }
    }

    async fn try_again(&mut self) {
        let mut waiting = VecDeque::from(std::mem::take(&mut self.waiting));
        // Few at a time: their messages are in memory.
        while !waiting.is_empty() && !self.stop.is_ending() {
            let part: Vec<_> = waiting.drain(..waiting.len().min(64)).collect();
            let slots: Vec<_> = part.iter().map(|(slot, _)| slot.clone()).collect();
            let places = Places::default();
            let (messages, raws): (Vec<_>, Vec<_>) = feed::again(self.checker, &slots)
                .into_iter()
                .partition(|fed| !matches!(fed.mail, Ok(Mail::Raw(_))));
            let messages: Vec<_> = messages.into_iter().filter_map(|fed| place(&places, fed)).collect();
            self.batch(&places, stream::iter(messages)).await;
            let mut sends: FuturesOrdered<_> = raws.into_iter().map(|fed| self.raw(fed)).collect();
            while !sends.is_empty() && !self.stop.at_once() {
                tokio::select! {
                    Some((slot, receipt)) = sends.next() => self.receipt(slot, receipt),
                    () = self.stop.step() => {}
                }
            }
        }
        self.waiting.extend(waiting);
        self.waiting.sort_by_key(|(slot, _)| slot.index);
    }

    fn receipt(&mut self, slot: Slot, receipt: Receipt) {
        match Ending::of(&receipt) {
            Ending::InFlight => self.waiting.push((slot, receipt)),
            _ => self.count(&slot, &receipt),
        }
    }

    fn count(&mut self, slot: &Slot, receipt: &Receipt) {
        self.stop.watch(receipt);
        self.tally.count(Ending::of(receipt));
        if Ending::of(receipt) != Ending::Left {
            self.report.receipt(slot, receipt, self.checker);
        }
    }

    /// While nothing happens, what has happened is shown.
    fn idle(&mut self) {
        self.progress.tally(&self.tally);
        self.report.flush();
    }
}

/// Notes the place of a message; the message, if it is to be sent.
fn place(places: &Places, Fed { slot, mail }: Fed) -> Option<Message> {
    let (message, receipt) = match mail {
        Ok(Mail::Message(message)) => (Some(message), None),
        Ok(Mail::Raw(_)) => return None,
        Err(problems) => (None, Some(problems.receipt())),
    };
    places.lock().push_back((slot, receipt));
    message
}
