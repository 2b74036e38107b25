//! What became of a message.

mod category;
mod codes;
mod failure;
mod line;
mod stored;

pub use category::{FailureScope, MailCategory};
pub use codes::{CODES, MAIL_CODES};
pub use failure::Failure;
pub use line::ReceiptLine;
pub use stored::{CODEC, UnreadableReceipt};

pub(crate) use codes::{code, known, of_a_layer};

use hapax_core::{Category, Coded, Retry, Timestamp};
use hapax_engine::{Class, Classify};
use std::{borrow::Cow, fmt};

/// What became of one message.
///
/// `Debug` shows counts of recipients, no address.
#[must_use = "a receipt may say that the message was not sent"]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Whether it was sent.
    pub outcome: Outcome,
    /// The `Message-ID`, `<id@domain>`; empty where none was made.
    pub message_id: String,
    /// The transport that answered; empty where none was asked.
    pub provider: String,
    /// The provider's own name of the message.
    pub provider_id: Option<String>,
    /// What the provider said, in its words.
    pub response: Option<String>,
    /// The recipients it was taken for.
    pub accepted: Vec<String>,
    /// The recipients it was not taken for.
    pub rejected: Vec<Rejected>,
    /// Every attempt, the last one last.
    pub attempts: Vec<Attempt>,
    /// Nothing was sent now: an earlier send under the key is answered for.
    pub replayed: bool,
    /// That send was of an earlier message in the same batch.
    pub copied: bool,
    /// The provider had the message already and did not take it again.
    pub deduplicated: bool,
    /// When the first attempt under the key was made.
    pub first_at: Option<Timestamp>,
}

/// Whether a message was sent. Exhaustive on purpose: the third case is what this crate is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next hop took responsibility. That is not yet the reader's inbox.
    Accepted,
    /// Not sent, for certain.
    Failed(Failure),
    /// It may have gone. Send it again under the same key only, or find out and resolve the key.
    Unknown(Failure),
}

/// A recipient that the provider did not take.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// Who.
    pub address: String,
    /// What the provider said.
    pub response: String,
    /// Whether it may take the recipient later.
    pub retryable: bool,
}

/// One attempt of one transport.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The transport.
    pub provider: String,
    /// Why it did not succeed.
    pub code: Option<Cow<'static, str>>,
}

impl Rejected {
    /// A recipient and why it was not taken.
    pub fn new(address: impl Into<String>, response: impl Into<String>, retryable: bool) -> Self {
        Self { address: address.into(), response: response.into(), retryable }
    }
}

impl Attempt {
    /// An attempt; without a code it succeeded.
    pub fn new(provider: impl Into<String>, code: Option<Cow<'static, str>>) -> Self {
        Self { provider: provider.into(), code }
    }
}

impl Receipt {
    /// The next hop took the message.
    pub fn accepted() -> Self {
        Self::of(Outcome::Accepted)
    }

