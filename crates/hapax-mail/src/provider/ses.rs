//! Amazon SES, by its API v2: <https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html>
//!
//! The SDK of AWS writes and signs the request, which then leaves the way of all providers ([`wire`]), so that what may have gone
//! is seen as exactly. The SDK repeats nothing: it would repeat what had no answer in time.

mod answer;
mod wire;

use super::{
    finished, from_env,
    http::{Endpoint, Http, Times},
    parts::Recipients,
    unsupported,
};
use crate::{
    Failure, InvalidTransport, MailCategory, Message, RawMessage, Receipt,
    transport::{Commit, Ready, SendContext, Stack, Transport},
};
use aws_sdk_sesv2::{
    Client,
    config::{
        BehaviorVersion, Config, Credentials, IdentityCache, Region, StalledStreamProtectionConfig,
        retry::RetryConfig, timeout::TimeoutConfig,
    },
    primitives::Blob,
    types::{Destination, EmailContent, MessageTag, RawMessage as RawContent},
};
use hapax_core::{Clock, SystemClock};
use std::{fmt, sync::Arc, time::Duration};
use wire::Wire;

const ID: &str = "ses";

/// SES takes so many recipients of a message.
const MOST_RECIPIENTS: usize = 50;

/// The name under which a mail's digest is in the events that SES publishes.
const DIGEST: &str = "hapax-mail";

/// Sends via Amazon SES, as bytes that are ready: what other transports send, it sends. It recognises nothing that it was given
/// before.
///
/// Recipients stand in the request beside the bytes, hidden ones too. SES gives the message an id of its own, which the receipt
/// has, and signs it by itself. Metadata become its tags; the digest of the mail is one of them (`hapax-mail`). Tags without a
/// value, times to send at, settings of tracking and addresses with other than ASCII before the `@` are refused as
/// `message.unsupported`.
pub struct Ses {
    http: Arc<Http>,
    region: String,
    credentials: Credentials,
    configuration_set: Option<String>,
    client: Client,
}

impl Ses {
    /// With an access key, in a region such as `eu-west-1`. The token belongs to keys that are lent for a time.
    ///
    /// # Errors
    /// The region is none.
    pub fn new(
        region: impl Into<String>,
        access_key_id: impl Into<String>,
        secret_access_key: impl Into<String>,
        session_token: Option<String>,
    ) -> Result<Self, InvalidTransport> {
        let region = region.into();
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if region.is_empty() || !region.bytes().all(fits) {
            return Err(InvalidTransport::new("SES needs a region, such as `eu-west-1`"));
        }
        let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let endpoint = Endpoint::parse(&format!("https://email.{region}.{suffix}"))?;
        let credentials = Credentials::new(access_key_id, secret_access_key, session_token, None, "hapax");
        let client = client(&endpoint, &region, &credentials);
        Ok(Self { http: Arc::new(Http::new(endpoint)), region, credentials, configuration_set: None, client })
    }

    /// With the access key in `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, and the token in `AWS_SESSION_TOKEN`, if there is
    /// one.
    ///
    /// # Errors
    /// The region is none, or the environment has no key.
    pub fn from_env(region: impl Into<String>) -> Result<Self, InvalidTransport> {
        let token = std::env::var("AWS_SESSION_TOKEN").ok().filter(|token| !token.trim().is_empty());
        Self::new(region, from_env("AWS_ACCESS_KEY_ID")?, from_env("AWS_SECRET_ACCESS_KEY")?, token)
    }

    /// Sends under a configuration set, whose events tell what became of a mail.
    #[must_use]
    pub fn with_configuration_set(mut self, name: impl Into<String>) -> Self {
        self.configuration_set = Some(name.into());
        self
    }

    /// Another place than that of the region: a stand-in for tests, or one of a network of its own. `https://HOST`; without TLS
    /// on this machine alone.
    ///
    /// # Errors
    /// The text is no such place.
    pub fn with_endpoint(mut self, url: &str) -> Result<Self, InvalidTransport> {
        let endpoint = Endpoint::parse(url)?;
        self.client = client(&endpoint, &self.region, &self.credentials);
        self.http = Arc::new(self.http.elsewhere(endpoint));
        Ok(self)
    }

    /// How long a connection may take to be made (15 s), and an exchange from the first byte of the request to the last of the
    /// answer (60 s).
    #[must_use]
    pub fn with_times(mut self, connect: Duration, exchange: Duration) -> Self {
        self.http = Arc::new(self.http.within(Times { connect, exchange }));
        self
    }

    async fn deliver(
        &self,
        ready: Ready,
        to: Destination,
        tags: Vec<MessageTag>,
        context: &SendContext,
    ) -> Receipt {
        let Ready { bytes, envelope, message_id, .. } = ready;
        if envelope.smtputf8 {
            return not_sent(&message_id, unsupported("it takes ASCII alone before the `@` of an address"));
        }
        if envelope.to.len() > MOST_RECIPIENTS {
            return not_sent(&message_id, unsupported("it takes 50 recipients of a message, not more"));
        }
        let send = Box::pin(self.exchange(bytes.into(), to, tags, context));
        let receipt = context.guard(Commit::Supported, send).await;
        finished(ID, receipt, &message_id, || envelope.to)
    }

