//! A receipt may say that the message was not sent.
#![deny(unused_must_use)]
use hapax::mail::{IdempotencyTransport, Mailer, Message, Stub};

async fn send(mailer: Mailer, transport: IdempotencyTransport<Stub>, message: Message) {
    mailer.send(&message).await;
    transport.send(&message).await;
}

fn main() {
    let _ = send;
}
