//! One send under a key, from the reservation to the receipt.

use super::{
    answers::Fate,
    policy::{Call, Policy},
};
use crate::{
    Frozen, Identity, Message, RawMessage, Receipt, Transport, derive_message_id,
    receipt::Attempt,
    transport::{Ended, SendContext, attempt, panicked, stopped},
};
use hapax_core::{
    Timestamp,
    idempotency::{self, Kind, Record},
};
use hapax_engine::{
    Lease,
    protocol::{Begun, Kept, Reservation, Terms},
};
use std::{panic::resume_unwind, sync::Arc};

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub enum Mail<'a> {
    /// A message.
    Message(&'a Message),
    /// Bytes that are ready.
    Raw(&'a RawMessage),
}

impl Mail<'_> {
    pub(super) fn own_message_id(&self) -> Option<String> {
        match self {
            Self::Message(message) => message.message_id().map(ToOwned::to_owned),
            Self::Raw(raw) => raw.message_id(),
        }
    }

    pub(super) fn author_domain(&self) -> String {
        let domain = match self {
            Self::Message(message) => message.from().first().map(|author| author.ascii_domain().to_owned()),
            Self::Raw(raw) => raw.from_domain(),
        };
        domain.unwrap_or_else(|| "localhost".to_owned())
    }

    /// Without a key.
    pub(crate) async fn alone(self, transport: &dyn Transport, context: &SendContext) -> Receipt {
        context.guard(transport.commit(), self.through(transport, context)).await
    }

    async fn through(self, transport: &dyn Transport, context: &SendContext) -> Receipt {
        match self {
            Self::Message(message) => transport.send(message, context).await,
            Self::Raw(raw) => transport.send_raw(raw, context).await,
        }
    }

    fn frozen(self, secret: &[u8], call: &Call, first_at: Timestamp) -> Frozen {
        // `Date` has whole seconds.
        let date = Timestamp::from_millis(first_at.as_millis().div_euclid(1000).saturating_mul(1000));
        let (name, fingerprint) = (&call.name, &call.fingerprint);
        let (namespace, scope, key) = (name.namespace(), name.scope(), name.key());
        match self {
            Self::Message(message) => {
                Frozen::derived(message, &Identity::new(secret, namespace, scope, key, fingerprint), date)
            }
            // The parts of a raw mail have their boundaries.
            Self::Raw(_) => {
                let id = derive_message_id(secret, namespace, scope, key, fingerprint, &self.author_domain());
                Frozen::new(id, date, "raw")
            }
        }
    }
}

/// One attempt. A transport that panics before anything could be delivered has failed.
pub(super) async fn through_guarded(
    mail: Mail<'_>,
    transport: &dyn Transport,
    context: &SendContext,
) -> Receipt {
    let sent = attempt(context, transport.commit(), None, mail.through(transport, context)).await;
    Attempted::new(sent, context).receipt
}

/// A key that is ours.
#[derive(Debug)]
pub(super) struct Ours {
    pub(super) reservation: Reservation,
    /// The receipt of unknown outcome that this send tries to better. It stands when this one fails.
    pub(super) standing: Option<Receipt>,
}

/// What was found under a key.
#[derive(Debug)]
pub(super) enum Found {
    Ours(Box<Ours>),
    Answer(Box<Receipt>),
}

/// A send that has come to its end, and the key that is still to be kept.
#[derive(Debug)]
#[must_use = "a key in it is to be completed"]
pub(crate) struct Delivered {
    pub(crate) receipt: Receipt,
    pub(crate) key: Option<(Reservation, Kind, idempotency::Receipt)>,
}

impl From<Receipt> for Delivered {
    fn from(receipt: Receipt) -> Self {
        Self { receipt, key: None }
    }
}

impl Policy {
    /// Sends a mail once.
    pub(crate) async fn send(
        &self,
        transport: &dyn Transport,
        mail: Mail<'_>,
        context: &SendContext,
    ) -> Receipt {
        let Delivered { receipt, key } = self.deliver(transport, mail, context).await;
        if let Some((reservation, kind, stored)) = key {
            let _: Kept = reservation.complete(kind, stored).await;
        }
        receipt
    }

    /// The same for who completes the key in a step of their own.
    pub(crate) async fn deliver(
        &self,
        transport: &dyn Transport,
        mail: Mail<'_>,
        context: &SendContext,
    ) -> Delivered {
        let call = match mail {
            Mail::Message(message) => self.call(message),
            Mail::Raw(raw) => self.raw_call(raw),
        };
        let found = match call {
            Ok(None) => return mail.alone(transport, context).await.into(),
            Ok(Some(call)) => match self.terms() {
                Ok(terms) => (self.begin(transport, mail, &call, &terms).await, call),
                Err(error) => return named(self.refused(&error, mail, &call), transport).into(),
            },
            Err(receipt) => return named(*receipt, transport).into(),
        };
        match found {
            (Found::Answer(receipt), _) => named(*receipt, transport).into(),
            (Found::Ours(ours), call) => self.perform(transport, mail, &call, *ours, context).await,
        }
    }

    /// Reserves the key, or finds the answer.
    async fn begin(&self, transport: &dyn Transport, mail: Mail<'_>, call: &Call, terms: &Terms) -> Found {
        match self.keeper.reserve(&call.name, call.fingerprint, terms).await {
            Ok(Begun::Mine(reservation)) => Found::Ours(Box::new(Ours { reservation, standing: None })),
            Ok(Begun::Settled(record)) => self.settled(transport, &record, mail, call, terms).await,
            Err(error) => Found::Answer(Box::new(self.refused(&error, mail, call))),
        }
    }