    async fn exchange(
        &self,
        bytes: Vec<u8>,
        to: Destination,
        mut tags: Vec<MessageTag>,
        context: &SendContext,
    ) -> Receipt {
        tags.extend(context.mail_digest().and_then(|digest| tag(DIGEST, &digest)));
        let content = match RawContent::builder().data(Blob::new(bytes)).build() {
            Ok(raw) => EmailContent::builder().raw(raw).build(),
            Err(error) => return Receipt::not_sent(request(&error)),
        };
        let committing = context.clone();
        let wire = Wire::new(Arc::clone(&self.http), Arc::new(move || committing.commit()));
        let asked = self
            .client
            .send_email()
            .destination(to)
            .content(content)
            .set_email_tags((!tags.is_empty()).then_some(tags))
            .set_configuration_set_name(self.configuration_set.clone())
            .customize()
            .config_override(Config::builder().http_client(wire.clone().client()))
            .send()
            .await;
        match (wire.came(), asked) {
            (Some(Ok(answer)), _) => answer::judge(&answer, &self.region).into_receipt(answer.status),
            (Some(Err(trouble)), _) if trouble.committed => Receipt::not_known(*trouble.failure),
            (Some(Err(trouble)), _) => Receipt::not_sent(*trouble.failure),
            (None, Err(error)) => Receipt::not_sent(request(&error)),
            (None, Ok(_)) => Receipt::not_sent(request(&"no request was made")),
        }
    }
}

fn not_sent(message_id: &str, failure: Failure) -> Receipt {
    finished(ID, Receipt::not_sent(failure), message_id, Vec::new)
}

/// What the SDK did not make a request of. Its words may name what it was given, and are left out.
fn request(_: &dyn fmt::Display) -> Failure {
    Failure::new(MailCategory::Validation, "http.request")
        .with_stage("write")
        .with_detail("no request can be made of the message")
}

fn client(endpoint: &Endpoint, region: &str, credentials: &Credentials) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(region.to_owned()))
        .credentials_provider(credentials.clone())
        .endpoint_url(endpoint.url())
        .identity_cache(IdentityCache::no_cache())
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    Client::from_conf(config)
}

fn tag(name: &str, value: &str) -> Option<MessageTag> {
    MessageTag::builder().name(name).value(value).build().ok()
}

/// What SES does not take, and its tags.
fn options(message: &Message, now: hapax_core::Timestamp) -> Result<Vec<MessageTag>, Failure> {
    if message.tracking().opens.is_some() || message.tracking().clicks.is_some() {
        return Err(unsupported("it has settings of tracking for a configuration set, not for a message"));
    }
    if message.send_at().is_some_and(|at| at > now) {
        return Err(unsupported("send_at: it sends at once"));
    }
    if !message.tags().is_empty() {
        return Err(unsupported("its tags have a name and a value: give metadata"));
    }
    let word = |text: &str, more: &[u8]| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b) || more.contains(&b);
        (1..=256).contains(&text.len()) && text.bytes().all(fits)
    };
    let pairs = message.metadata().iter().map(|(name, value)| {
        let made = if word(name, b"") && word(value, b"@.") { tag(name, value) } else { None };
        made.ok_or_else(|| unsupported("its tags have names and values of letters, digits, `-` and `_`"))
    });
    pairs.collect()
}

fn texts(addresses: &[&crate::Address]) -> Option<Vec<String>> {
    (!addresses.is_empty()).then(|| addresses.iter().map(|address| address.wire_form()).collect())
}

#[async_trait::async_trait]
impl Transport for Ses {
    fn id(&self) -> &str {
        ID
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        let now = SystemClock.now();
        let ready = match Ready::of(message, context, now) {
            Ok(ready) => ready,
            Err(not) => return not_sent(&not.message_id, not.failure),
        };
        let tags = match options(message, now) {
            Ok(tags) => tags,
            Err(failure) => return not_sent(&ready.message_id, failure),
        };
        let recipients = Recipients::of(message);
        let to = Destination::builder()
            .set_to_addresses(texts(&recipients.to))
            .set_cc_addresses(texts(&recipients.cc))
            .set_bcc_addresses(texts(&recipients.bcc))
            .build();
        self.deliver(ready, to, tags, context).await
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        let ready = match Ready::of_raw(raw, context, SystemClock.now()) {
            Ok(ready) => ready,
            Err(not) => return not_sent(&not.message_id, not.failure),
        };
        let to = Destination::builder().set_to_addresses(Some(ready.envelope.to.clone())).build();
        self.deliver(ready, to, Vec::new(), context).await
    }

    fn commit(&self) -> Commit {
        Commit::Supported
    }

    fn stack(&self) -> Stack {
        Stack::bounded(self.http.longest())
    }
}

impl fmt::Debug for Ses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ses")
            .field("region", &self.region)
            .field("endpoint", self.http.endpoint())
            .finish_non_exhaustive()
    }
}
