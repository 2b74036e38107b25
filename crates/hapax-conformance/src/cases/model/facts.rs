//! What of an answer is compared with the reference.

use crate::{faulty::Answer, fixture::Fixture, shown::Shown};
use hapax_core::{
    Timestamp,
    idempotency::{Completed, Extended, Record, RecordState, Reserved, Resolved, Retaken},
};

/// An answer in parts: one text for all that has no time in it, and the instants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    text: String,
    until: Option<Timestamp>,
    first_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
}

impl Facts {
    pub(super) fn of_answer(answer: &Answer) -> Self {
        let bare = |until, first_at| Self { text: answer.shown(), until, first_at, completed_at: None };
        match answer {
            Answer::Reserved(Reserved::Yours { until, first_at })
            | Answer::Retaken(Retaken::Yours { until, first_at }) => bare(Some(*until), Some(*first_at)),
            Answer::Extended(Extended::Until(until)) => bare(Some(*until), None),
            Answer::Reserved(Reserved::Held(record))
            | Answer::Completed(Completed::Superseded(record))
            | Answer::Retaken(Retaken::Changed(Some(record)))
            | Answer::Resolved(Resolved::Changed(Some(record))) => Self::of(&answer.shown(), record),
            _ => bare(None, None),
        }
    }

    pub(super) fn of_record(record: Option<&Record>) -> Self {
        match record {
            Some(record) => Self::of(&record.shown(), record),
            None => Self { text: "vacant".into(), until: None, first_at: None, completed_at: None },
        }
    }

    fn of(shown: &str, record: &Record) -> Self {
        let completed_at = match &record.state {
            RecordState::Settled { completed_at, .. } => Some(*completed_at),
            _ => None,
        };
        let text = format!("{shown}, fingerprint {}", record.fingerprint);
        Self { text, until: Some(record.until), first_at: Some(record.first_at), completed_at }
    }

    /// Why these facts of a store are not those of the reference, whose clock shows `offset` milliseconds less.
    pub(super) fn differ(
        &self,
        expected: &Self,
        offset: i64,
        fx: &Fixture,
        first_at_counts: bool,
    ) -> Option<String> {
        let aligned = |instant: Option<Timestamp>| {
            instant.map(|instant| Timestamp::from_millis(instant.as_millis().saturating_sub(offset)))
        };
        let near = |got: Option<Timestamp>, want: Option<Timestamp>| match (aligned(got), want) {
            (Some(got), Some(want)) => got.since(want).max(want.since(got)) <= fx.tolerance(),
            (got, want) => got.is_none() && want.is_none(),
        };
        // A store whose clock runs by itself moves what is left of its records, and not what has been.
        let past = |got, want| !fx.exact() || near(got, want);
        let as_expected = self.text == expected.text
            && near(self.until, expected.until)
            && past(self.completed_at, expected.completed_at)
            && (!first_at_counts || past(self.first_at, expected.first_at));
        let shown = Self {
            until: aligned(self.until),
            first_at: aligned(self.first_at),
            completed_at: aligned(self.completed_at),
            ..self.clone()
        };
        (!as_expected).then(|| format!("expected {expected:?}\n     got {shown:?}"))
    }
}
