//! `hapax keys release`.

use super::Target;
use crate::{commands::Context, exit::Exit, failure::Failure};
use clap::Args;
use hapax::core::idempotency::Write;

/// End a call in flight by force: its key is free, or shows a result that came late
///
/// Its owner, if it lives, learns of it at its next renewal and is ended; what it has done is done, and its result still
/// counts. Meant for an owner that is known to be gone, where waiting for the end of its lease takes too long.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys get nightly-report              is it pending, and until when?
  hapax keys release nightly-report --force")]
pub(crate) struct Release {
    #[command(flatten)]
    target: Target,
    /// Needed: two effects may happen if the owner still lives
    #[arg(long, required = true)]
    force: bool,
}

impl Release {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = self.target.find(context).await?;
        let answer = found.hapax.backend().idempotency.force_release(&found.name).await?;
        let now = found.look().await?;
        if answer == Write::Fenced && now.state != "vacant" && now.state != "pending" {
            let message = format!("the key is {}, not pending: nothing was written", now.state);
            let failure = Failure::new(Exit::Invalid, "idempotency.changed", message);
            return Err(match now.state {
                "unknown" => failure.help("settle it with `hapax keys resolve`"),
                _ => failure
                    .help("a result answers until its time is over, or until `hapax keys forget` removes it"),
            });
        }
        context.output.changed();
        now.print(&context.output);
        if answer == Write::Fenced && now.state == "vacant" {
            found.hint(&context.output).await?;
        }
        Ok(Exit::Done)
    }
}
