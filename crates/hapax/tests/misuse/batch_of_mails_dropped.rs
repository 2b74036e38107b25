//! Nothing is sent: nobody asks for a receipt, nobody builds the mailer.
#![deny(unused_must_use)]
use hapax::mail::{Mailer, Message, Stub};

fn send(mailer: &Mailer, messages: Vec<Message>) {
    mailer.send_many(messages);
    Mailer::via(Stub::new());
}

fn main() {
    let _ = send;
}
