//! What stands around transports: over a scripted transport, on a clock that stands still.

mod breakers;
mod limits;
mod observed;
mod orders;
mod pools;
mod retries;
mod suppressed;

use hapax_mail::{Act, Failure, MailCategory, Message, Receipt, Stub};
use std::time::Duration;

pub(crate) fn mail() -> Message {
    crate::support::plain().build().unwrap()
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn busy() -> Receipt {
    Receipt::failed(MailCategory::Service, "smtp.busy")
}

pub(crate) fn busy_for(after: Duration) -> Receipt {
    Receipt::not_sent(Failure::new(MailCategory::Service, "smtp.busy").with_retry_after(after))
}

pub(crate) fn lost() -> Receipt {
    Receipt::unknown("smtp.reply_lost")
}

/// A stub that answers so, one send after the other, and then accepts.
pub(crate) fn scripted(id: &str, receipts: impl IntoIterator<Item = Receipt>) -> Stub {
    let stub = Stub::named(id);
    for receipt in receipts {
        stub.then(receipt);
    }
    stub
}

/// Commits, and never ends.
pub(crate) fn stuck() -> [Act; 2] {
    [Act::Commit, Act::Hang]
}

pub(crate) fn codes(receipt: &Receipt) -> Vec<&str> {
    receipt.attempts.iter().map(|attempt| attempt.code.as_deref().unwrap_or("sent")).collect()
}
