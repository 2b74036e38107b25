//! From JSON to the parts of a message. Every fault is noted with its field; none ends the reading.

use super::{FileRef, node::Node, type_by_ending};
use crate::message::{Attachment, Fault, InvalidMessage, MessageBuilder, header::shown};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hapax_core::Timestamp;
use std::{borrow::Cow, path::PathBuf};

const FIELDS: &[&str] = &[
    "from",
    "sender",
    "to",
    "cc",
    "bcc",
    "reply_to",
    "subject",
    "text",
    "html",
    "headers",
    "attachments",
    "idempotency_key",
    "in_reply_to",
    "references",
    "message_id",
    "metadata",
    "tags",
    "send_at",
    "tracking",
    "unsubscribe",
];
const ATTACHMENT_FIELDS: &[&str] = &["filename", "content_type", "path", "base64", "cid"];
const TRACKING_FIELDS: &[&str] = &["opens", "clicks"];
const UNSUBSCRIBE_FIELDS: &[&str] = &["url", "mailto"];

type Read = (MessageBuilder, Vec<FileRef>, Vec<Fault>);
type Fields<'t> = Vec<(Cow<'t, str>, Node<'t>)>;

/// Reads a line. Only what is no JSON object ends it at once.
pub(super) fn read(line: &str) -> Result<Read, InvalidMessage> {
    let node: Node<'_> = serde_json::from_str(line).map_err(|e| {
        // The library's own words name what it expected and where, and repeat nothing of the line.
        let reason = format!("the line is no valid JSON: {e}").replace(" at line 1 column ", " at column ");
        InvalidMessage::from(Fault::new("", "message.syntax", reason))
    })?;
    let Node::Object(fields) = node else {
        let reason = format!("expected a JSON object, found {}", node.kind());
        return Err(Fault::new("", "message.syntax", reason).into());
    };
    let mut reader = Reader::default();
    let fields = reader.fields("", fields, FIELDS);
    for (name, node) in fields {
        reader.field(name, node);
    }
    Ok((reader.builder, reader.files, reader.faults))
}

#[derive(Default)]
struct Reader {
    builder: MessageBuilder,
    files: Vec<FileRef>,
    faults: Vec<Fault>,
}

impl Reader {
    fn refuse(&mut self, field: impl Into<String>, code: &'static str, reason: impl Into<String>) {
        self.faults.push(Fault::new(field.into(), code, reason));
    }

    fn wrong(&mut self, field: impl Into<String>, expected: &str, found: &Node<'_>) {
        self.refuse(field, "message.type", format!("expected {expected}, found {}", found.kind()));
    }

    /// The known fields that are there, each once.
    fn fields<'t>(
        &mut self,
        path: &str,
        fields: Fields<'t>,
        known: &[&'static str],
    ) -> Vec<(&'static str, Node<'t>)> {
        let mut kept: Vec<(&'static str, Node<'t>)> = Vec::new();
        let mut seen: Vec<Cow<'t, str>> = Vec::new();
        for (name, node) in fields {
            let at = format!("{path}{}", shown(&name));
            if seen.contains(&name) {
                self.refuse(at, "message.duplicate_field", "it is there twice");
                continue;
            }
            match known.iter().find(|k| **k == name) {
                Some(k) if !matches!(node, Node::Null) => kept.push((k, node)),
                Some(_) => {}
                None => {
                    let reason = match nearest(&name, known) {
                        Some(near) => format!("the field is not known: did you mean `{near}`?"),
                        None => format!("the field is not known; these are: {}", known.join(", ")),
                    };
                    self.refuse(at, "message.unknown_field", reason);
                }
            }
            seen.push(name);
        }
        kept
    }

