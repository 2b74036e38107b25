//! Answers as one short text, so that a case reads like the table that it checks: `held: done A paid`.

use crate::{faulty::Answer, requests::token};
use hapax_core::{
    Version,
    idempotency::{
        Completed, Dropped, Extended, Kind, Record, RecordState, Reserved, Resolved, Retaken, Write,
    },
};

pub(crate) trait Shown {
    fn shown(&self) -> String;
}

/// Whose token made the version; `?` for none of the letters.
fn owner(version: Version) -> char {
    ('A'..='Z').find(|letter| token(*letter).version() == version).unwrap_or('?')
}

impl Shown for Record {
    fn shown(&self) -> String {
        match &self.state {
            RecordState::Pending => format!("pending {}", owner(self.version())),
            RecordState::Settled { kind, receipt, .. } => {
                let kind = match kind {
                    Kind::Done => "done",
                    Kind::Unknown => "unknown",
                };
                let text: String = String::from_utf8_lossy(&receipt.bytes).chars().take(40).collect();
                format!("{kind} {} {text}", owner(self.version()))
            }
            _ => "unreadable".into(),
        }
    }
}

impl Shown for Option<Record> {
    fn shown(&self) -> String {
        self.as_ref().map_or_else(|| "vacant".into(), Shown::shown)
    }
}

impl Shown for Reserved {
    fn shown(&self) -> String {
        match self {
            Self::Yours { .. } => "yours".into(),
            Self::Held(record) => format!("held: {}", record.shown()),
        }
    }
}

impl Shown for Completed {
    fn shown(&self) -> String {
        match self {
            Self::Stored => "stored".into(),
            Self::AlreadyDone => "already done".into(),
            Self::StoredLate => "stored late".into(),
            Self::Superseded(record) => format!("superseded: {}", record.shown()),
        }
    }
}

impl Shown for Write {
    fn shown(&self) -> String {
        match self {
            Self::Applied => "applied".into(),
            Self::Fenced => "fenced".into(),
        }
    }
}

impl Shown for Extended {
    fn shown(&self) -> String {
        match self {
            Self::Until(_) => "extended".into(),
            Self::Fenced => "fenced".into(),
        }
    }
}

impl Shown for Retaken {
    fn shown(&self) -> String {
        match self {
            Self::Yours { .. } => "yours".into(),
            Self::Changed(record) => format!("changed: {}", record.shown()),
        }
    }
}

impl Shown for Dropped {
    fn shown(&self) -> String {
        match self {
            Self::Dropped => "dropped".into(),
            Self::Refused => "refused".into(),
            Self::Fenced => "fenced".into(),
        }
    }
}

impl Shown for Resolved {
    fn shown(&self) -> String {
        match self {
            Self::Applied => "applied".into(),
            Self::Changed(record) => format!("changed: {}", record.shown()),
        }
    }
}

impl Shown for Answer {
    fn shown(&self) -> String {
        match self {
            Self::Reserved(answer) => answer.shown(),
            Self::Completed(answer) => answer.shown(),
            Self::Write(answer) => answer.shown(),
            Self::Extended(answer) => answer.shown(),
            Self::Retaken(answer) => answer.shown(),
            Self::Dropped(answer) => answer.shown(),
            Self::Resolved(answer) => answer.shown(),
        }
    }
}
