//! The check of a message: from what was given to parts that hold, field by field, with every fault noted.

use super::{Attachment, Fault, Message, MessageBuilder, Parts, header, ids, looks_encoded};
use crate::{Address, InvalidAddress};
use hapax_core::{Key, Timestamp};
use std::collections::BTreeMap;

/// The most recipients of one message, all kinds together. Servers and providers stop between 50 and 1,000.
pub const MAX_RECIPIENTS: usize = 1_000;
/// The most bytes of text, HTML and attachments together, before encoding: more than public providers take.
pub const MAX_CONTENT_BYTES: usize = 40 * 1024 * 1024;
const MAX_AUTHORS: usize = 50;
const MAX_SUBJECT: usize = 4 * 1024;
const MAX_HEADERS: usize = 100;
const MAX_ATTACHMENTS: usize = 200;
const MAX_REFERENCES: usize = 200;
const MAX_ENTRIES: usize = 100;
const MAX_NAME: usize = 128;
const MAX_VALUE: usize = 2 * 1024;

/// The message. It is only one while `faults` stays as it was.
pub(super) fn message(given: MessageBuilder, faults: &mut Vec<Fault>) -> Message {
    let from = addresses("from", &given.from, faults);
    let sender = given.sender.and_then(|text| address("sender", &text, faults));
    authors(given.from.len(), sender.is_some(), faults);
    let to = addresses("to", &given.to, faults);
    let cc = addresses("cc", &given.cc, faults);
    let bcc = addresses("bcc", &given.bcc, faults);
    recipients(given.to.len() + given.cc.len() + given.bcc.len(), faults);
    let reply_to = addresses("reply_to", &given.reply_to, faults);
    at_most("reply_to", given.reply_to.len(), MAX_AUTHORS, faults);
    if let Some(subject) = &given.subject {
        check_subject(subject, faults);
    }
    if given.text.is_none() && given.html.is_none() {
        faults.push(Fault::new("text", "message.no_content", "the message has neither `text` nor `html`"));
    }
    body("text", given.text.as_deref(), faults);
    body("html", given.html.as_deref(), faults);
    at_most("headers", given.headers.len(), MAX_HEADERS, faults);
    for (name, value) in &given.headers {
        header::check(name, value, faults);
    }
    let attachments = attachments(given.attachments, given.html.is_some(), faults);
    content_size(
        given.text.as_deref(),
        given.html.as_deref(),
        attachments.iter().map(|a| a.bytes.len() as u64),
        faults,
    );
    at_most("references", given.references.len(), MAX_REFERENCES, faults);
    let in_reply_to = given.in_reply_to.and_then(|id| ids::normalized("in_reply_to", &id, false, faults));
    let references = given.references.iter().enumerate();
    let references = references
        .filter_map(|(i, id)| ids::normalized(&format!("references[{i}]"), id, false, faults))
        .collect();
    let message_id = given.message_id.and_then(|id| ids::normalized("message_id", &id, true, faults));
    let metadata = metadata(given.metadata, faults);
    tags(&given.tags, faults);
    if let Some(at) = given.send_at {
        schedule(at, faults);
    }
    let unsubscribe = given.unsubscribe.and_then(|unsubscribe| unsubscribe.checked(faults));
    let key =
        given.idempotency_key.and_then(|key| idempotency_key(&key).map_err(|fault| faults.push(fault)).ok());
    let parts = Parts {
        from,
        sender,
        to,
        cc,
        bcc,
        reply_to,
        subject: given.subject,
        text: given.text,
        html: given.html,
        headers: given.headers,
        attachments,
        in_reply_to,
        references,
        metadata,
        tags: given.tags,
        send_at: given.send_at,
        tracking: given.tracking,
        unsubscribe,
        message_id,
    };
    Message::from_parts(parts, key)
}

pub(super) fn idempotency_key(key: &str) -> Result<Key, Fault> {
    Key::new(key).map_err(|e| Fault::new("idempotency_key", "message.idempotency_key", e.to_string()))
}

/// The size of everything that is not header, with the sizes of the attachments.
pub(super) fn content_size(
    text: Option<&str>,
    html: Option<&str>,
    attachments: impl Iterator<Item = u64>,
    faults: &mut Vec<Fault>,
) {
    let text = text.map_or(0, str::len) as u64 + html.map_or(0, str::len) as u64;
    let bytes = attachments.fold(text, u64::saturating_add);
    if bytes > MAX_CONTENT_BYTES as u64 {
        let reason = format!(
            "text, html and attachments have {bytes} bytes together: {MAX_CONTENT_BYTES} are the most"
        );
        faults.push(Fault::new("attachments", "message.size", reason));
    }
}

fn at_most(field: &'static str, given: usize, most: usize, faults: &mut Vec<Fault>) {
    if given > most {
        faults.push(Fault::new(field, "message.size", format!("{given} were given: {most} are the most")));
    }
}

fn address(field: &str, text: &str, faults: &mut Vec<Fault>) -> Option<Address> {
    text.parse()
        .map_err(|e: InvalidAddress| faults.push(Fault::new(field.to_owned(), e.code(), e.to_string())))
        .ok()
}

