//! What a call says: the recorded output of a replay, notes and errors for people, or the object of `--json`.

use super::{plan::Plan, verdict::Verdict};
use crate::{
    child::NotStarted,
    commands::{
        Context,
        program::{self, name_of},
    },
    duration,
    exit::Exit,
    failure::Failure,
    output,
    receipt::{self, Run},
    size, store, text,
};
use hapax::{
    Timestamp,
    core::idempotency::{Kind, Record, RecordState},
    protocol::Kept,
};
use serde::Serialize;
use std::time::Duration;

/// How a call ended. The words are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Ran,
    NotStarted,
    Replayed,
    InFlight,
    KeyReused,
    Unknown,
    LeaseLost,
    StoreFailed,
}

/// What the store has under the key once the call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// What this call has left there.
    Ours,
    /// The reservation of another call: what this one has left counts if that one fails.
    InFlight,
    /// The result of another call.
    Done,
}

impl Now {
    pub(super) fn after(kept: &Kept) -> Self {
        match kept {
            Kept::Late => Self::InFlight,
            Kept::Superseded(record)
                if matches!(record.state, RecordState::Settled { kind: Kind::Done, .. }) =>
            {
                Self::Done
            }
            _ => Self::Ours,
        }
    }
}

/// The end of a call.
#[derive(Debug)]
pub(super) struct Report {
    outcome: Outcome,
    exit: Exit,
    code: Option<&'static str>,
    run: Option<Run>,
    first_at: Option<Timestamp>,
    retry_after: Option<Duration>,
    /// Said on stderr.
    failure: Option<Failure>,
    /// What nobody knows, as the end of a sentence; with the way to settle it.
    unknown: Option<String>,
    /// Whether the store has the receipt.
    stored: bool,
    now: Now,
}

impl Report {
    fn new(outcome: Outcome, exit: Exit) -> Self {
        Self {
            outcome,
            exit,
            code: None,
            run: None,
            first_at: None,
            retry_after: None,
            failure: None,
            unknown: None,
            stored: true,
            now: Now::Ours,
        }
    }

    /// hapax itself says no.
    pub(super) fn refused(outcome: Outcome, failure: Failure) -> Self {
        let report = Self::new(outcome, failure.exit);
        Self { code: Some(failure.code), failure: Some(failure), ..report }
    }

    pub(super) fn not_started(not_started: &NotStarted) -> Self {
        // As when the store grants a key too late to begin: nothing was run, and nothing is wrong with the command.
        if not_started.lease_passed {
            let code = "idempotency.store_failed";
            let failure = Failure::new(Exit::Unreachable, code, &not_started.reason)
                .help("nothing was run: try again, if it happens often with a longer --lease");
            return Self::refused(Outcome::StoreFailed, failure);
        }
        Self::refused(Outcome::NotStarted, program::not_started(not_started, "the key is free"))
    }

    pub(super) fn interrupted(signal: i32) -> Self {
        Self::refused(Outcome::NotStarted, program::interrupted(signal))
    }

    /// The command began, and ended.
    pub(super) fn ran(verdict: Verdict, run: Run, stored: bool, now: Now) -> Self {
        let (outcome, code) = match (verdict.is_unknown(), verdict.ended) {
            (true, receipt::Ended::LeaseLost) => (Outcome::LeaseLost, Some("idempotency.lease_lost")),
            (true, receipt::Ended::TimedOut) => (Outcome::Unknown, Some("idempotency.timed_out")),
            (true, _) => (Outcome::Unknown, Some("idempotency.unknown")),
            (false, _) => (Outcome::Ran, None),
        };
        Self {
            code: if stored { code } else { Some("idempotency.complete_failed") },
            run: Some(run),
            unknown: verdict.is_unknown().then_some(verdict.why),
            stored,
            now,
            ..Self::new(outcome, Exit::Command(verdict.exit))
        }
    }

    /// An earlier call ended so.
    pub(super) fn replayed(record: &Record) -> Self {
        let report = match &record.state {
            RecordState::Settled { kind: Kind::Done, receipt, .. } => match Run::decode(receipt) {
                Ok(run) => Self {
                    run: Some(run.clone()),
                    ..Self::new(Outcome::Replayed, Exit::Command(run.exit_code))
                },
                Err(error) => {
                    let message = "the command has run, and what is kept of it cannot be read";
                    let failure = Failure::new(Exit::Unknown, "idempotency.unreadable", message);
                    Self::refused(Outcome::Unknown, failure.because(Some(error.as_ref())))
                }
            },
            RecordState::Settled { receipt, completed_at, .. } => {
                let run = Run::decode(receipt).ok();
                let at = text::time_rough(*completed_at);
                let why = match run.as_ref().map(|run| (run.ended, run.exit_code)) {
                    Some((receipt::Ended::Exited, code)) => format!("it exited with {code} at {at}"),
                    Some((receipt::Ended::Signalled, code)) => {
                        format!("it was ended around {} at {at}", name_of(i32::from(code) - 128))
                    }
                    Some((receipt::Ended::TimedOut, _)) => format!("it was ended by its --timeout at {at}"),
                    Some((receipt::Ended::LeaseLost, _)) => {
                        format!("its lease was lost at {at}, so it was ended")
                    }
                    None => format!("the call was broken off at {at}"),
                };
                let code = Some("idempotency.unknown");
                Self { code, run, unknown: Some(why), ..Self::new(Outcome::Unknown, Exit::Unknown) }
            }
            // The engine answers with ended records only.
            _ => Self::new(Outcome::Unknown, Exit::Unknown),
        };
        report.at(record.first_at)
    }

