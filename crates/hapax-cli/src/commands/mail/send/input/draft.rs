//! From an entry of the input to what is sent.

use super::{
    keys::{self, KeyTemplate},
    problem::{Problem, Problems},
    source::{Entry, Source},
    template::Template,
};
use hapax::{
    Key,
    core::Fingerprint,
    mail::{Message, MessageJson, RawMessage, Stamp, jobs::QueuedMail},
};

/// Turns entries into drafts.
#[derive(Debug, Default)]
pub(crate) struct Drafter {
    pub(crate) template: Option<Template>,
    pub(crate) key_template: Option<KeyTemplate>,
}

/// A message whose attachments have not been read.
#[derive(Debug)]
pub(crate) struct Draft {
    content: Content,
    /// Of `--key-template`.
    key: Option<String>,
}

#[derive(Debug)]
enum Content {
    Json(Box<MessageJson>),
    Mail { raw: RawMessage, digest: [u8; 16] },
}

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    Message(Message),
    Raw(RawMessage),
}

impl Drafter {
    /// The entry that begins at `line` of `source`, checked.
    pub(crate) fn draft(&self, entry: Entry<'_>, line: u64, source: &Source) -> Result<Draft, Problems> {
        let (content, row) = match entry {
            Entry::Bad(problems) => return Err(problems),
            Entry::Line(line) => (Content::Json(Box::new(MessageJson::from_bytes(line)?)), None),
            Entry::Row(row) => {
                let template = self
                    .template
                    .as_ref()
                    .ok_or_else(|| Problem::new("", "message.syntax", "there is no template"))?;
                let json = Message::from_json_line(&template.line(&row)?)?;
                (Content::Json(Box::new(json)), Some(row))
            }
            Entry::Mail(bytes) => {
                let raw = RawMessage::from_eml(&bytes)?;
                (Content::Mail { raw, digest: digest(&bytes) }, None)
            }
        };
        let mut draft = Draft { content, key: None };
        if let (Some(template), false) = (&self.key_template, draft.has_key()) {
            let context = keys::Context { line, file: &source.shown, row: row.as_ref() };
            let key = match &draft.content {
                Content::Json(json) => template.of_message(json.message(), context)?,
                Content::Mail { raw, .. } => template.of_mail(raw, context)?,
            };
            Key::new(&key).map_err(|error| {
                Problem::new("idempotency_key", "message.idempotency_key", error.to_string())
            })?;
            draft.key = Some(key);
        }
        Ok(draft)
    }
}

impl Draft {
    fn has_key(&self) -> bool {
        match &self.content {
            Content::Json(json) => json.message().idempotency_key().is_some(),
            Content::Mail { raw, .. } => raw.idempotency_key.is_some(),
        }
    }

    /// As it is kept and shown.
    pub(crate) fn key(&self) -> Option<Key> {
        match (&self.key, &self.content) {
            (Some(key), _) => Key::new(key).ok(),
            (None, Content::Json(json)) => json.message().idempotency_key().cloned(),
            (None, Content::Mail { .. }) => None,
        }
    }

    /// The message, unless it is a mail that is ready.
    pub(crate) fn message(&self) -> Option<&Message> {
        match &self.content {
            Content::Json(json) => Some(json.message()),
            Content::Mail { .. } => None,
        }
    }

    /// Whether files have to be read before it can be sent.
    pub(crate) fn has_files(&self) -> bool {
        matches!(&self.content, Content::Json(json) if json.has_files())
    }

    /// What it looks like now, with the files of its attachments, which have to be there.
    pub(crate) fn inspect(&self, source: &Source) -> Result<Stamp, Problems> {
        match &self.content {
            Content::Json(json) => Ok(json.inspect(&source.folder)?),
            Content::Mail { digest, .. } => Ok(Stamp::from_bytes(*digest)),
        }
    }

    /// With its attachments, if it still looks as it did.
    pub(crate) fn load(self, source: &Source, expected: Option<Stamp>) -> Result<Mail, Problems> {
        match self.content {
            Content::Json(json) => {
                let message = json.load(&source.folder, expected)?;
                Ok(Mail::Message(match &self.key {
                    Some(key) => message.with_idempotency_key(key)?,
                    None => message,
                }))
            }
            Content::Mail { digest, .. }
                if expected.is_some_and(|expected| expected.to_bytes() != digest) =>
            {
                Err(changed())
            }
            Content::Mail { mut raw, .. } => {
                raw.idempotency_key = self.key;
                Ok(Mail::Raw(raw))
            }
        }
    }
}

impl Mail {
    /// As it is kept and shown.
    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Message(message) => message.idempotency_key().cloned(),
            Self::Raw(raw) => raw.idempotency_key.as_deref().and_then(|key| Key::new(key).ok()),
        }
    }

    /// About as much memory as it takes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Message(message) => {
                let text = message.text().map_or(0, str::len) + message.html().map_or(0, str::len);
                message.attachments().iter().fold(text, |sum, attachment| sum + attachment.bytes().len())
            }
            Self::Raw(raw) => raw.bytes.len(),
        }
    }
}

impl From<Mail> for QueuedMail {
    fn from(mail: Mail) -> Self {
        match mail {
            Mail::Message(message) => Self::Message(message),
            Mail::Raw(raw) => Self::Raw(raw),
        }
    }
}

/// It is not what was checked.
pub(crate) fn changed() -> Problems {
    Problem::new("", "message.changed", "it changed between the check and the send").into()
}

fn digest(bytes: &[u8]) -> [u8; 16] {
    let whole = Fingerprint::of_bytes(bytes);
    let mut short = [0; 16];
    short.iter_mut().zip(whole.digest()).for_each(|(to, from)| *to = *from);
    short
}

/// Where an entry is, for people: `FILE:LINE`, or `FILE` for a mail of its own.
pub(crate) fn place(source: &Source, line: u64) -> String {
    match line {
        0 => source.shown.clone(),
        line => format!("{}:{line}", source.shown),
    }
}
