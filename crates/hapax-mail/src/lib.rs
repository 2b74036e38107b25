//! Mail that is sent once: messages, receipts, transports, and what keeps a message from going twice.
//!
//! ```
//! use hapax_mail::{Frozen, Message, envelope, fingerprint, render};
//! # use hapax_core::Timestamp;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let message = Message::builder()
//!     .from("Shop <shop@example.com>")
//!     .to("Ada <ada@example.com>")
//!     .subject("Welcome")
//!     .text("Welcome aboard.")
//!     .idempotency_key("welcome:1")
//!     .build()?; // reports every fault at once
//!
//! assert_eq!(envelope(&message).to, ["ada@example.com"]);
//! assert_eq!(fingerprint(&message), fingerprint(&message.clone()));
//!
//! // Fixed before the first attempt, so that each attempt sends the same bytes.
//! let frozen = Frozen::random(&message, Timestamp::from_millis(1_896_080_400_000))?;
//! assert_eq!(render(&message, &frozen)?, render(&message, &frozen)?);
//! # Ok(())
//! # }
//! ```

pub mod address;
mod decorate;
pub mod dkim;
pub mod fingerprint;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod jobs;
pub mod mailer;
pub mod message;
pub mod mime;
pub mod provider;
pub mod raw;
pub mod receipt;
pub mod smtp;
pub mod transport;

pub use crate::{
    address::{Address, InvalidAddress},
    decorate::{
        Breaker, Decorate, Decorated, IdempotencyTransport, InvalidSuppression, Mail, Observed, OnUnknown,
        RateLimited, Retry, Strategy, Suppressing, SuppressionList,
    },
    fingerprint::{fingerprint, fingerprint_raw, fingerprint_strict},
    mailer::{Mailer, MailerBuilder, Member, SendMany},
    message::{
        Attachment, Fault, InvalidMessage, MESSAGE_CODES, Message, MessageBuilder, MessageJson, Stamp,
        Tracking, Unsubscribe,
    },
    mime::{Envelope, Frozen, Identity, RenderError, derive_message_id, envelope, render},
    provider::{Brevo, Mailgun, Postmark, Resend, SendGrid},
    raw::RawMessage,
    receipt::{
        Attempt, CODES, Failure, FailureScope, MAIL_CODES, MailCategory, NotAccepted, Outcome, Receipt,
        Rejected, Sent, UnreadableReceipt,
    },
    smtp::{Smtp, SmtpOptions},
    transport::{
        Act, Commit, Faulty, InvalidTransport, Layer, Outbox, SendContext, Stack, Stub, StubCall, Transport,
    },
};

#[cfg(feature = "ses")]
pub use crate::provider::Ses;
