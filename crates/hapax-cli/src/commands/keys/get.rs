//! `hapax keys get`.

use super::{Shown, Target};
use crate::{commands::Context, exit::Exit, failure::Failure, store};
use clap::Args;

/// Show what is kept under a key
///
/// A key under which nothing is kept is vacant, and no error.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys get nightly-report
  hapax keys get nightly-report --json | jq -r .receipt.stdout
  hapax keys get welcome:ada@example.com --scope mail")]
pub(crate) struct Get {
    #[command(flatten)]
    target: Target,
}

impl Get {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(note) = store::missing(&context.settings)? {
            Shown::new(&self.target.name(context)?, None).print(&context.output);
            context.output.note(&note);
            return Ok(Exit::Done);
        }
        let found = self.target.find(context).await?;
        let shown = found.look().await?;
        shown.print(&context.output);
        if shown.state == "vacant" {
            found.hint(&context.output).await?;
        }
        Ok(Exit::Done)
    }
}
