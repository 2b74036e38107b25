//! The header of a mail, field by field, always in the same order.

use super::Frozen;
use crate::{Address, Message};
use hapax_core::Timestamp;
use mail_builder::headers::{
    Header as _, address::Address as Mailbox, date::Date, message_id::MessageId, raw::Raw, text::Text,
    url::URL,
};

/// A longer word of a subject is encoded rather than left on a line of its own.
const MAX_WORD: usize = 500;

/// All fields up to and with `MIME-Version`; the body begins with its `Content-Type`.
pub(super) fn write(message: &Message, frozen: &Frozen, out: &mut Vec<u8>) {
    write_date(frozen.date, out);
    addresses("From", message.from(), out);
    if let Some(sender) = message.sender() {
        addresses("Sender", std::slice::from_ref(sender), out);
    }
    addresses("Reply-To", message.reply_to(), out);
    if message.to().is_empty() && message.cc().is_empty() {
        // Says that the recipients are hidden; some servers take a mail without any such field for a forgery.
        field("To", out, |out, at| Raw::new("undisclosed-recipients:;").write_header(out, at));
    }
    addresses("To", message.to(), out);
    addresses("Cc", message.cc(), out);
    if let Some(subject) = message.subject() {
        unstructured("Subject", subject, out);
    }
    write_message_id(&frozen.message_id, out);
    ids("In-Reply-To", message.in_reply_to().into_iter(), out);
    ids("References", message.references().iter().map(String::as_str), out);
    if let Some(unsubscribe) = message.unsubscribe() {
        let urls = unsubscribe.url.iter().chain(&unsubscribe.mailto).map(String::as_str);
        field("List-Unsubscribe", out, |out, at| URL::new_list(urls).write_header(out, at));
        if unsubscribe.one_click() {
            field("List-Unsubscribe-Post", out, |out, at| {
                Raw::new("List-Unsubscribe=One-Click").write_header(out, at);
            });
        }
    }
    for (name, value) in message.headers() {
        unstructured(name, value, out);
    }
    out.extend_from_slice(b"MIME-Version: 1.0\r\n");
}

/// The `Date` field, in UTC.
pub(crate) fn write_date(date: Timestamp, out: &mut Vec<u8>) {
    field("Date", out, |out, at| Date::new(date.as_millis().div_euclid(1000)).write_header(out, at));
}

/// The `Message-ID` field; the id has its brackets.
pub(crate) fn write_message_id(id: &str, out: &mut Vec<u8>) {
    ids("Message-ID", std::iter::once(id), out);
}

/// The longest line that a field of the caller's own would have.
pub(crate) fn longest_line(name: &str, value: &str) -> usize {
    let mut out = Vec::with_capacity(name.len() + value.len() + 8);
    unstructured(name, value, &mut out);
    out.split(|b| *b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line).len())
        .max()
        .unwrap_or_default()
}

fn field(name: &str, out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>, usize)) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    value(out, name.len() + 2);
}

/// Plain ASCII is folded and otherwise kept, since programs read such fields without decoding them. The subject is read
/// by people, so it may be encoded where folding would not do. All else becomes encoded words.
fn unstructured(name: &str, value: &str, out: &mut Vec<u8>) {
    let printable = value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b));
    if printable && !(name == "Subject" && folds_badly(value)) {
        field(name, out, |out, at| Raw::new(value).write_header(out, at));
    } else {
        field(name, out, |out, at| Text::new(value).write_header(out, at));
    }
}

/// A word too long for a line; or wide spaces, of which some readers keep one where a line was folded.
fn folds_badly(value: &str) -> bool {
    value.len() > 77
        && (value.contains("  ")
            || value.contains('\t')
            || value.split(' ').any(|word| word.len() > MAX_WORD))
}

fn addresses(name: &str, list: &[Address], out: &mut Vec<u8>) {
    if list.is_empty() {
        return;
    }
    let mailboxes =
        list.iter().map(|address| Mailbox::new_address(address.name(), address.wire_form())).collect();
    field(name, out, |out, at| Mailbox::new_list(mailboxes).write_header(out, at));
}

fn ids<'a>(name: &str, list: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
    let inner: Vec<&str> = list.map(|id| id.trim_start_matches('<').trim_end_matches('>')).collect();
    if !inner.is_empty() {
        field(name, out, |out, at| MessageId::new_list(inner.into_iter()).write_header(out, at));
    }
}
