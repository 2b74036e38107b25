//! Providers over HTTP.
//!
//! What may have gone is told by one rule for all of them: nothing has while the last piece of the request had not left; from
//! then on, only what the provider itself answers is known. An answer in another form than the provider's (a page of a proxy,
//! a status of 408, 500, 502 or 504) leaves the outcome unknown.
//!
//! | provider | batch | recognises a message that it was given before |
//! |---|---|---|
//! | [`Resend`] | 100 | by key, for 24 h |
//! | [`Postmark`] | 500 | |
//! | [`SendGrid`] | | |
//! | [`Mailgun`] | | |
//! | [`Brevo`] | | by key, for 15 min |
//! | `Ses` (feature `ses`) | | |
//!
//! Keys of providers come from the caller or the environment. They are in no log, error or `Debug`. Redirects are not followed,
//! proxies of the environment not used, and nothing is sent a second time by itself.

mod answer;
mod batch;
mod brevo;
pub(crate) mod http;
mod lookup;
mod mailgun;
mod parts;
mod postmark;
mod resend;
mod sendgrid;
#[cfg(feature = "ses")]
mod ses;

pub use brevo::Brevo;
pub use lookup::{Found, Lookup, Sought};
pub use mailgun::Mailgun;
pub use postmark::Postmark;
pub use resend::Resend;
pub use sendgrid::SendGrid;
#[cfg(feature = "ses")]
pub use ses::Ses;

use crate::{
    Failure, FailureScope, Frozen, InvalidTransport, MailCategory, Message, RawMessage, Receipt, envelope,
    receipt::Attempt,
    transport::{Commit, SendContext, frozen_or_random, frozen_raw, invalid, no_chance},
};
use answer::Verdict;
use hapax_core::{Clock, SystemClock};
use http::{Answer, Http, Request};
use std::sync::Arc;

/// What one provider has of its own.
pub(crate) trait Provider: Send + Sync {
    const ID: &'static str;

    fn http(&self) -> &Http;

    /// The request of a message.
    fn request(&self, message: &Message, context: &SendContext, frozen: &Frozen) -> Result<Request, Failure>;

    /// The request of a mail that is ready; few providers take one.
    fn raw_request(
        &self,
        raw: &RawMessage,
        context: &SendContext,
        frozen: &Frozen,
    ) -> Result<Request, Failure> {
        let _ = (raw, context, frozen);
        Err(unsupported("it takes no mails that are ready, only messages"))
    }

    /// What an answer says.
    fn judge(&self, answer: &Answer) -> Verdict;
}

/// What a provider cannot do. Another may.
pub(crate) fn unsupported(reason: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::new(MailCategory::Validation, "message.unsupported")
        .with_scope(FailureScope::Provider)
        .with_detail(reason)
}

/// Sends one message.
pub(crate) async fn send<P: Provider>(provider: &P, message: &Message, context: &SendContext) -> Receipt {
    let frozen = match frozen_or_random(message, context, SystemClock.now()) {
        Ok(frozen) => frozen,
        Err(error) => return ended::<P>(Receipt::not_sent(no_chance(&error)), "", Vec::new),
    };
    let receipt = match provider.request(message, context, &frozen) {
        Ok(request) => context.guard(Commit::Supported, exchange(provider, &request, context)).await,
        Err(failure) => Receipt::not_sent(failure),
    };
    ended::<P>(receipt, &frozen.message_id, || envelope(message).to)
}

/// Sends one mail that is ready.
pub(crate) async fn send_raw<P: Provider>(provider: &P, raw: &RawMessage, context: &SendContext) -> Receipt {
    let envelope = match raw.check().and_then(|()| raw.envelope()) {
        Ok(envelope) => envelope,
        Err(faults) => return ended::<P>(Receipt::not_sent(invalid(&faults)), "", Vec::new),
    };
    let frozen = match frozen_raw(raw, context, SystemClock.now()) {
        Ok(frozen) => frozen,
        Err(error) => return ended::<P>(Receipt::not_sent(no_chance(&error)), "", Vec::new),
    };
    let receipt = match provider.raw_request(raw, context, &frozen) {
        Ok(request) => context.guard(Commit::Supported, exchange(provider, &request, context)).await,
        Err(failure) => Receipt::not_sent(failure),
    };
    let id = raw.message_id().unwrap_or_else(|| frozen.message_id.clone());
    ended::<P>(receipt, &id, || envelope.to)
}

