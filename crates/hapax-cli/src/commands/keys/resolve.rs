//! `hapax keys resolve`: what nobody knew, somebody found out.
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

use super::{Shown, Target};
use crate::{commands::Context, duration, exit::Exit, failure::Failure, receipt::Run};
use clap::{Args, ValueEnum};
use hapax::{
    Version,
    core::{
        Span, Token,
        idempotency::{JSON, Receipt, Resolution, Resolve as Request, Resolved},
    },
    queue::raw::NO_RESULT,
};
use std::time::Duration;

/// What the scopes of jobs begin with.
const JOB: &str = "job:";

/// Settle a key whose outcome is unknown
///
/// Find out first whether it happened. Then say `done`, and later calls are answered from the receipt; or `failed`, and
/// the next call runs. Where the key is no longer unknown, or no longer the version that was looked at, nothing is
/// written and the exit code is 65.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys list --state unknown
  hapax keys resolve nightly-report --as done
  hapax keys resolve nightly-report --as done --receipt '{\"exit_code\": 0, \"stdout\": \"42 rows\\n\"}'
  hapax keys resolve nightly-report --as failed --version 1f3a5c7e9b2d4f60
  hapax keys resolve a.png --scope job:thumbs:main --as done
  hapax queue dead redrive thumbs a.png                       then the job ends as it was settled")]
pub(crate) struct Resolve {
    #[command(flatten)]
    target: Target,
    /// Whether it happened
    #[arg(long = "as", value_name = "VERDICT")]
    verdict: Verdict,
    /// What later calls get. For the scope once: exit_code, stdout, stderr, each of which may be left out; without it a
    /// replay exits 0 and prints nothing. For a scope of jobs, job:QUEUE:GROUP: the result of the job as JSON; without it the
    /// job is done and has none. For a scope of a program: the value that it would have kept, as JSON
    #[arg(long, value_name = "JSON")]
    receipt: Option<String>,
    /// Only if the key still has this version, as `keys get` showed it
    #[arg(long, value_name = "V")]
    version: Option<String>,
    /// How long the receipt answers
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    ttl: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Verdict {
    /// It happened
    Done,
    /// It did not: the key is free
    Failed,
}

impl Resolve {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let receipt = self.receipt()?;
        let version = match &self.version {
            Some(text) => {
                Some(text.parse::<Version>().map_err(|error| Failure::usage(format!("--version: {error}")))?)
            }
            None => None,
        };
        let ttl = Span::new(self.ttl).map_err(|error| Failure::usage(format!("--ttl: {error}")))?;
        let resolution = receipt.map_or(Resolution::DidNot, |receipt| Resolution::Happened { receipt, ttl });
        let found = self.target.find(context).await?;
        let request = Request { name: found.name.clone(), token: Token::random()?, version, resolution };
        if let Resolved::Changed(now) = found.hapax.backend().idempotency.resolve(&request).await? {
            let now = Shown::new(&found.name, now);
            let version = now.version.map_or_else(String::new, |version| format!(", version {version}"));
            let message = format!("the key is {}{version}: nothing was written", now.state);
            return Err(Failure::new(Exit::Invalid, "idempotency.changed", message));
        }
        context.output.changed();
        found.look().await?.print(&context.output);
        Ok(Exit::Done)
    }

    /// The receipt of a success.
    fn receipt(&self) -> Result<Option<Receipt>, Failure> {
        let json = match (self.verdict, &self.receipt) {
            (Verdict::Failed, None) => return Ok(None),
            (Verdict::Failed, Some(_)) => return Err(Failure::usage("--receipt goes with --as done")),
            (Verdict::Done, json) => json.as_deref(),
        };
        let receipt = match (self.target.scope.as_str(), json) {
            ("once", json) => {
                let run = Run::of_person(json.unwrap_or("{}"));
                let run =
                    run.map_err(|reason| Failure::input(format!("--receipt cannot be used: {reason}")))?;
                run.encode().map_err(|error| Failure::input(format!("--receipt cannot be used: {error}")))?
            }
            // A mail's receipt has a form of its own.
            (scope, _)
                if scope == "mail" || scope.starts_with("mail:") || scope.starts_with("mail-rehearsal:") =>
            {
                let message = format!("--as done does not go with the scope {}", crate::text::shown(scope));
                return Err(Failure::usage(message).help("say `hapax mail resolve KEY --as done`"));
            }
            // As a handler that answers nothing leaves it: a job that runs again under the key is done, without a result.
            (scope, None) if scope.starts_with(JOB) => Receipt::new(NO_RESULT, Vec::new()),
            (_, Some(json)) => {
                let value: serde_json::Value = serde_json::from_str(json)
                    .map_err(|error| Failure::input(format!("--receipt is no JSON: {error}")))?;
                Receipt::new(JSON, value.to_string().into_bytes())
            }
            (scope, None) => {
                let message = format!("--as done needs --receipt in the scope {}", crate::text::shown(scope));
                return Err(
                    Failure::usage(message).help("give the value that the program would have kept, as JSON")
                );
            }
        };
        Ok(Some(receipt))
    }
}
