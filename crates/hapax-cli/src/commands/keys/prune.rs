//! `hapax keys prune`.

use crate::{commands::Context, exit::Exit, failure::Failure, store::Sharing};
use clap::Args;
use serde_json::json;

/// So many in one step: others get their turn in between.
const STEP: usize = 500;

/// Remove what is over from the store
///
/// Never needed for a right answer: it makes room. Takes the keys of all namespaces.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys prune
  hapax keys prune --json")]
pub(crate) struct Prune {}

impl Prune {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let hapax = crate::store::open(&context.settings, Sharing::Needed).await?;
        let mut pruned = 0;
        loop {
            let step = hapax.backend().idempotency.prune(STEP).await?;
            pruned += step;
            context.output.changed();
            if step < STEP {
                break;
            }
        }
        if context.output.json {
            context.output.object(&json!({ "pruned": pruned }));
        } else {
            context.output.line(&format!("{pruned} removed"));
        }
        Ok(Exit::Done)
    }
}