async fn exchange<P: Provider>(provider: &P, request: &Request, context: &SendContext) -> Receipt {
    let committing = context.clone();
    let answered = provider.http().call(request, Arc::new(move || committing.commit())).await;
    match answered {
        Ok(answer) => provider.judge(&answer).into_receipt(answer.status),
        Err(trouble) if trouble.committed => Receipt::not_known(*trouble.failure),
        Err(trouble) => Receipt::not_sent(*trouble.failure),
    }
}

/// Completes a receipt.
pub(crate) fn ended<P: Provider>(
    receipt: Receipt,
    message_id: &str,
    recipients: impl FnOnce() -> Vec<String>,
) -> Receipt {
    finished(P::ID, receipt, message_id, recipients)
}

fn finished(
    id: &'static str,
    mut receipt: Receipt,
    message_id: &str,
    recipients: impl FnOnce() -> Vec<String>,
) -> Receipt {
    if receipt.message_id.is_empty() {
        message_id.clone_into(&mut receipt.message_id);
    }
    if receipt.is_accepted() && receipt.accepted.is_empty() && receipt.rejected.is_empty() {
        receipt.accepted = recipients();
    }
    let code = receipt.failure().map(|failure| failure.code.clone());
    receipt.attempts = vec![Attempt::new(id, code)];
    receipt.with_provider(id)
}

/// The key of a provider, from the environment.
pub(crate) fn from_env(variable: &str) -> Result<String, InvalidTransport> {
    match std::env::var(variable) {
        Ok(key) if !key.trim().is_empty() => Ok(key.trim().to_owned()),
        Ok(_) | Err(std::env::VarError::NotPresent) => Err(InvalidTransport::new(format!(
            "the environment has no {variable}: set it to the key of the provider"
        ))),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(InvalidTransport::new(format!("{variable} is not UTF-8")))
        }
    }
}

/// The methods of [`Transport`](crate::Transport) of a provider without a batch of its own.
macro_rules! transport_of_a_provider {
    ($name:ident $(, batch = $batch:expr)? $(, dedupes_for = $window:expr)?) => {
        #[async_trait::async_trait]
        impl $crate::Transport for $name {
            fn id(&self) -> &str {
                <Self as Provider>::ID
            }

            async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
                $crate::provider::send(self, message, context).await
            }

            async fn send_raw(&self, raw: &$crate::RawMessage, context: &SendContext) -> Receipt {
                $crate::provider::send_raw(self, raw, context).await
            }

            $(
                fn send_many<'a>(
                    &'a self,
                    messages: futures_core::stream::BoxStream<'a, (Message, SendContext)>,
                ) -> futures_core::stream::BoxStream<'a, Receipt> {
                    $crate::provider::batch::send_many(self, $batch, messages)
                }
            )?

            fn commit(&self) -> $crate::Commit {
                $crate::Commit::Supported
            }

            $(
                fn dedupes_for(&self) -> Option<std::time::Duration> {
                    let window: fn(&Self) -> Option<std::time::Duration> = $window;
                    window(self)
                }
            )?

            fn stack(&self) -> $crate::Stack {
                $crate::Stack::bounded(self.http.longest())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("endpoint", self.http.endpoint()).finish_non_exhaustive()
            }
        }

        impl $name {
            /// Another place than the provider's own: a region, or a stand-in for tests. `https://HOST`; without TLS on this
            /// machine alone.
            ///
            /// # Errors
            /// The text is no such place.
            pub fn with_endpoint(mut self, url: &str) -> Result<Self, $crate::InvalidTransport> {
                self.http = self.http.elsewhere($crate::provider::http::Endpoint::parse(url)?);
                Ok(self)
            }

            /// How long a connection may take to be made (15 s), and an exchange from the first byte of the request to the last
            /// of the answer (60 s).
            #[must_use]
            pub fn with_times(mut self, connect: std::time::Duration, exchange: std::time::Duration) -> Self {
                self.http = self.http.within($crate::provider::http::Times { connect, exchange });
                self
            }
        }
    };
}
pub(crate) use transport_of_a_provider;
