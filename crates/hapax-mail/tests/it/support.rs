//! What several tests use.

use hapax_core::Timestamp;
use hapax_mail::{Frozen, InvalidMessage, Message, MessageBuilder, render};

/// 2030-01-31 09:00:00 UTC.
pub(crate) const AT: Timestamp = Timestamp::from_millis(1_896_080_400_000);

pub(crate) fn frozen() -> Frozen {
    Frozen::new("<abcdefghijklmnopqrstuvwxyz@example.com>", AT, "abcdefghijklmnopqrstuvwxyz")
}

/// A message that lacks nothing.
pub(crate) fn plain() -> MessageBuilder {
    Message::builder()
        .from("shop@example.com")
        .to("ada@example.com")
        .subject("Welcome")
        .text("Welcome aboard.\n")
}

pub(crate) fn bytes(message: &Message) -> Vec<u8> {
    render(message, &frozen()).unwrap().to_vec()
}

pub(crate) fn text(message: &Message) -> String {
    String::from_utf8(bytes(message)).unwrap()
}

/// `field code`, one for each fault.
pub(crate) fn faults<T>(result: Result<T, InvalidMessage>) -> Vec<String> {
    match result {
        Ok(_) => Vec::new(),
        Err(e) => e.faults.iter().map(|fault| format!("{} {}", fault.field, fault.code)).collect(),
    }
}
