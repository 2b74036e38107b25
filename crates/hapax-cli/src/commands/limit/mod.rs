//! `hapax limit`: so much in such a time.
//!
//! | module | what it does |
//! |---|---|
//! | `ask` | the limit that is asked, and how |
//! | `check` | asks, and says what the limit says |
//! | `down` | what is answered in place of a store that cannot be opened |
//! | `run` | runs a command if the limit lets it pass |
//! | `manage` | forgets what was counted, and tells algorithms apart |
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

mod ask;
mod check;
mod down;
mod manage;
#[cfg(unix)]
mod run;

use super::Context;
use crate::{exit::Exit, failure::Failure};
use clap::{Args, Subcommand};

/// Ask a rate limit, and run a command if it may
///
/// A limit is a name with a number and a window: what passes is counted under the name, on all machines of the store. Another
/// number or window for the same name counts on from what was counted; another --algorithm counts anew.
///
/// The default, fixed-window, opens a window with the first request, so up to twice the number may pass around the end of one:
/// --algorithm sliding-window never lets more than the number pass in any window.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax limit check login:ada --limit 5 --window 1m && ./login ada
  hapax limit run api --limit 100 --window 1h --wait 10m -- ./call-api
  hapax limit run api --limit 100 --window 1m --algorithm sliding-window --wait 10m -- ./call-api
  hapax limit reset login:ada
  hapax limit explain --limit 5 --window 1m             how exact is which algorithm?")]
pub(crate) struct Limit {
    #[command(subcommand)]
    command: LimitCommand,
}

#[derive(Debug, Subcommand)]
enum LimitCommand {
    Check(check::Check),
    #[cfg(unix)]
    Run(run::RunWithin),
    Reset(manage::Reset),
    Explain(manage::Explain),
}

impl Limit {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let exit = match self.command {
            LimitCommand::Check(check) => check.run(context).await,
            #[cfg(unix)]
            LimitCommand::Run(run) => run.run(context).await,
            LimitCommand::Reset(reset) => reset.run(context).await,
            LimitCommand::Explain(explain) => explain.run(context),
        }?;
        context.output.end()?;
        Ok(exit)
    }
}
