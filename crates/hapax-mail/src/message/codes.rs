//! The codes of faults in messages.

use hapax_core::CodeInfo;

const fn code(code: &'static str, meaning: &'static str, remedy: &'static str) -> CodeInfo {
    CodeInfo::new(code, "validation", false, meaning, remedy)
}

/// Every code that a [`Fault`](super::Fault) or a [`RenderError`](crate::mime::RenderError) can carry.
pub const MESSAGE_CODES: &[CodeInfo] = &[
    code(
        "message.address",
        "an address cannot be read or is too long",
        "write `name@domain` or `Name <name@domain>`, one a string",
    ),
    code(
        "message.attachment",
        "an attachment has no usable name, type or content id",
        "the reason names the part",
    ),
    code(
        "message.attachment_unreadable",
        "the file of an attachment is missing, no regular file, or cannot be read",
        "check the path and its permissions",
    ),
    code(
        "message.bcc",
        "the bytes of a mail hold a Bcc field, which every recipient would see",
        "leave the field out and give its addresses as recipients",
    ),
    code(
        "message.changed",
        "a line or an attachment changed between the check and the send",
        "let nothing write to the files meanwhile, then run again",
    ),
    code("message.duplicate_field", "a field occurs twice in one object", "keep one of them"),
    code(
        "message.encoding",
        "text is no valid UTF-8, holds NUL, has bare line ends where they are not allowed, or is already encoded",
        "give plain text; it is encoded when it is sent",
    ),
    code(
        "message.header",
        "a header field has a bad name or value, or belongs to another field of the message",
        "the reason names the field to use",
    ),
    code(
        "message.header_injection",
        "a value that becomes a header field holds a line break",
        "remove CR and LF",
    ),
    code(
        "message.idempotency_key",
        "the idempotency key is empty or longer than 64 KiB",
        "use 1 byte to 64 KiB of text",
    ),
    code("message.message_id", "an id of a message cannot be read", "write `<id@domain>`"),
    code(
        "message.metadata",
        "a name or value of the metadata, or a tag, is empty, too long or holds control characters",
        "the reason names the limit",
    ),
    code("message.no_content", "the message has neither text nor html", "give one of them; it may be empty"),
    code("message.no_recipient", "the message has no recipient", "fill in to, cc or bcc"),
    code(
        "message.no_sender",
        "the message has no author, or several and no sender",
        "fill in from; with several authors also sender",
    ),
    code(
        "message.render",
        "the bytes made from a message break a rule of the mail format",
        "report it: the check before should have found it",
    ),
    code("message.send_at", "the time is no RFC 3339 time", "write `2030-01-31T09:00:00Z`"),
    code("message.size", "a part of the message is too large", "the reason names the limit"),
    code(
        "message.syntax",
        "the line is no JSON object, or the file is no mail",
        "the reason names the place",
    ),
    code("message.type", "a field holds another kind of value than expected", "the reason names the kind"),
    code("message.unknown_field", "a field is not known", "the reason names the nearest known one"),
    code(
        "message.unsubscribe",
        "the way to unsubscribe is no web or mail address",
        "give an https URL, a mail address, or both",
    ),
    code(
        "message.unsupported",
        "the message asks for something that is not supported here",
        "the reason names it",
    ),
];
