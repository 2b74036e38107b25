//! `hapax limit reset` and `hapax limit explain`.

use super::ask::{Amount, algorithms};
use crate::{
    commands::Context,
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
};
use clap::Args;
use hapax::{
    Limit, Quota,
    limit::{Algorithm, Bound},
};
use serde_json::json;
use std::time::Duration;

/// Forget what was counted under a name, whatever the algorithm
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax limit reset login:ada")]
pub(super) struct Reset {
    /// Whose requests are counted
    #[arg(value_name = "NAME")]
    name: String,
}

impl Reset {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        // What was counted does not depend on it.
        let limit = Limit::new(&self.name, Quota::fixed_window(1, Duration::from_secs(1)));
        limit.key()?;
        match store::missing(&context.settings)? {
            Some(note) => context.output.note(&note),
            None => {
                let hapax = store::open(&context.settings, Sharing::Needed).await?;
                hapax.limits().reset(&limit).await?;
            }
        }
        if context.output.json {
            context.output.object(&json!({ "name": self.name, "reset": true }));
        } else {
            context.output.line("nothing is counted");
        }
        Ok(Exit::Done)
    }
}

/// Show how much the algorithms let through in the worst window
///
/// No store is asked.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax limit explain --limit 5 --window 1m
  hapax limit explain --limit 5 --window 1m --algorithm token-bucket --json | jq .most")]
pub(super) struct Explain {
    #[command(flatten)]
    amount: Amount,
    /// This one alone
    #[arg(long, value_name = "ALGORITHM", value_parser = algorithms())]
    algorithm: Option<Algorithm>,
}

impl Explain {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut rows = Vec::new();
        for algorithm in
            Algorithm::ALL.into_iter().filter(|each| self.algorithm.is_none_or(|one| one == *each))
        {
            let quota = Quota::new(algorithm, self.amount.limit, self.amount.window);
            let most = quota.ok().map(|quota| match quota.bound() {
                Bound::AtMost(most) => most,
                _ => u64::from(quota.limit()),
            });
            let bound = match &quota {
                Ok(quota) => quota.bound().to_string(),
                // Of one that was asked for by name it is the answer.
                Err(error) if self.algorithm.is_some() => {
                    return Err(Failure::usage(format!("--limit and --window: {error}")));
                }
                Err(error) => format!("cannot be: {error}"),
            };
            if context.output.json {
                context.output.object(&json!({
                    "algorithm": algorithm.as_str(),
                    "limit": self.amount.limit,
                    "window_ms": u64::try_from(self.amount.window.as_millis()).unwrap_or(u64::MAX),
                    "most": most,
                    "bound": bound,
                    "about": about(algorithm),
                }));
            } else {
                rows.push(vec![algorithm.as_str().to_owned(), bound, about(algorithm).to_owned()]);
            }
        }
        if !context.output.json {
            context.output.list(&["ALGORITHM", "BOUND", "HOW"], &rows);
        }
        Ok(Exit::Done)
    }
}

fn about(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingWindow => "remembers every request for one window; for limits up to 10000",
        Algorithm::SlidingCounter => "two counts, of which the older weighs less the older it gets",
        Algorithm::TokenBucket => "tokens come in evenly; a full bucket lets the whole limit through at once",
        Algorithm::FixedWindow => "a window that starts with its first request; the cheapest",
    }
}
