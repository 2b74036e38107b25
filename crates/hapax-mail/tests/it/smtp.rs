//! SMTP and LMTP, against a server that does as it is told.

mod auth;
mod bytes;
mod drops;
mod encryption;
mod faulty;
mod lmtp;
mod modes;
mod pool;
mod recipients;
mod reports;
mod signatures;
mod stages;
mod writes;

use crate::support::plain;
use hapax_mail::{
    Message, Receipt, SendContext, Smtp, SmtpOptions, Transport,
    smtp::{Dial, Io, Security, Timeouts},
};
use hapax_testkit::smtp::Sink;
use std::{io, time::Duration};

/// A server within the test: with it, time can stand still.
#[derive(Clone, Debug)]
struct Within(Sink);

#[hapax_core::async_trait]
impl Dial for Within {
    async fn dial(&self, _: &str, _: u16) -> io::Result<Box<dyn Io>> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let sink = self.0.clone();
        tokio::spawn(async move { sink.serve(Box::new(theirs)).await });
        Ok(Box::new(ours))
    }
}

/// How a client reaches a server within the test, in the clear.
fn options(sink: &Sink) -> SmtpOptions {
    SmtpOptions::new("mail.example").security(Security::None).dial(Within(sink.clone()))
}

fn smtp(sink: &Sink) -> Smtp {
    Smtp::with_options(options(sink)).unwrap()
}

async fn send(transport: &Smtp, message: &Message) -> Receipt {
    transport.send(message, &SendContext::default()).await
}

fn message() -> Message {
    plain().build().unwrap()
}

/// More than any buffer on the way takes.
fn large() -> Message {
    plain().text("A line of a long message.\n".repeat(20_000)).build().unwrap()
}

/// `outcome category code stage`.
fn told(receipt: &Receipt) -> String {
    let word = if receipt.is_accepted() {
        return "accepted".to_owned();
    } else if receipt.is_unknown() {
        "unknown"
    } else {
        "failed"
    };
    let failure = receipt.failure().unwrap();
    let stage = failure.stage.as_deref().unwrap_or("none");
    format!("{word} {} {} {stage}", failure.category.as_str(), failure.code)
}

/// Limits that a peer which never answers runs into at once.
fn hurried() -> Timeouts {
    let mut times = Timeouts::default().capped(Duration::from_millis(200));
    times.end = Duration::from_millis(200);
    times
}
