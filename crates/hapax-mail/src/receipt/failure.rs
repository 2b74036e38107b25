//! Why a message was not sent, or may not have been.

use super::{FailureScope, MailCategory};
use std::{borrow::Cow, fmt, time::Duration};

/// Why a message was not sent, or why nobody knows whether it was.
///
/// `Display` and `Debug` show codes and hapax's own words, never what a provider said.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Who is to blame.
    pub category: MailCategory,
    /// `area.reason`, stable.
    pub code: Cow<'static, str>,
    /// Whether the same message may be sent again, as it is.
    pub retryable: bool,
    /// Whom it concerns.
    pub scope: FailureScope,
    /// Not before this much time has passed.
    pub retry_after: Option<Duration>,
    /// How far the send had come.
    pub stage: Option<Cow<'static, str>>,
    /// The code of an SMTP reply.
    pub smtp_status: Option<u16>,
    /// The enhanced status code of an SMTP reply, such as `5.1.1`.
    pub enhanced_status: Option<Box<str>>,
    /// The status of an HTTP response.
    pub http_status: Option<u16>,
    /// One sentence of hapax's own, without addresses and secrets.
    pub detail: Option<Cow<'static, str>>,
}

impl Failure {
    /// A failure. Whether it is retryable and whom it concerns follow from the category.
    pub fn new(category: MailCategory, code: impl Into<Cow<'static, str>>) -> Self {
        Self {
            category,
            code: code.into(),
            retryable: category.passes(),
            scope: category.scope(),
            retry_after: None,
            stage: None,
            smtp_status: None,
            enhanced_status: None,
            http_status: None,
            detail: None,
        }
    }

    /// Whether the same message may be sent again.
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// Whom it concerns.
    #[must_use]
    pub fn with_scope(mut self, scope: FailureScope) -> Self {
        self.scope = scope;
        self
    }

    /// Not before this much time has passed.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// How far the send had come.
    #[must_use]
    pub fn with_stage(mut self, stage: impl Into<Cow<'static, str>>) -> Self {
        self.stage = Some(stage.into());
        self
    }

    /// The codes of an SMTP reply.
    #[must_use]
    pub fn with_smtp_status(mut self, status: u16, enhanced: Option<&str>) -> Self {
        self.smtp_status = Some(status);
        self.enhanced_status = enhanced.map(Box::from);
        self
    }

    /// The status of an HTTP response.
    #[must_use]
    pub fn with_http_status(mut self, status: u16) -> Self {
        self.http_status = Some(status);
        self
    }

    /// One sentence, without addresses and secrets.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{detail} ({})", self.code),
            None => f.write_str(&self.code),
        }
    }
}

impl std::error::Error for Failure {}
