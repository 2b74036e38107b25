//! What is said and counted of each send. Nothing of it tells who wrote to whom about what.

use super::{
    Mail,
    around::{self, Around, transport_around},
};
use crate::{
    Failure, Message, Outcome, RawMessage, Receipt,
    transport::{Commit, SendContext, Stack, Transport},
};
use futures_core::stream::BoxStream;
use std::{borrow::Cow, time::Duration};
use tokio::time::Instant;

/// Logs and counts the sends of a transport.
///
/// A line has the transport, the outcome, code, category and stage, how long it took, how many recipients there were, and
/// the first sixteen digits of the mail's [digest](SendContext::mail_digest) to find it by: no address, subject, key or text.
/// What the provider said follows at level `debug`, with what looks like an address taken out.
///
/// Counted are `hapax_mail_sends_total` and `hapax_mail_send_seconds`: see `docs/metrics.md`.
#[derive(Debug)]
pub struct Observed<T> {
    inner: T,
}

impl<T: Transport> Observed<T> {
    /// Observes it.
    pub fn new(inner: T) -> Self {
        Self { inner }
    }
}

/// What is known before the receipt.
pub(super) struct Pass {
    begun: Instant,
    recipients: usize,
    digest: Option<String>,
}

impl<T: Transport> Around for Observed<T> {
    type Pass = Pass;

    async fn admit<'a>(&'a self, mail: Mail<'a>, context: &'a mut SendContext) -> Result<Pass, Box<Receipt>> {
        let recipients = match mail {
            Mail::Message(message) => message.recipients().count(),
            Mail::Raw(raw) => raw.to.len(),
        };
        Ok(Pass { begun: Instant::now(), recipients, digest: context.mail_digest() })
    }

    fn settle(&self, pass: Pass, receipt: &Receipt) {
        let elapsed = pass.begun.elapsed();
        count(self.inner.id(), receipt, elapsed);
        say(self.inner.id(), &pass, receipt, elapsed);
    }
}

fn outcome(receipt: &Receipt) -> &'static str {
    match receipt.outcome {
        Outcome::Accepted if receipt.replayed => "replayed",
        Outcome::Accepted => "accepted",
        Outcome::Failed(_) => "failed",
        Outcome::Unknown(_) => "unknown",
    }
}

fn count(transport: &str, receipt: &Receipt, elapsed: Duration) {
    let category = receipt.failure().map_or("none", |failure| failure.category.as_str());
    let transport = transport.to_owned();
    metrics::counter!(
        "hapax_mail_sends_total",
        "transport" => transport.clone(), "outcome" => outcome(receipt), "category" => category
    )
    .increment(1);
    metrics::histogram!("hapax_mail_send_seconds", "transport" => transport).record(elapsed.as_secs_f64());
}

fn say(transport: &str, pass: &Pass, receipt: &Receipt, elapsed: Duration) {
    let mail = pass.digest.as_deref().and_then(|digest| digest.get(..16)).unwrap_or("-");
    let (outcome, recipients, attempts) = (outcome(receipt), pass.recipients, receipt.attempts.len());
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    match &receipt.outcome {
        Outcome::Accepted => {
            let rejected = receipt.rejected.len();
            tracing::info!(transport, mail, outcome, recipients, rejected, attempts, ms, "a mail was sent");
        }
        Outcome::Failed(failure) | Outcome::Unknown(failure) => {
            let Failure { code, category, stage, .. } = failure;
            let (category, stage) = (category.as_str(), stage.as_deref().unwrap_or("-"));
            tracing::warn!(
                transport, mail, outcome, %code, category, stage, recipients, attempts, ms, "a mail was not sent, or may not have been"
            );
        }
    }
    if let Some(response) = &receipt.response {
        tracing::debug!(transport, mail, response = %redacted(response), "what the provider said");
    }
}

/// The text without the words that hold an `@`.
fn redacted(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let words: Vec<_> =
        text.split_whitespace().map(|word| if word.contains('@') { "…@…" } else { word }).collect();
    Cow::Owned(words.join(" "))
}

transport_around!(Observed, |this| this.inner.stack());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_out_of_what_is_said() {
        assert_eq!(redacted("550 no such user"), "550 no such user");
        assert_eq!(redacted("550 <ada@example.com>: no such user"), "550 …@… no such user");
        assert_eq!(redacted("{\"to\":\"ada@x\"} a b@c"), "…@… a …@…");
    }
}
