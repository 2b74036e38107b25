//! What must hold for any bytes: of servers, of files, of people. The fuzzers in `fuzz/` look for bytes that break it, and a
//! test runs the bytes that they kept.
#![expect(clippy::panic, reason = "to panic is how a fuzzer is told")]

use crate::{
    Address, Frozen, Message, MessageJson, RawMessage, RenderError,
    address::{Syntax, parse_list},
    envelope, fingerprint,
    jobs::QueuedMail,
    render,
    smtp::check_reply,
};
use hapax_core::Timestamp;

/// Replies of a mail server: the same reply comes out however its bytes come in, and its text is one line.
pub fn reply(bytes: &[u8]) {
    check_reply(bytes);
}

/// Addresses, one and lists: what was read is written in a form that reads back as the same, and on the wire as one word.
pub fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(address) = text.parse::<Address>() {
        check_address(&address);
    }
    for syntax in [Syntax::Strict, Syntax::Field] {
        for address in parse_list(text, syntax).unwrap_or_default() {
            check_address(&address);
        }
    }
}

fn check_address(address: &Address) {
    let back = address.to_string().parse::<Address>();
    assert!(back.as_ref().is_ok_and(|back| back == address), "reads back as another");
    let wire = address.wire_form();
    let lone = |c: char| c == '\r' || c == '\n' || c == '\0';
    assert!(!wire.contains(lone), "a line of SMTP ends in an address");
    assert!(address.needs_smtputf8() || wire.is_ascii(), "not ASCII without SMTPUTF8");
    let back = wire.parse::<Address>();
    assert!(back.is_ok_and(|back| back.same_mailbox(address)), "another mailbox on the wire");
}

/// Header fields. Of a file that is a mail: it is refused, or what is sent of it is a mail that does not change any more. Of texts,
/// parted by U+001E: the message is refused, or its bytes are a mail that keeps all rules.
pub fn header(bytes: &[u8]) {
    if let Ok(raw) = RawMessage::from_eml(bytes) {
        raw.check().unwrap_or_else(|faults| panic!("not sent as it was read: {faults}"));
        match raw.render(&frozen()) {
            Ok(sent) => {
                let again = RawMessage::new(raw.from.clone(), raw.to.clone(), sent.clone());
                again.check().unwrap_or_else(|faults| panic!("not a mail any more: {faults}"));
                assert_eq!(again.render(&frozen()).ok(), Some(sent), "changes when it is sent again");
            }
            // It has an id that is empty.
            Err(error) => assert!(raw.message_id().is_none(), "{error}"),
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.split('\u{1e}');
    let mut next = || parts.next().unwrap_or_default();
    let builder = Message::builder()
        .from("shop@example.com")
        .to(next())
        .subject(next())
        .header("X-Own", next())
        .attach(next(), "text/plain", "x")
        .in_reply_to(next())
        .unsubscribe_url(next())
        .bcc("hidden@hidden.example")
        .text(next());
    if let Ok(message) = builder.build() {
        check_rendered(&message);
    }
}

/// Lines of a JSON Lines file: each is refused, or a message that is written as a line which reads back as the same, and as a mail.
pub fn line(bytes: &[u8]) {
    let Ok(read) = MessageJson::from_bytes(bytes) else { return };
    let message = read.message();
    check_rendered(message);
    let written = QueuedMail::Message(message.clone()).to_payload();
    let back = QueuedMail::from_payload(&written);
    let back = back.unwrap_or_else(|fault| panic!("written as a line that is none: {fault}"));
    let QueuedMail::Message(again) = &back else { panic!("written as a mail that is ready") };
    assert_eq!(fingerprint(again), fingerprint(message), "reads back as another");
    assert_eq!(back.to_payload(), written, "is written in two ways");
}

/// What a built message is rendered to is a mail, names every recipient in its envelope, and no hidden one in its bytes.
fn check_rendered(message: &Message) {
    let sent = match render(message, &frozen()) {
        Ok(sent) => sent,
        // Here the boundaries are known beforehand, and a fuzzer finds them.
        Err(RenderError::Boundary) => return,
        Err(error) => panic!("a message without bytes: {error}"),
    };
    let envelope = envelope(message);
    for recipient in message.recipients() {
        let is_there = |to: &String| to.parse::<Address>().is_ok_and(|to| to.same_mailbox(recipient));
        assert!(envelope.to.iter().any(is_there), "a recipient that is in no envelope");
    }
    let raw = RawMessage::new(envelope.from, envelope.to, sent);
    raw.check().unwrap_or_else(|faults| panic!("bytes that may not be sent: {faults}"));
}

fn frozen() -> Frozen {
    Frozen::new("<abcdefghijklmnopqrstuvwxyz@example.com>", Timestamp::from_millis(1_896_080_400_000), "seed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    type Target = fn(&[u8]);

    /// Each target, and what was kept for it.
    #[test]
    fn what_the_fuzzers_kept_holds() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let targets: [(&str, Target); 4] =
            [("reply", reply), ("address", address), ("header", header), ("line", line)];
        for (name, target) in targets {
            let mut files = 0;
            for entry in std::fs::read_dir(kept.join(name)).unwrap() {
                let path = entry.unwrap().path();
                let bytes = std::fs::read(&path).unwrap();
                let held = std::panic::catch_unwind(|| target(&bytes));
                assert!(held.is_ok(), "{}", path.display());
                files += 1;
            }
            assert!(files > 10, "{name}: {files}");
        }
    }
}
