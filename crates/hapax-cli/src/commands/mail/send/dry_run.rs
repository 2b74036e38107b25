//! `--dry-run`: what would be sent, and which keys would be answered from an earlier run. It only reads.

use super::{
    check::Checker,
    feed::{Fed, Feed},
    input::Mail,
    report::Report,
};
use crate::{failure::Failure, output::Output, size, text};
use futures_util::{FutureExt, StreamExt, stream::FuturesOrdered};
use hapax::{
    BoxFuture, Fingerprint, Hapax, Key,
    core::{
        Clock, Name, Namespace, Scope, SystemClock,
        fingerprint::Agreement,
        idempotency::{Kind, RecordState},
    },
    mail::{self, Frozen, InvalidMessage, SuppressionList},
};
use serde::Serialize;

/// So many look-ups at a time.
const LOOK_UPS: usize = 64;

/// Where keys are looked up, unless the store is not there yet.
pub(super) struct LookUp {
    pub(super) hapax: Option<Hapax>,
    pub(super) namespace: Namespace,
    pub(super) scope: Scope,
    /// Who gets no mail.
    pub(super) suppressed: SuppressionList,
}

/// One message, as a program reads it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    index: u64,
    key: Option<&'a str>,
    place: &'a str,
    would: Would,
    from: &'a str,
    to: &'a [String],
    /// Those of `to` that are on the suppression list.
    suppressed: &'a [String],
    bytes: usize,
}

/// What a run would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Would {
    Send,
    Replay,
    /// Another run holds the key.
    Wait,
    /// The outcome of an earlier send is unknown.
    AnswerUnknown,
    /// The key was used for another message.
    RefuseKeyReused,
    /// Everybody is on the suppression list.
    Suppress,
    /// It is not valid.
    Skip,
}

impl Would {
    fn words(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Replay => "replay",
            Self::Wait => "wait for another run",
            Self::AnswerUnknown => "nothing: it may have been sent",
            Self::RefuseKeyReused => "refuse: the key was used for another message",
            Self::Suppress => "nothing: every recipient is on the suppression list",
            Self::Skip => "skip: it is not valid",
        }
    }
}

/// What is known of a message without the store.
struct Planned {
    envelope: mail::Envelope,
    suppressed: Vec<String>,
    bytes: usize,
    call: Option<(Key, Fingerprint)>,
}

type Looked = (Fed, Option<Planned>, Would);

/// Counts of a rehearsal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    send: u64,
    replay: u64,
    other: u64,
    bytes: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { send, replay, other, bytes } = self;
        write!(
            f,
            "would send {send} ({}), replay {replay}, neither {other}; nothing was written",
            size::format(*bytes)
        )
    }
}

/// Looks at every message, in order.
pub(super) async fn look(
    feed: &mut Feed,
    checker: &Checker,
    look_up: &LookUp,
    output: &Output,
    report: &mut Report<'_>,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut looks: FuturesOrdered<BoxFuture<'_, Result<Looked, Failure>>> = FuturesOrdered::new();
    loop {
        if looks.len() < LOOK_UPS {
            std::future::poll_fn(|cx| feed.poll_ready(cx)).await;
            if let Some(fed) = feed.pop() {
                looks.push_back(look_up.one(fed).boxed());
                continue;
            }
        }
        let Some(looked) = looks.next().await else { break };
        let (fed, planned, would) = looked?;
        let place = fed.slot.place(checker);
        match would {
            Would::Send => {
                counts.send += 1;
                counts.bytes += planned.as_ref().map_or(0, |planned| planned.bytes as u64);
            }
            Would::Replay => counts.replay += 1,
            _ => counts.other += 1,
        }
        let bytes = planned.as_ref().map_or(0, |planned| planned.bytes);
        let (from, to): (&str, &[String]) =
            planned.as_ref().map_or(("", &[]), |planned| (&planned.envelope.from, &planned.envelope.to));
        let suppressed = planned.as_ref().map_or(&[][..], |planned| &planned.suppressed);
        let key = fed.slot.key.as_ref().map(Key::as_str);
        if output.json {
            let line = Line { index: fed.slot.index, key, place: &place, would, from, to, suppressed, bytes };
            report.line(&serde_json::to_string(&line).unwrap_or_default());
        } else {
            let to = match to {
                [] => String::new(),
                [one] => one.clone(),
                [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            };
            let key = text::shown(key.unwrap_or("-"));
            let left_out = match suppressed.len() {
                n if n > 0 && would == Would::Send => format!(", without {n} on the suppression list"),
                _ => String::new(),
            };
            report.line(&format!(
                "{place}\t{key}\t{} -> {to}\t{}\t{}{left_out}",
                from,
                size::format(bytes as u64),
                would.words()
            ));
        }
    }
    Ok(counts)
}

impl LookUp {
    async fn one(&self, fed: Fed) -> Result<Looked, Failure> {
        let planned = match &fed.mail {
            Ok(mail) => plan(mail, &self.suppressed)?,
            Err(_) => return Ok((fed, None, Would::Skip)),
        };
        let would = match (&planned.call, &self.hapax) {
            (Some((key, fingerprint)), Some(hapax)) => {
                let name = Name::new(&self.namespace, &self.scope, key);
                let record = hapax.keeper().read(&name).await?;
                record.map_or(Would::Send, |record| match record.state {
                    _ if fingerprint.agrees_with(&record.fingerprint) == Agreement::Other => {
                        Would::RefuseKeyReused
                    }
                    RecordState::Pending => Would::Wait,
                    RecordState::Settled { kind: Kind::Done, .. } => Would::Replay,
                    _ => Would::AnswerUnknown,
                })
            }
            _ => Would::Send,
        };
        let is_nobody_left = planned.suppressed.len() == planned.envelope.to.len();
        let would = if would == Would::Send && is_nobody_left { Would::Suppress } else { would };
        Ok((fed, Some(planned), would))
    }
}

/// Renders a message as it would be sent. Keys and fingerprints do not depend on who is left out.
fn plan(mail: &Mail, list: &SuppressionList) -> Result<Planned, Failure> {
    // Dates are of different lengths.
    let start = SystemClock.now();
    let refused = |error: InvalidMessage| Failure::of(&error);
    Ok(match mail {
        Mail::Message(message) => {
            let frozen = Frozen::random(message, start)?;
            let (left, suppressed) = list.leave_out(message);
            let bytes = mail::render(&left, &frozen).map_err(|error| Failure::of(&error))?.len();
            let call = message.idempotency_key().map(|key| (key.clone(), mail::fingerprint(message)));
            Planned { envelope: mail::envelope(message), suppressed, bytes, call }
        }
        Mail::Raw(raw) => {
            let frozen = Frozen::random_at("localhost", start)?;
            let bytes = raw.render(&frozen).map_err(|error| Failure::of(&error))?.len();
            let (_, suppressed) = list.leave_out_raw(raw);
            let key = mail.key();
            let call = key.map(|key| (key, mail::fingerprint_raw(raw)));
            Planned { envelope: raw.envelope().map_err(refused)?, suppressed, bytes, call }
        }
    })
}
