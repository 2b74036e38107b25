//! What became of all messages, and how the command ends.

use crate::exit::Exit;
use hapax::mail::{Outcome, Receipt};
use std::fmt;

/// The code of a message that another process is sending, or was when it died.
pub(super) const IN_FLIGHT: &str = "idempotency.in_flight";
/// The code of a message that a stopped run did not send.
pub(super) const CANCELLED: &str = "mail.cancelled";

/// One kind of end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Sent,
    Replayed,
    Failed,
    Unknown,
    InFlight,
    /// Not sent, because the run was stopped. It counts nowhere: the next run sends it.
    Left,
}

impl Ending {
    pub(super) fn of(receipt: &Receipt) -> Self {
        match &receipt.outcome {
            Outcome::Accepted if receipt.replayed => Self::Replayed,
            Outcome::Accepted => Self::Sent,
            Outcome::Failed(failure) if failure.code == CANCELLED => Self::Left,
            Outcome::Failed(_) => Self::Failed,
            Outcome::Unknown(failure) if failure.code == IN_FLIGHT => Self::InFlight,
            Outcome::Unknown(_) => Self::Unknown,
        }
    }
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) replayed: u64,
    pub(super) failed: u64,
    pub(super) unknown: u64,
    pub(super) in_flight: u64,
}

impl Tally {
    pub(super) fn count(&mut self, ending: Ending) {
        match ending {
            Ending::Sent => self.sent += 1,
            Ending::Replayed => self.replayed += 1,
            Ending::Failed => self.failed += 1,
            Ending::Unknown => self.unknown += 1,
            Ending::InFlight => self.in_flight += 1,
            Ending::Left => {}
        }
    }

    pub(super) fn all(&self) -> u64 {
        self.sent + self.replayed + self.failed + self.unknown + self.in_flight
    }

    /// How a run ends that came to its end.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self { unknown: 1.., .. } => Exit::Unknown,
            Self { in_flight: 1.., .. } => Exit::TryAgain,
            Self { failed: 1.., .. } => Exit::ItemFailed,
            _ => Exit::Done,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, replayed, failed, unknown, in_flight } = self;
        write!(
            f,
            "sent {sent}, replayed {replayed}, failed {failed}, unknown {unknown}, in flight {in_flight}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::mail::MailCategory;

    #[test]
    fn the_worst_end_decides() {
        let mut tally = Tally::default();
        assert_eq!(tally.exit(), Exit::Done);
        let receipts = [
            (Receipt::accepted(), Exit::Done),
            (Receipt::failed(MailCategory::Cancelled, CANCELLED), Exit::Done),
            (Receipt::failed(MailCategory::Rejected, "smtp.no"), Exit::ItemFailed),
            (Receipt::unknown(IN_FLIGHT), Exit::TryAgain),
            (Receipt::unknown("idempotency.aborted"), Exit::Unknown),
        ];
        for (receipt, exit) in receipts {
            tally.count(Ending::of(&receipt));
            assert_eq!(tally.exit(), exit);
        }
        assert_eq!(tally.to_string(), "sent 1, replayed 0, failed 1, unknown 1, in flight 1");
        assert_eq!(tally.all(), 4);
    }
}
