//! `hapax lock`: one holder at a time.
//!
//! | module | what it does |
//! |---|---|
//! | `run` | runs a command while a lock is held |
//! | `look` | shows locks |
//! | `manage` | takes a lock from its holder, looks at fences and raises them |
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

mod look;
mod manage;
#[cfg(unix)]
mod run;

use super::Context;
use crate::{exit::Exit, failure::Failure, store::Sharing};
use clap::{Args, Subcommand};
use hapax::{Hapax, Key, core::Namespace};

/// Hold a lock while a command runs, and look at locks
///
/// A lock has one holder at a time, on all machines of the store. It is held for its --ttl and renewed meanwhile, so a holder
/// that dies frees it. Each grant has a fence, a number above all that were given before: write it along with what you write,
/// and refuse a smaller one, and a holder that was paused for too long does no harm.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax lock run deploy -- ./deploy.sh
  hapax lock run deploy --wait 10m -- ./deploy.sh     waits for the one that runs
  hapax lock show deploy
  hapax lock list
  hapax lock break deploy --force")]
pub(crate) struct Lock {
    #[command(subcommand)]
    command: LockCommand,
}

#[derive(Debug, Subcommand)]
enum LockCommand {
    #[cfg(unix)]
    Run(run::RunUnder),
    Show(look::ShowLock),
    List(look::ListLocks),
    Break(manage::Break),
    Fence(manage::ShowFence),
}

impl Lock {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let exit = match self.command {
            #[cfg(unix)]
            LockCommand::Run(run) => run.run(context).await,
            LockCommand::Show(show) => show.run(context).await,
            LockCommand::List(list) => list.run(context).await,
            LockCommand::Break(broken) => broken.run(context).await,
            LockCommand::Fence(fence) => fence.run(context).await,
        }?;
        context.output.end()?;
        Ok(exit)
    }
}

/// A lock, by its name.
#[derive(Clone, Debug, Args)]
struct Name {
    /// The name of the lock: 1 byte to 64 KiB of UTF-8
    #[arg(value_name = "NAME")]
    name: String,
}

impl Name {
    /// As the name of a lock, checked before anything is opened.
    fn key(&self, context: &Context) -> Result<Key, Failure> {
        Namespace::new(&context.settings.namespace)?;
        let invalid = |error: hapax::InvalidKey| {
            Failure::new(Exit::Invalid, "lock.invalid", format!("the name of the lock: {error}"))
        };
        Key::from_shown(&self.name).map_err(invalid)
    }
}

async fn open(context: &Context) -> Result<Hapax, Failure> {
    crate::store::open(&context.settings, Sharing::Needed).await
}
