//! Mails as files: one `.eml` a message, in a folder.
//!
//! A mail is written to a hidden file beside its place, synced, and linked to its name: a name appears with all its
//! bytes or not at all, and a name that is there is never written again. The folder is synced before the receipt.

mod folder;
mod sync;

use super::{Commit, Ready, SendContext, Transport, context::digest_of_key, no_chance};
use crate::{
    Failure, MailCategory, Message, RawMessage, Receipt, fingerprint, fingerprint_raw, receipt::Attempt,
};
use async_trait::async_trait;
use folder::{Folder, Placed, Turn};
use hapax_core::{Clock, SystemClock, Token};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Writes each message to a file in a folder.
///
/// The name is a digest of the key and the message, so that the same mail is in the folder once, however often it is
/// sent: the second send is accepted, [`deduplicated`](Receipt::deduplicated). A mail without a key is named by the time
/// and chance. The folder is made at the first send; hidden files that dead processes left are removed then.
///
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox {
    folder: Arc<Folder>,
    clock: Arc<dyn Clock>,
}

impl Outbox {
    /// An outbox in the folder `dir`.
    pub fn new(dir: impl AsRef<Path>) -> Self {
        Self { folder: Arc::new(Folder::new(dir.as_ref().to_owned())), clock: Arc::new(SystemClock) }
    }

    /// On another clock: for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Whether mails can be written: makes the folder, and leaves nothing in it.
    ///
    /// # Errors
    /// What a send would answer: `file.not_a_folder`, `file.unwritable`, `file.unsupported`, `file.disk_full`, `file.io`.
    pub async fn check(&self) -> Result<(), Failure> {
        let (folder, now) = (Arc::clone(&self.folder), self.clock.now());
        match tokio::task::spawn_blocking(move || folder.check(now)).await {
            Ok(checked) => checked,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            // The runtime is ending: no mail will be written.
            Err(_) => Ok(()),
        }
    }

    /// Where the mail that a receipt is about lies.
    pub fn path_of(&self, receipt: &Receipt) -> Option<PathBuf> {
        receipt.provider_id.as_ref().map(|name| self.folder.path().join(name))
    }

    /// Writes a mail, under the name that its digest gives.
    async fn deliver(&self, mail: Ready, digest: Option<String>, context: &SendContext) -> Receipt {
        let name = match digest {
            Some(digest) => format!("{digest}.eml"),
            None => match self.name_by_chance() {
                Ok(name) => name,
                Err(failure) => return self.not_sent(&mail.message_id, failure),
            },
        };
        let (turn, guard) = Turn::new(context.clone());
        let (folder, now, bytes, place) =
            (Arc::clone(&self.folder), self.clock.now(), mail.bytes, name.clone());
        let placed = tokio::task::spawn_blocking(move || folder.place(&place, &bytes, now, &turn)).await;
        // Only now: a send that is dropped while the task runs ends it, or learns that it had come too far.
        guard.disarm();
        let accepted = |deduplicated| {
            let mut receipt = Receipt::accepted().with_accepted(mail.envelope.to).with_provider_id(name);
            receipt.deduplicated = deduplicated;
            receipt
        };
        match placed {
            Ok(Placed::New) => self.finished(accepted(false), mail.message_id),
            Ok(Placed::There) => self.finished(accepted(true), mail.message_id),
            Ok(Placed::NotSynced(failure)) => self.finished(Receipt::not_known(failure), mail.message_id),
            Ok(Placed::Failed(failure)) => self.not_sent(&mail.message_id, failure),
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            // Without an answer the runtime is ending and never ran the task.
            Ok(Placed::Stopped) | Err(_) => {
                self.not_sent(&mail.message_id, Failure::new(MailCategory::Cancelled, "mail.cancelled"))
            }
        }
    }

    fn name_by_chance(&self) -> Result<String, Failure> {
        let token = Token::random().map_err(|error| no_chance(&error))?;
        Ok(format!("{:013}-{}.eml", self.clock.now().as_millis(), hex::encode(token.as_bytes())))
    }

    fn not_sent(&self, message_id: &str, failure: Failure) -> Receipt {
        self.finished(Receipt::not_sent(failure), message_id.to_owned())
    }

    fn finished(&self, receipt: Receipt, message_id: String) -> Receipt {
        let code = receipt.failure().map(|failure| failure.code.clone());
        let mut receipt = receipt.with_provider(self.id()).with_message_id(message_id);
        receipt.attempts = vec![Attempt::new(self.id(), code)];
        receipt
    }
}

#[async_trait]
impl Transport for Outbox {
    fn id(&self) -> &'static str {
        "file"
    }

    async fn send(&self, message: &Message, context: &SendContext) -> Receipt {
        let of_key =
            || message.idempotency_key().map(|key| digest_of_key(key.as_str(), &fingerprint(message)));
        match Ready::of(message, context, self.clock.now()) {
            Ok(mail) => {
                let digest = context.mail_digest().or_else(of_key);
                context.guard(Commit::Supported, self.deliver(mail, digest, context)).await
            }
            Err(not) => self.not_sent(&not.message_id, not.failure),
        }
    }

    async fn send_raw(&self, raw: &RawMessage, context: &SendContext) -> Receipt {
        let of_key = || raw.idempotency_key.as_ref().map(|key| digest_of_key(key, &fingerprint_raw(raw)));
        match Ready::of_raw(raw, context, self.clock.now()) {
            Ok(mail) => {
                let digest = context.mail_digest().or_else(of_key);
                context.guard(Commit::Supported, self.deliver(mail, digest, context)).await
            }
            Err(not) => self.not_sent(&not.message_id, not.failure),
        }
    }

    fn commit(&self) -> Commit {
        Commit::Supported
    }

    /// A name is never given twice.
    fn dedupes_for(&self) -> Option<Duration> {
        Some(Duration::MAX)
    }
}