fn addresses(field: &str, texts: &[String], faults: &mut Vec<Fault>) -> Vec<Address> {
    let alone = texts.len() == 1;
    let named = texts.iter().enumerate();
    named
        .filter_map(|(i, text)| {
            if alone { address(field, text, faults) } else { address(&format!("{field}[{i}]"), text, faults) }
        })
        .collect()
}

fn authors(given: usize, sender: bool, faults: &mut Vec<Fault>) {
    match given {
        0 => faults.push(Fault::new("from", "message.no_sender", "it is missing")),
        1 => {}
        _ if !sender => {
            let reason = "several authors need a `sender`: the one who answers for the mail";
            faults.push(Fault::new("sender", "message.no_sender", reason));
        }
        _ => at_most("from", given, MAX_AUTHORS, faults),
    }
}

fn recipients(given: usize, faults: &mut Vec<Fault>) {
    if given == 0 {
        faults.push(Fault::new(
            "to",
            "message.no_recipient",
            "the message has no recipient in `to`, `cc` or `bcc`",
        ));
    }
    if given > MAX_RECIPIENTS {
        let reason =
            format!("{given} recipients were given: {MAX_RECIPIENTS} are the most; send several messages");
        faults.push(Fault::new("to", "message.size", reason));
    }
}

fn check_subject(subject: &str, faults: &mut Vec<Fault>) {
    if let Err((code, reason)) = header::text(subject) {
        faults.push(Fault::new("subject", code, reason));
    } else if subject.len() > MAX_SUBJECT {
        let reason = format!("it has {} bytes: {MAX_SUBJECT} are the most", subject.len());
        faults.push(Fault::new("subject", "message.size", reason));
    } else if looks_encoded(subject) {
        let reason = "it is already encoded (`=?…?=`): give it as plain text, it is encoded when it is sent";
        faults.push(Fault::new("subject", "message.encoding", reason));
    }
}

fn body(field: &'static str, text: Option<&str>, faults: &mut Vec<Fault>) {
    if text.is_some_and(|text| text.contains('\0')) {
        faults.push(Fault::new(field, "message.encoding", "it holds NUL"));
    }
}

fn attachments(mut given: Vec<Attachment>, html: bool, faults: &mut Vec<Fault>) -> Vec<Attachment> {
    at_most("attachments", given.len(), MAX_ATTACHMENTS, faults);
    let mut seen: Vec<String> = Vec::new();
    for (i, attachment) in given.iter_mut().enumerate() {
        attachment.check(i, faults);
        attachment.check_bytes(i, faults);
        let Some(cid) = attachment.cid() else { continue };
        if !html {
            let reason = "an inline attachment is shown by `html`, which the message does not have";
            faults.push(Fault::new(format!("attachments[{i}].cid"), "message.attachment", reason));
        }
        if seen.iter().any(|known| known == cid) {
            let reason = "another attachment has the same id";
            faults.push(Fault::new(format!("attachments[{i}].cid"), "message.attachment", reason));
        }
        seen.push(cid.to_owned());
    }
    given
}

/// Names and values that any provider could take as they are.
fn plain(text: &str, most: usize) -> Result<(), String> {
    if text.chars().any(char::is_control) {
        return Err("it holds a control character".to_owned());
    }
    if text.len() > most {
        return Err(format!("it has {} bytes: {most} are the most", text.len()));
    }
    Ok(())
}

fn metadata(given: Vec<(String, String)>, faults: &mut Vec<Fault>) -> BTreeMap<String, String> {
    at_most("metadata", given.len(), MAX_ENTRIES, faults);
    let mut kept = BTreeMap::new();
    for (name, value) in given {
        let mut refuse = |code, reason: String| {
            faults.push(Fault::new(format!("metadata.{}", header::shown(&name)), code, reason));
        };
        if name.is_empty() {
            refuse("message.metadata", "its name is empty".to_owned());
        }
        if let Err(reason) = plain(&name, MAX_NAME) {
            refuse("message.metadata", format!("its name: {reason}"));
        }
        if let Err(reason) = plain(&value, MAX_VALUE) {
            refuse("message.metadata", reason);
        }
        if kept.contains_key(&name) {
            refuse("message.duplicate_field", "it was given twice".to_owned());
        }
        kept.insert(name, value);
    }
    kept
}

fn tags(given: &[String], faults: &mut Vec<Fault>) {
    at_most("tags", given.len(), MAX_ENTRIES, faults);
    for (i, tag) in given.iter().enumerate() {
        let checked = if tag.is_empty() { Err("it is empty".to_owned()) } else { plain(tag, MAX_NAME) };
        if let Err(reason) = checked {
            faults.push(Fault::new(format!("tags[{i}]"), "message.metadata", reason));
        }
    }
}

/// A time before 1970 or after 9999 is a unit mixed up.
fn schedule(at: Timestamp, faults: &mut Vec<Fault>) {
    const END_OF_9999: i64 = 253_402_300_799_999;
    if !(0..=END_OF_9999).contains(&at.as_millis()) {
        faults.push(Fault::new("send_at", "message.send_at", "the time is before 1970 or after 9999"));
    }
}