    /// An earlier send ended: its receipt, or the key again where its outcome is unknown and may be tried again.
    pub(super) async fn settled(
        &self,
        transport: &dyn Transport,
        record: &Record,
        mail: Mail<'_>,
        call: &Call,
        terms: &Terms,
    ) -> Found {
        if !self.retries(record, transport) {
            return Found::Answer(Box::new(self.replay(record, mail, call)));
        }
        match self.keeper.retake(&call.name, call.fingerprint, terms).await {
            Ok(Some(reservation)) => {
                tracing::debug!(key = ?call.name, "a send of unknown outcome is tried again");
                let standing = Some(self.replay(record, mail, call));
                Found::Ours(Box::new(Ours { reservation, standing }))
            }
            // Somebody was faster. Their answer is as good as ours, and an unknown one is not tried a third time.
            Ok(None) => match self.keeper.reserve(&call.name, call.fingerprint, terms).await {
                Ok(Begun::Mine(reservation)) => Found::Ours(Box::new(Ours { reservation, standing: None })),
                Ok(Begun::Settled(record)) => Found::Answer(Box::new(self.replay(&record, mail, call))),
                Err(error) => Found::Answer(Box::new(self.refused(&error, mail, call))),
            },
            Err(error) => Found::Answer(Box::new(self.refused(&error, mail, call))),
        }
    }

    /// Everything that comes between a reservation and its send: whether enough of the lease is left, and what is fixed
    /// for all attempts.
    pub(super) async fn prepare(
        &self,
        ours: Ours,
        call: &Call,
        mail: Mail<'_>,
        context: &SendContext,
    ) -> Result<(Ours, SendContext, Arc<Lease>), Box<Receipt>> {
        let Ours { reservation, standing } = ours;
        let reservation = match reservation.ready().await {
            Ok(reservation) => reservation,
            Err(error) => return Err(Box::new(standing.unwrap_or_else(|| self.refused(&error, mail, call)))),
        };
        let secret = match self.secret().await {
            Ok(secret) => secret,
            Err(source) => {
                tracing::warn!(key = ?call.name, code = "idempotency.store_failed", error = %source, "the secret could not be read");
                reservation.release().await;
                return Err(Box::new(standing.unwrap_or_else(|| self.not_reserved(&source, mail, call))));
            }
        };
        let lease = Arc::new(reservation.lease());
        let within = context.within(reservation.began()).keyed(&call.name, call.fingerprint);
        let mut within = within.with_lease(&lease);
        if within.frozen.is_none() {
            within = within.with_frozen(mail.frozen(secret, call, reservation.first_at()));
        }
        Ok((Ours { reservation, standing }, within, lease))
    }

    async fn perform(
        &self,
        transport: &dyn Transport,
        mail: Mail<'_>,
        call: &Call,
        ours: Ours,
        context: &SendContext,
    ) -> Delivered {
        let (ours, within, lease) = match self.prepare(ours, call, mail, context).await {
            Ok(prepared) => prepared,
            Err(receipt) => return named(*receipt, transport).into(),
        };
        let ended =
            attempt(&within, transport.commit(), Some(&lease), mail.through(transport, &within)).await;
        let outcome = match ended {
            Ended::Panicked(panic) if !within.is_committed() => {
                ours.reservation.release().await;
                resume_unwind(panic)
            }
            ended => Attempted::new(ended, &within),
        };
        let receipt = finished(outcome.receipt, transport.id(), &within, Some(ours.reservation.first_at()));
        let fate = if outcome.unsent { Fate::Freed } else { self.fate(&receipt) };
        match fate {
            Fate::Kept(kind) => {
                report(&receipt, kind, &ours.reservation);
                let stored = receipt.to_stored();
                Delivered { receipt, key: Some((ours.reservation, kind, stored)) }
            }
            Fate::Freed => {
                ours.reservation.release().await;
                ours.standing.unwrap_or(receipt).into()
            }
        }
    }
}

/// How an attempt came out.
pub(super) struct Attempted {
    pub(super) receipt: Receipt,
    /// It was certainly not sent here, whatever the receipt says about others.
    pub(super) unsent: bool,
}

impl Attempted {
    pub(super) fn new(ended: Ended, context: &SendContext) -> Self {
        let committed = context.is_committed();
        match ended {
            Ended::Receipt(receipt) => Self { receipt, unsent: false },
            Ended::Panicked(_) => Self { receipt: panicked(committed), unsent: !committed },
            end => Self { receipt: stopped(&end, committed), unsent: !committed },
        }
    }
}

/// Says that a key is kept for an outcome that nobody knows.
pub(super) fn report(receipt: &Receipt, kind: Kind, reservation: &Reservation) {
    if kind == Kind::Unknown {
        let code = receipt.code();
        tracing::warn!(key = ?reservation.name(), code, "a mail may have been sent: its key is kept");
    }
}

/// The receipt of a send that was made, with what its transport left out.
pub(super) fn finished(
    mut receipt: Receipt,
    transport: &str,
    context: &SendContext,
    first_at: Option<Timestamp>,
) -> Receipt {
    if let Some(frozen) = &context.frozen
        && receipt.message_id.is_empty()
    {
        receipt.message_id.clone_from(&frozen.message_id);
    }
    if receipt.attempts.is_empty() {
        let code = receipt.failure().map(|failure| failure.code.clone());
        receipt.attempts = vec![Attempt::new(transport, code)];
    }
    if receipt.provider.is_empty() {
        transport.clone_into(&mut receipt.provider);
    }
    receipt.first_at = receipt.first_at.or(first_at);
    receipt
}

/// The receipt of a send that was not made.
pub(super) fn named(mut receipt: Receipt, transport: &dyn Transport) -> Receipt {
    if receipt.provider.is_empty() {
        transport.id().clone_into(&mut receipt.provider);
    }
    receipt
}
