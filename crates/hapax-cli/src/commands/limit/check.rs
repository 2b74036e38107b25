//! `hapax limit check`.

use super::ask::{Answer, Ask, refusal};
use crate::{commands::Context, exit::Exit, failure::Failure};
use clap::Args;

/// Ask whether a request may pass, and count it if it may
///
/// A refused request is not counted.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax limit check login:ada --limit 5 --window 1m && ./login ada
  hapax limit check api --limit 100 --window 1h --cost 3 --algorithm token-bucket
  hapax limit check api --limit 100 --window 1h --dry-run --json | jq .remaining
  hapax limit check api --limit 100 --window 1h --wait 10m      waits until it may pass
  hapax limit check api --limit 100 --window 1h --when-down open   a store out of reach lets pass

EXIT CODES:
  0         it may pass
  65        the cost is above the limit: it never passes
  69        the store failed
  75        the limit is reached")]
pub(super) struct Check {
    #[command(flatten)]
    ask: Ask,
    /// Answers as if it were asked in earnest, and counts nothing
    #[arg(long)]
    dry_run: bool,
}

impl Check {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let output = &context.output;
        let limit = self.ask.limit(context)?;
        let decision = self.ask.decide(context, limit, self.dry_run).await?;
        let refusal = refusal(&decision);
        if output.json {
            output.object(&Answer::of(&decision));
        } else if refusal.is_none() {
            output.line(&format!("allowed: {} of {} left", decision.remaining(), decision.limit()));
        }
        Ok(refusal.map_or(Exit::Done, |failure| {
            failure.explain();
            failure.exit
        }))
    }
}
