//! `hapax doctor`: how the store is, and what to do about it.

use super::Context;
use crate::{
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
};
use clap::Args;
use hapax::{
    Diagnosis,
    core::doctor::{Finding, Severity},
};
use serde_json::{Value, json};
use std::time::Duration;

/// Look at the store: what may harm its promise, and what to do
///
/// Connects, measures the round trip, compares clocks, and asks the store for its version, persistence, replicas and room, and
/// proves the books of each queue: what was added is done, dead, cancelled, waiting or running, each job has its body and its
/// place, somebody works for each group. It
/// changes nothing; a store on a server is made by connecting, where it is missing. Findings are info, warnings (speed, or a promise in a rare case) and errors (the store cannot keep its
/// promise like this); with an error the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax doctor
  hapax doctor --store redis://cache.internal
  hapax doctor --json | jq '.findings[] | select(.severity == \"error\")'")]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(self, Context { output, settings }: &Context) -> Result<Exit, Failure> {
        // Opening it would make it.
        if let Some(reason) = store::missing(settings)? {
            if output.json {
                output.object(&json!({
                    "store": "sqlite",
                    "facts": {},
                    "round_trip_us": null,
                    "round_trip_max_us": null,
                    "clock_ahead_ms": null,
                    "severity": Severity::Info.as_str(),
                    "findings": [{
                        "check": "presence",
                        "severity": Severity::Info.as_str(),
                        "reason": reason,
                        "remedy": "nothing",
                    }],
                }));
            } else {
                output.line(&reason);
            }
            output.end()?;
            return Ok(Exit::Done);
        }
        let hapax = store::open(settings, Sharing::Unneeded).await?;
        let diagnosis = hapax.examine().await?;
        if output.json {
            output.object(&object(hapax.backend().name, &diagnosis));
        } else {
            for (name, value) in facts(hapax.backend().name, &diagnosis) {
                output.line(&format!("{name:<14} {value}"));
            }
            for finding in diagnosis.findings() {
                let Finding { check, severity, reason, remedy, .. } = finding;
                output.line(&format!("{severity}: {check}: {reason}\n  to do: {remedy}"));
            }
            if diagnosis.severity().is_none() {
                output.line("nothing found");
            }
        }
        output.end()?;
        Ok(if diagnosis.severity() == Some(Severity::Error) { Exit::ItemFailed } else { Exit::Done })
    }
}

fn facts(backend: &'static str, diagnosis: &Diagnosis) -> Vec<(&'static str, String)> {
    let mut facts = vec![("store", backend.to_owned())];
    facts.extend(diagnosis.examination.facts.iter().cloned());
    if let Some((median, longest)) = diagnosis.round_trip {
        facts.push(("round trip", format!("{}, {} at most", ms(median), ms(longest))));
    }
    if let Some(ahead) = diagnosis.clock_ahead_ms {
        let text = match ahead {
            0 => "no difference".to_owned(),
            1.. => format!("the store is {ahead} ms ahead"),
            _ => format!("the store is {} ms behind", ahead.unsigned_abs()),
        };
        facts.push(("clock", text));
    }
    facts
}

fn ms(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1000.0)
}

fn object(backend: &'static str, diagnosis: &Diagnosis) -> Value {
    let facts: serde_json::Map<_, _> = diagnosis
        .examination
        .facts
        .iter()
        .map(|(name, value)| (name.replace(' ', "_"), json!(value)))
        .collect();
    let finding = |finding: &&Finding| {
        json!({
            "check": finding.check,
            "severity": finding.severity.as_str(),
            "reason": finding.reason,
            "remedy": finding.remedy,
        })
    };
    let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    json!({
        "store": backend,
        "facts": facts,
        "round_trip_us": diagnosis.round_trip.map(|(median, _)| us(median)),
        "round_trip_max_us": diagnosis.round_trip.map(|(_, longest)| us(longest)),
        "clock_ahead_ms": diagnosis.clock_ahead_ms,
        "severity": diagnosis.severity().map(Severity::as_str),
        "findings": diagnosis.findings().iter().map(finding).collect::<Vec<_>>(),
    })
}