    /// Not sent, for certain. Whether to try again follows from the category.
    pub fn failed(category: MailCategory, code: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Outcome::Failed(Failure::new(category, code)))
    }

    /// It may have gone.
    pub fn unknown(code: impl Into<Cow<'static, str>>) -> Self {
        Self::not_known(Failure::new(MailCategory::Unknown, code))
    }

    /// Not sent, for certain, with all that is known.
    pub fn not_sent(failure: Failure) -> Self {
        Self::of(Outcome::Failed(failure))
    }

    /// It may have gone, with all that is known. Such a failure is never retryable: only who knows that the provider
    /// deduplicates may try again.
    pub fn not_known(failure: Failure) -> Self {
        Self::of(Outcome::Unknown(failure.with_retryable(false)))
    }

    fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            message_id: String::new(),
            provider: String::new(),
            provider_id: None,
            response: None,
            accepted: Vec::new(),
            rejected: Vec::new(),
            attempts: Vec::new(),
            replayed: false,
            copied: false,
            deduplicated: false,
            first_at: None,
        }
    }

    /// The id under which it was, or was to be, sent.
    pub fn with_message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = id.into();
        self
    }

    /// The transport that answered.
    pub fn with_provider(mut self, provider: impl Into<String>) -> Self {
        self.provider = provider.into();
        self
    }

    /// The provider's own name of the message.
    pub fn with_provider_id(mut self, id: impl Into<String>) -> Self {
        self.provider_id = Some(id.into());
        self
    }

    /// What the provider said.
    pub fn with_response(mut self, response: impl Into<String>) -> Self {
        self.response = Some(response.into());
        self
    }

    /// The recipients it was taken for.
    pub fn with_accepted<R: Into<String>>(mut self, recipients: impl IntoIterator<Item = R>) -> Self {
        self.accepted = recipients.into_iter().map(Into::into).collect();
        self
    }

    /// The recipients it was not taken for.
    pub fn with_rejected(mut self, rejected: impl IntoIterator<Item = Rejected>) -> Self {
        self.rejected = rejected.into_iter().collect();
        self
    }

    /// Why it failed or is unknown.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Accepted => None,
            Outcome::Failed(failure) | Outcome::Unknown(failure) => Some(failure),
        }
    }

    /// The code of a failure.
    pub fn code(&self) -> Option<&str> {
        self.failure().map(|failure| &*failure.code)
    }

    /// Whether it was accepted, now or by an earlier send.
    pub fn is_accepted(&self) -> bool {
        matches!(self.outcome, Outcome::Accepted)
    }

    /// Whether it may have gone.
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown(_))
    }

    /// For `?`: what was sent, or why it was not, or may not have been.
    pub fn into_result(self) -> Result<Sent, NotAccepted> {
        match self.outcome {
            Outcome::Accepted => Ok(Sent {
                message_id: self.message_id,
                provider: self.provider,
                provider_id: self.provider_id,
                accepted: self.accepted,
                rejected: self.rejected,
                replayed: self.replayed,
            }),
            Outcome::Failed(failure) => Err(NotAccepted::Failed(failure)),
            Outcome::Unknown(failure) => Err(NotAccepted::Unknown(failure)),
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt")
            .field("outcome", &self.outcome)
            .field("message_id", &self.message_id)
            .field("provider", &self.provider)
            .field("accepted", &self.accepted.len())
            .field("rejected", &self.rejected.len())
            .field("attempts", &self.attempts.len())
            .field("replayed", &self.replayed)
            .field("copied", &self.copied)
            .field("deduplicated", &self.deduplicated)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("retryable", &self.retryable).finish_non_exhaustive()
    }
}

/// An accepted receipt; may be ignored, unlike a [`Receipt`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// The `Message-ID`.
    pub message_id: String,
    /// The transport that took it.
    pub provider: String,
    /// The provider's own name of the message.
    pub provider_id: Option<String>,
    /// The recipients it was taken for.
    pub accepted: Vec<String>,
    /// The recipients it was not taken for.
    pub rejected: Vec<Rejected>,
    /// Whether an earlier send under the key is answered for.
    pub replayed: bool,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent")
            .field("message_id", &self.message_id)
            .field("provider", &self.provider)
            .field("accepted", &self.accepted.len())
            .field("rejected", &self.rejected.len())
            .field("replayed", &self.replayed)
            .finish_non_exhaustive()
    }
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// Not sent, for certain.
    #[error("the message was not sent")]
    Failed(#[source] Failure),
    /// It may have gone.
    #[error("the message may have been sent")]
    Unknown(#[source] Failure),
}

impl NotAccepted {
    /// What is known.
    pub fn failure(&self) -> &Failure {
        match self {
            Self::Failed(failure) | Self::Unknown(failure) => failure,
        }
    }
}

/// So that a mail can be the effect of a `run`.
impl Classify for NotAccepted {
    fn class(&self) -> Class {
        match self {
            Self::Failed(_) => Class::Failed,
            Self::Unknown(_) => Class::Unknown,
        }
    }
}

impl Coded for NotAccepted {
    fn code(&self) -> &'static str {
        match &self.failure().code {
            Cow::Borrowed(code) => code,
            // Of a newer version, or of a transport of the caller's own.
            Cow::Owned(code) => known(code).unwrap_or("mail.other"),
        }
    }

    fn category(&self) -> Category {
        match self {
            Self::Failed(failure) => failure.category.broad(),
            Self::Unknown(_) => Category::Unknown,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Failed(Failure { retryable: true, retry_after, .. }) => {
                retry_after.map_or(Retry::Now, Retry::After)
            }
            Self::Failed(_) => Retry::Never,
            Self::Unknown(_) => Retry::OnlyWithSameKey,
        }
    }
}
