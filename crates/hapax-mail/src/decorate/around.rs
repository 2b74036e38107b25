//! What decorators have in common that let a message in, or answer it themselves, and see its receipt.

use super::{Mail, once::named};
use crate::{
    Frozen, Message, Receipt,
    transport::{Commit, SendContext, Transport},
};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use hapax_core::{Clock, SystemClock, Timestamp};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

/// A decorator without attempts of its own.
pub(super) trait Around: Send + Sync {
    /// What it remembers of a message that it has let in. Dropped without a receipt, the send was dropped.
    type Pass: Send;

    /// Lets a message in, or answers it. It may change what the send is told.
    fn admit<'a>(
        &'a self,
        mail: Mail<'a>,
        context: &'a mut SendContext,
    ) -> impl Future<Output = Result<Self::Pass, Box<Receipt>>> + Send + 'a;

    /// Sees the receipt.
    fn settle(&self, pass: Self::Pass, receipt: &Receipt);
}

/// One mail.
pub(super) async fn one(
    around: &impl Around,
    inner: &dyn Transport,
    mail: Mail<'_>,
    context: &SendContext,
) -> Receipt {
    let mut context = context.clone();
    match around.admit(mail, &mut context).await {
        Ok(pass) => {
            let receipt = mail.alone(inner, &context).await;
            around.settle(pass, &receipt);
            receipt
        }
        Err(receipt) => named(*receipt, inner),
    }
}

enum Slot<P> {
    Passed(P),
    Answered(Box<Receipt>),
}

/// The places of a batch, in the order of its messages.
struct Slots<P>(Mutex<VecDeque<Slot<P>>>);

impl<P> Slots<P> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Slot<P>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop_answered(&self) -> Option<Receipt> {
        let mut slots = self.lock();
        match slots.pop_front() {
            Some(Slot::Answered(receipt)) => Some(*receipt),
            Some(passed) => {
                slots.push_front(passed);
                None
            }
            None => None,
        }
    }

    /// Gives the receipt to the first message that has none. Some transports have one too many.
    fn answer(&self, receipt: Receipt, settle: impl FnOnce(P, &Receipt)) {
        let passed = {
            let mut slots = self.lock();
            let first = slots.iter_mut().find(|slot| matches!(slot, Slot::Passed(_)));
            first.map(|slot| std::mem::replace(slot, Slot::Answered(Box::new(receipt.clone()))))
        };
        match passed {
            Some(Slot::Passed(pass)) => settle(pass, &receipt),
            _ => self.lock().push_back(Slot::Answered(Box::new(receipt))),
        }
    }
}

/// A batch, through that of the wrapped transport: what is answered here takes no part in it.
pub(super) fn many<'a, A: Around>(
    around: &'a A,
    inner: &'a dyn Transport,
    messages: BoxStream<'a, (Message, SendContext)>,
) -> BoxStream<'a, Receipt>
where
    A::Pass: 'a,
{
    let slots: Arc<Slots<A::Pass>> = Arc::new(Slots(Mutex::default()));
    let places = Arc::clone(&slots);
    let admitted = messages.filter_map(move |(message, mut context)| {
        let places = Arc::clone(&places);
        async move {
            match around.admit(Mail::Message(&message), &mut context).await {
                Ok(pass) => {
                    if inner.commit() == Commit::Unsupported {
                        context.commit();
                    }
                    places.lock().push_back(Slot::Passed(pass));
                    Some((message, context))
                }
                Err(receipt) => {
                    places.lock().push_back(Slot::Answered(Box::new(named(*receipt, inner))));
                    None
                }
            }
        }
    });
    let mut receipts = inner.send_many(Box::pin(admitted));
    let mut over = false;
    Box::pin(stream::poll_fn(move |cx| {
        loop {
            if let Some(receipt) = slots.pop_answered() {
                return Poll::Ready(Some(receipt));
            }
            if over {
                return Poll::Ready(None);
            }
            match receipts.poll_next_unpin(cx) {
                Poll::Ready(Some(receipt)) => {
                    slots.answer(receipt, |pass, receipt| around.settle(pass, receipt));
                }
                Poll::Ready(None) => over = true,
                // Something may have been answered on the way in.
                Poll::Pending => match slots.pop_answered() {
                    Some(receipt) => return Poll::Ready(Some(receipt)),
                    None => return Poll::Pending,
                },
            }
        }
    }))
}

/// The id, date and boundaries for all attempts of a send, where nobody has fixed them yet.
pub(super) fn freeze(mail: Mail<'_>, context: &SendContext) -> SendContext {
    if context.frozen.is_some() {
        return context.clone();
    }
    let now = SystemClock.now().as_millis();
    let date = Timestamp::from_millis(now.div_euclid(1000).saturating_mul(1000));
    let frozen = match mail {
        Mail::Message(message) => Frozen::random(message, date),
        Mail::Raw(_) => Frozen::random_at(&mail.author_domain(), date),
    };
    match frozen {
        Ok(frozen) => context.clone().with_frozen(frozen),
        // Without random bytes the transport says what is wrong.
        Err(_) => context.clone(),
    }
}

/// Between 0 and 1.
pub(super) fn chance() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0_u8) >> 32;
    f64::from(u32::try_from(random).unwrap_or_default()) / f64::from(u32::MAX)
}

/// The methods of [`Transport`] of a decorator that is [`Around`] its field `inner`.
macro_rules! transport_around {
    ($name:ident, $stack:expr) => {
        #[deny(clippy::missing_trait_methods)]
        #[async_trait::async_trait]
        impl<T: Transport> Transport for $name<T> {
            fn id(&self) -> &str {
                self.inner.id()
            }

            async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
                around::one(self, &self.inner, Mail::Message(message), context).await
            }

            async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
                around::one(self, &self.inner, Mail::Raw(raw), context).await
            }

            fn send_many<'a>(
                &'a self,
                messages: BoxStream<'a, (Message, SendContext)>,
            ) -> BoxStream<'a, Receipt> {
                around::many(self, &self.inner, messages)
            }

            /// What it wraps is guarded by itself, so what waits here has not begun.
            fn commit(&self) -> Commit {
                Commit::Supported
            }

            fn dedupes_for(&self) -> Option<Duration> {
                self.inner.dedupes_for()
            }

            fn stack(&self) -> Stack {
                let stack: fn(&Self) -> Stack = $stack;
                stack(self)
            }
        }
    };
}
pub(super) use transport_around;
