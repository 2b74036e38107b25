//! Providers that can be asked whether they have a message.

use super::{
    answer::Read,
    http::{Http, Request},
};
use crate::{Failure, Receipt, transport::mail_digest_of};
use async_trait::async_trait;
use hapax_core::{Fingerprint, Name, Timestamp};
use std::sync::Arc;

/// A message that may have gone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sought {
    /// Its [digest](crate::SendContext::mail_digest).
    pub digest: String,
    /// Its `Message-ID`, `<id@domain>`, where that is known.
    pub message_id: Option<String>,
    /// When it was first to be sent.
    pub since: Timestamp,
}

impl Sought {
    /// The message under a key, by what its record says.
    pub fn new(name: &Name, fingerprint: &Fingerprint, receipt: Option<&Receipt>, since: Timestamp) -> Self {
        let message_id = receipt.map(|receipt| receipt.message_id.clone()).filter(|id| !id.is_empty());
        Self { digest: mail_digest_of(name, fingerprint), message_id, since }
    }
}

/// What a provider says of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It has it.
    Yes {
        /// Its own name of it.
        provider_id: Option<String>,
    },
    /// It does not know it. Lists of providers may lag some minutes behind.
    No,
    /// It cannot tell: what it would be found by is not known.
    CannotTell,
}

/// A provider that can be asked whether it has a message.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Asks. Nothing is sent.
    ///
    /// # Errors
    /// It could not be asked, or its answer not read.
    async fn find(&self, sought: &Sought) -> Result<Found, Failure>;
}

pub(super) async fn ask(
    http: &Http,
    request: &Request,
    read: impl FnOnce(&Read<'_>) -> Option<Found> + Send,
) -> Result<Found, Failure> {
    let answer = http.call(request, Arc::new(|| {})).await.map_err(|trouble| *trouble.failure)?;
    let answered = Read::new(&answer);
    if (200..300).contains(&answered.status())
        && let Some(found) = read(&answered)
    {
        return Ok(found);
    }
    let verdict = answered.common(answered.json.is_some()).unwrap_or_else(|| answered.by_status());
    match verdict {
        super::Verdict::Failed(failure, _) | super::Verdict::Unknown(failure, _) => {
            Err(failure.with_http_status(answer.status))
        }
        super::Verdict::Accepted { .. } => Ok(Found::CannotTell),
    }
}