    fn field(&mut self, name: &'static str, node: Node<'_>) {
        match name {
            "from" => self.builder.from = self.texts(name, node),
            "sender" => self.builder.sender = self.text(name, node),
            "to" => self.builder.to = self.texts(name, node),
            "cc" => self.builder.cc = self.texts(name, node),
            "bcc" => self.builder.bcc = self.texts(name, node),
            "reply_to" => self.builder.reply_to = self.texts(name, node),
            "subject" => self.builder.subject = self.text(name, node),
            "text" => self.builder.text = self.text(name, node),
            "html" => self.builder.html = self.text(name, node),
            "headers" => self.headers(node),
            "attachments" => self.attachments(node),
            "idempotency_key" => self.builder.idempotency_key = self.text(name, node),
            "in_reply_to" => self.builder.in_reply_to = self.text(name, node),
            "references" => self.references(node),
            "message_id" => self.builder.message_id = self.text(name, node),
            "metadata" => self.metadata(node),
            "tags" => self.builder.tags = self.texts(name, node),
            "send_at" => self.send_at(node),
            "tracking" => self.tracking(node),
            _ => self.unsubscribe(node),
        }
    }

    fn text(&mut self, field: &str, node: Node<'_>) -> Option<String> {
        match node {
            Node::Text(text) => Some(text.into_owned()),
            other => {
                self.wrong(field, "text", &other);
                None
            }
        }
    }

    /// One text or a list of them. What is no text leaves an empty one, so that the rest keep their places.
    fn texts(&mut self, field: &str, node: Node<'_>) -> Vec<String> {
        match node {
            Node::Text(text) => vec![text.into_owned()],
            Node::List(items) => {
                let alone = items.len() == 1;
                let name = |i: usize| if alone { field.to_owned() } else { format!("{field}[{i}]") };
                items
                    .into_iter()
                    .enumerate()
                    .map(|(i, item)| self.text(&name(i), item).unwrap_or_default())
                    .collect()
            }
            other => {
                self.wrong(field, "text or a list of texts", &other);
                Vec::new()
            }
        }
    }

