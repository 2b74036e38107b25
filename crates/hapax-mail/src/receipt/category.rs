//! Who is to blame for a failure, and whom it concerns.

use hapax_core::Category;

/// Who is to blame for a failure. Says nothing about whether the message may have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MailCategory {
    /// The message is wrong, everywhere.
    Validation,
    /// The sender, domain or template is wrong at this provider.
    Configuration,
    /// Credentials, a signature, or a suspended account.
    Auth,
    /// Too much in a time.
    RateLimit,
    /// The provider, or the folder, could not be reached.
    Network,
    /// A deadline passed.
    Timeout,
    /// The provider says: not now.
    Service,
    /// The provider says: never.
    Rejected,
    /// The caller stopped it before anything could be delivered.
    Cancelled,
    /// Made here without asking the provider, or an answer that tells nothing.
    Unknown,
}

impl MailCategory {
    const ALL: [Self; 10] = [
        Self::Validation,
        Self::Configuration,
        Self::Auth,
        Self::RateLimit,
        Self::Network,
        Self::Timeout,
        Self::Service,
        Self::Rejected,
        Self::Cancelled,
        Self::Unknown,
    ];

    /// The word used in JSON and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Configuration => "configuration",
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Service => "service",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }

    /// A word of a newer version counts as unknown.
    pub(super) fn from_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|category| category.as_str() == word).unwrap_or(Self::Unknown)
    }

    /// Whether a failure of this kind may pass by itself.
    pub(crate) const fn passes(self) -> bool {
        matches!(self, Self::RateLimit | Self::Network | Self::Timeout | Self::Service)
    }

    /// Whom it concerns unless more is known.
    pub(super) const fn scope(self) -> FailureScope {
        match self {
            Self::Validation | Self::Rejected => FailureScope::Message,
            Self::Configuration
            | Self::Auth
            | Self::RateLimit
            | Self::Network
            | Self::Timeout
            | Self::Service => FailureScope::Provider,
            Self::Cancelled | Self::Unknown => FailureScope::Local,
        }
    }

    /// Among the categories that all errors of hapax have.
    pub(super) const fn broad(self) -> Category {
        match self {
            Self::Validation | Self::Configuration | Self::Rejected => Category::Validation,
            Self::RateLimit => Category::Limited,
            Self::Auth | Self::Network | Self::Timeout | Self::Service => Category::Unavailable,
            Self::Cancelled => Category::Conflict,
            Self::Unknown => Category::Unknown,
        }
    }
}

/// Whom a failure concerns: whether another message, another recipient or another provider could fare better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureScope {
    /// This message.
    Message,
    /// Its recipients.
    Recipient,
    /// This provider.
    Provider,
    /// This process.
    Local,
}

impl FailureScope {
    const ALL: [Self; 4] = [Self::Message, Self::Recipient, Self::Provider, Self::Local];

    /// The word used in stored receipts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Recipient => "recipient",
            Self::Provider => "provider",
            Self::Local => "local",
        }
    }

    /// A word of a newer version: nothing more can be said than that it failed here.
    pub(super) fn from_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word).unwrap_or(Self::Local)
    }
}
