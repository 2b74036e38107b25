//! A mail as it goes out, whatever it was given as: its bytes, its envelope and its id, fixed once.

use super::{SendContext, context::frozen_or_random};
use crate::{Envelope, Failure, Frozen, MailCategory, Message, RawMessage, envelope, render};
use bytes::Bytes;
use hapax_core::{Coded, StoreError, Timestamp};
use std::{fmt, sync::Arc};

/// Ready for a transport that sends bytes.
pub(crate) struct Ready {
    pub(crate) bytes: Bytes,
    pub(crate) envelope: Envelope,
    pub(crate) message_id: String,
    /// What its `Date` says, if the mail did not have one.
    pub(crate) date: Timestamp,
}

/// Nothing can be sent. The id is empty where there is none yet.
pub(crate) struct NotReady {
    pub(crate) message_id: String,
    pub(crate) failure: Failure,
}

impl Ready {
    pub(crate) fn of(
        message: &Message,
        context: &SendContext,
        now: Timestamp,
    ) -> Result<Self, Box<NotReady>> {
        let frozen = frozen_or_random(message, context, now).map_err(|error| nameless(no_chance(&error)))?;
        let message_id = frozen.message_id.clone();
        match render(message, &frozen) {
            Ok(bytes) => Ok(Self { bytes, envelope: envelope(message), message_id, date: frozen.date }),
            Err(fault) => Err(Box::new(NotReady { message_id, failure: invalid(&fault) })),
        }
    }

    pub(crate) fn of_raw(
        raw: &RawMessage,
        context: &SendContext,
        now: Timestamp,
    ) -> Result<Self, Box<NotReady>> {
        let envelope =
            raw.check().and_then(|()| raw.envelope()).map_err(|faults| nameless(invalid(&faults)))?;
        let frozen = frozen_raw(raw, context, now).map_err(|error| nameless(no_chance(&error)))?;
        let message_id = raw.message_id().unwrap_or_else(|| frozen.message_id.clone());
        match raw.render(&frozen) {
            Ok(bytes) => Ok(Self { bytes, envelope, message_id, date: frozen.date }),
            Err(fault) => Err(Box::new(NotReady { message_id, failure: invalid(&fault) })),
        }
    }
}

/// The id and date of a raw mail that was given none.
pub(crate) fn frozen_raw(
    raw: &RawMessage,
    context: &SendContext,
    now: Timestamp,
) -> hapax_core::StoreResult<Arc<Frozen>> {
    match &context.frozen {
        Some(frozen) => Ok(Arc::clone(frozen)),
        None => {
            let domain = raw.from_domain().unwrap_or_else(|| "localhost".to_owned());
            Frozen::random_at(&domain, now).map(Arc::new)
        }
    }
}

fn nameless(failure: Failure) -> Box<NotReady> {
    Box::new(NotReady { message_id: String::new(), failure })
}

/// What is wrong with the mail itself.
pub(crate) fn invalid(fault: &(impl Coded + fmt::Display)) -> Failure {
    Failure::new(MailCategory::Validation, fault.code()).with_detail(fault.to_string())
}

/// The system gives no random bytes. Nothing was sent.
pub(crate) fn no_chance(error: &StoreError) -> Failure {
    Failure::new(MailCategory::Unknown, "mail.other").with_retryable(true).with_detail(error.to_string())
}