    fn object<'t>(&mut self, field: &str, node: Node<'t>) -> Fields<'t> {
        match node {
            Node::Object(fields) => fields,
            other => {
                self.wrong(field, "an object", &other);
                Vec::new()
            }
        }
    }

    fn headers(&mut self, node: Node<'_>) {
        let mut seen: Vec<String> = Vec::new();
        for (name, node) in self.object("headers", node) {
            let field = format!("headers.{}", shown(&name));
            if seen.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                self.refuse(field, "message.duplicate_field", "it is there twice: give the values as a list");
                continue;
            }
            if !matches!(node, Node::Null) {
                for value in self.texts(&field, node) {
                    self.builder.headers.push((name.clone().into_owned(), value));
                }
            }
            seen.push(name.into_owned());
        }
    }

    /// As mails carry it, ids parted by space, or a list.
    fn references(&mut self, node: Node<'_>) {
        self.builder.references = match node {
            Node::Text(text) if text.contains(['\r', '\n']) => vec![text.into_owned()],
            Node::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
            other => self.texts("references", other),
        };
    }

    fn metadata(&mut self, node: Node<'_>) {
        for (name, node) in self.object("metadata", node) {
            let field = format!("metadata.{}", shown(&name));
            if let Some(value) = self.text(&field, node) {
                self.builder.metadata.push((name.into_owned(), value));
            }
        }
    }

    fn send_at(&mut self, node: Node<'_>) {
        let Some(text) = self.text("send_at", node) else { return };
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            self.builder.send_at = Some(Timestamp::from_millis(at.as_millisecond()));
        } else {
            let reason = "expected a time with its offset, as in `2030-01-31T09:00:00Z`";
            self.refuse("send_at", "message.send_at", reason);
        }
    }

    fn tracking(&mut self, node: Node<'_>) {
        let fields = self.object("tracking", node);
        for (name, node) in self.fields("tracking.", fields, TRACKING_FIELDS) {
            match node {
                Node::Bool(yes) if name == "opens" => self.builder.tracking.opens = Some(yes),
                Node::Bool(yes) => self.builder.tracking.clicks = Some(yes),
                other => self.wrong(format!("tracking.{name}"), "true or false", &other),
            }
        }
    }

    fn unsubscribe(&mut self, node: Node<'_>) {
        let Node::Object(fields) = node else {
            return self.wrong("unsubscribe", "an object", &node);
        };
        let mut unsubscribe = self.builder.unsubscribe.take().unwrap_or_default();
        for (name, node) in self.fields("unsubscribe.", fields, UNSUBSCRIBE_FIELDS) {
            let text = self.text(&format!("unsubscribe.{name}"), node);
            if name == "url" { unsubscribe.url = text } else { unsubscribe.mailto = text }
        }
        self.builder.unsubscribe = Some(unsubscribe);
    }

    fn attachments(&mut self, node: Node<'_>) {
        let Node::List(items) = node else {
            return self.wrong("attachments", "a list of objects", &node);
        };
        for (i, item) in items.into_iter().enumerate() {
            let field = format!("attachments[{i}]");
            let Node::Object(fields) = item else {
                self.wrong(field, "an object", &item);
                continue;
            };
            let mut given = [const { None }; ATTACHMENT_FIELDS.len()];
            for (name, node) in self.fields(&format!("{field}."), fields, ATTACHMENT_FIELDS) {
                let Node::Text(text) = node else {
                    self.wrong(format!("{field}.{name}"), "text", &node);
                    continue;
                };
                if let Some(slot) =
                    ATTACHMENT_FIELDS.iter().position(|k| *k == name).and_then(|at| given.get_mut(at))
                {
                    *slot = Some(text);
                }
            }
            self.attachment(i, given);
        }
    }

    fn attachment(&mut self, index: usize, given: [Option<Cow<'_, str>>; ATTACHMENT_FIELDS.len()]) {
        let [filename, content_type, path, base64, cid] = given;
        let field = format!("attachments[{index}]");
        let bytes = match (&path, base64) {
            (Some(_), Some(_)) => {
                self.refuse(&field, "message.attachment", "give `path` or `base64`, not both");
                Vec::new()
            }
            (None, None) => {
                self.refuse(&field, "message.attachment", "give `path` or `base64`");
                Vec::new()
            }
            (None, Some(text)) => STANDARD.decode(text.as_bytes()).unwrap_or_else(|_| {
                let reason = "it is no valid base64 (RFC 4648, padded, without line breaks)";
                self.refuse(format!("{field}.base64"), "message.attachment", reason);
                Vec::new()
            }),
            (Some(path), None) if path.is_empty() || path.contains('\0') => {
                self.refuse(format!("{field}.path"), "message.attachment", "it is no path");
                Vec::new()
            }
            (Some(path), None) => {
                self.files.push(FileRef { index, path: PathBuf::from(path.as_ref()) });
                Vec::new()
            }
        };
        let filename = filename.map(Cow::into_owned).or_else(|| file_name(path.as_deref()?));
        let content_type = match content_type {
            Some(given) => given.into_owned(),
            None => type_by_ending(filename.as_deref().unwrap_or_default()).to_owned(),
        };
        let cid = cid.map(Cow::into_owned);
        self.builder.attachments.push(Attachment { filename, content_type, bytes: bytes.into(), cid });
    }
}

fn file_name(path: &str) -> Option<String> {
    std::path::Path::new(path).file_name().and_then(|name| name.to_str()).map(str::to_owned)
}

/// The known name that was probably meant: `replyTo` and `Subject` count as near, so do two wrong letters.
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let plain = |name: &str| {
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let meant = plain(name);
    let best = known.iter().map(|k| (strsim::damerau_levenshtein(&meant, &plain(k)), *k)).min()?;
    let allowed = if meant.len() <= 3 { 1 } else { 2 };
    (best.0 <= allowed).then_some(best.1)
}