    pub(super) fn at(mut self, first_at: Timestamp) -> Self {
        self.first_at = Some(first_at);
        self
    }

    pub(super) fn retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Says it, and answers with what to exit with.
    pub(super) fn say(self, plan: &Plan, context: &Context) -> Exit {
        let output = &context.output;
        if output.json {
            output.object(&self.object(plan));
        } else if let (Outcome::Replayed, Some(run)) = (self.outcome, &self.run) {
            output.bytes(&run.stdout.0);
            output::stderr_bytes(&run.stderr.0);
        }
        self.explain(plan, context);
        self.exit
    }

    /// On stderr.
    fn explain(&self, plan: &Plan, context: &Context) {
        let output = &context.output;
        let key = text::shown(plan.name.key());
        let flags = store::flags(&context.settings);
        let quoted = text::quoted(plan.name.key());
        let settle =
            || format!("hapax keys resolve {quoted} --as done{flags} (or --as failed, to let it run again)");
        match (self.outcome, &self.failure, &self.unknown) {
            (Outcome::InFlight, Some(failure), _) => {
                let rest = duration::format_rough(self.retry_after.unwrap_or_default());
                // The lease is renewed as long as the call lives: what is left of it says when a dead one ends.
                let help = format!(
                    "it ends when the command of that call does: try again then, or wait for it with --wait 10m, say; \
                     should that call be dead, the key is free in {rest}"
                );
                failure.clone().help(help).explain();
            }
            (Outcome::KeyReused, Some(failure), _) => {
                let help = "use another key, or say with --fingerprint TEXT what tells one use from another";
                failure.clone().help(help).explain();
            }
            (_, Some(failure), _) => failure.explain(),
            // The call itself ended so: it exits with its own code, and later ones with 76.
            (_, None, Some(why)) => {
                let code = self.code.unwrap_or("idempotency.unknown");
                let (found, help) = match self.now {
                    // A verdict needs a record, and there will be none unless the store took it after all.
                    Now::Ours if !self.stored => (
                        format!("the outcome of {key} is unknown: {why}; the store has not confirmed that it keeps this"),
                        format!(
                            "find out what it did before it runs again: the next call runs it once its lease is over, \
                             unless `hapax keys get {quoted}{flags}` shows it as unknown by then; in that case: {}",
                            settle()
                        ),
                    ),
                    Now::Ours => (
                        format!("the outcome of {key} is unknown: {why}"),
                        format!("find out what it did, then: {}", settle()),
                    ),
                    Now::InFlight => (
                        format!("the command of {key} may have had its effect: {why}; another call has the key now"),
                        format!("find out what it did; should the other call fail, then: {}", settle()),
                    ),
                    Now::Done => (
                        format!("the command of {key} may have had its effect: {why}; another call has completed the key since"),
                        "find out what it did; the key is done, and later calls get the result of the other call".to_owned(),
                    ),
                };
                output::say(&format!("error: {found} ({code})\n  help: {help}"));
            }
            (Outcome::Replayed, ..) => {
                if let Some(run) = &self.run {
                    cut(run.stdout.0.len(), run.stdout_bytes, "stdout");
                    cut(run.stderr.0.len(), run.stderr_bytes, "stderr");
                }
                let at = self.first_at.map_or_else(|| "an earlier time".to_owned(), text::time_rough);
                output.note(&format!("{key} ran at {at}, replayed"));
            }
            _ => {}
        }
        if !self.stored && self.unknown.is_none() {
            output::warn(&format!(
                "the receipt of {key} may not have been stored: if it was not, a call runs it again once its lease is over (idempotency.complete_failed)"
            ));
        }
    }

    fn object(&self, plan: &Plan) -> Object<'_> {
        let run = self.run.as_ref();
        let (stdout, stdout_base64) = program::of_bytes(run.map_or(&[][..], |run| &run.stdout.0));
        let (stderr, stderr_base64) = program::of_bytes(run.map_or(&[][..], |run| &run.stderr.0));
        Object {
            key: plan.name.key().to_owned(),
            outcome: self.outcome,
            exit_code: self.exit.code(),
            stdout,
            stderr,
            truncated: self.run.as_ref().is_some_and(Run::is_cut),
            first_at: self.first_at.and_then(text::time),
            retry_after_ms: self.retry_after.and_then(|rest| u64::try_from(rest.as_millis()).ok()),
            code: self.code,
            stdout_base64,
            stderr_base64,
        }
    }
}

/// The object of `--json`. The names of its fields are stable.
#[derive(Debug, Serialize)]
struct Object<'a> {
    key: String,
    outcome: Outcome,
    exit_code: u8,
    stdout: String,
    stderr: String,
    truncated: bool,
    first_at: Option<String>,
    retry_after_ms: Option<u64>,
    code: Option<&'a str>,
    /// The bytes, where they are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
}

/// Without this line a part would be taken for the whole.
fn cut(kept: usize, total: Option<u64>, stream: &str) {
    if let Some(total) = total {
        let kept = size::format(u64::try_from(kept).unwrap_or(u64::MAX));
        output::say(&format!("output cut: {kept} of {} kept ({stream})", size::format(total)));
    }
}
