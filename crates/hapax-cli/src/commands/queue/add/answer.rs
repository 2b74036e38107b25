//! What is said of a job that was added, or was not.

use super::many::{Item, Place};
use crate::{
    commands::keys::json_of,
    exit::Exit,
    failure::Failure,
    output::{self, Output},
    text,
};
use hapax::{
    Clock, Coded, Key,
    core::SystemClock,
    queue::{Added, JobState, QueueError},
};
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// The object of `--json`. The names of its fields are stable.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    /// Of --lines, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Of several files, counted from 0, and where that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    id: Option<&'a str>,
    job_id: Option<&'a str>,
    accepted: bool,
    duplicate: bool,
    replaced: bool,
    state: Option<&'static str>,
    result: Option<Value>,
    run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl<'a> Answer<'a> {
    pub(super) fn of(added: &'a Added, job_id: Option<&'a str>) -> Self {
        let (state, due) = match added {
            Added::New { due, .. } | Added::Replaced { due, .. } => {
                let waits = *due > SystemClock.now();
                (if waits { JobState::Delayed } else { JobState::Ready }, Some(*due))
            }
            Added::Duplicate { state, .. } => (*state, None),
        };
        let result = match added {
            Added::Duplicate { result, .. } => result.as_ref().map(json_of),
            _ => None,
        };
        Self {
            line: None,
            index: None,
            place: None,
            id: Some(added.id()),
            job_id,
            accepted: !added.is_duplicate(),
            duplicate: added.is_duplicate(),
            replaced: matches!(added, Added::Replaced { .. }),
            state: Some(state.as_str()),
            result,
            run_at: due.and_then(text::time),
            code: None,
            message: None,
        }
    }

    /// One that was never sent to the store.
    pub(super) fn invalid(place: &'a Place, code: &'static str, message: &str) -> Self {
        Self::not_added(code, message.to_owned(), None).at(place)
    }

    /// Of many.
    fn at(self, place: &'a Place) -> Self {
        match place {
            Place::Line(line) => Self { line: Some(*line), ..self },
            Place::Entry(index, place) => Self { index: Some(*index), place: Some(place), ..self },
        }
    }

    fn not_added(code: &'static str, message: String, job_id: Option<&'a str>) -> Self {
        Self {
            line: None,
            index: None,
            place: None,
            id: None,
            job_id,
            accepted: false,
            duplicate: false,
            replaced: false,
            state: None,
            result: None,
            run_at: None,
            code: Some(code),
            message: Some(message),
        }
    }

    pub(super) fn print(&self, output: &Output) {
        if output.json {
            return output.object(self);
        }
        if let Some(id) = self.id {
            output.line(id);
        }
        if self.duplicate && self.line.is_none() && self.index.is_none() {
            output.note(&format!("it was there: {}", self.state.unwrap_or_default()));
        }
    }
}

/// What has become of many.
#[derive(Debug, Default)]
pub(in crate::commands) struct Tally {
    added: u64,
    duplicate: u64,
    full: u64,
    pub(super) refused: u64,
}

impl Tally {
    /// Counts one, and says what became of it.
    pub(super) fn take(&mut self, item: &Item, answer: &Result<Added, QueueError>, output: &Output) {
        let job_id = item.job_id.as_ref().map(Key::as_str);
        match answer {
            Ok(Added::Duplicate { .. }) => self.duplicate += 1,
            Ok(_) => self.added += 1,
            Err(QueueError::Full { .. }) => self.full += 1,
            Err(_) => self.refused += 1,
        }
        let shown = match answer {
            Ok(added) => Answer::of(added, job_id),
            Err(error) => {
                let first_full = matches!(error, QueueError::Full { .. }) && self.full == 1;
                // Thousands of lines would say nothing more.
                if first_full || !matches!(error, QueueError::Full { .. }) {
                    let place = match &item.place {
                        Place::Line(number) => format!("line {number}"),
                        Place::Entry(_, place) => place.clone(),
                    };
                    let said = text::shown(&error.to_string());
                    output::say(&format!("{place}: {said} ({})", error.code()));
                }
                Answer::not_added(error.code(), error.to_string(), job_id)
            }
        };
        shown.at(&item.place).print(output);
    }

    pub(super) fn all(&self) -> u64 {
        self.in_queue() + self.full + self.refused
    }

    pub(super) fn in_queue(&self) -> u64 {
        self.added + self.duplicate
    }

    pub(in crate::commands) fn exit(&self) -> Exit {
        match self {
            Self { full: 1.., .. } => Exit::TryAgain,
            Self { refused: 1.., .. } => Exit::ItemFailed,
            _ => Exit::Done,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "added {}, there before {}, refused {}, without room {}",
            self.added, self.duplicate, self.refused, self.full
        )
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        Self::of(&error)
    }
}
