//! `hapax store`: the store as a whole.

use super::Context;
use crate::{
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
};
use clap::{Args, Subcommand};
use hapax::{
    BackendUrl,
    core::registry::ConnectOptions,
    sqlite::{self, SqliteOptions, Upgraded},
};

/// Look after the store
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax store upgrade")]
pub(crate) struct Store {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    Upgrade(Upgrade),
}

/// Raise the layout of the store to that of this version
///
/// Opening a store never does: other processes may still be of an older version, and cannot read a newer layout. Stop
/// them, or bring them to this version, first.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax store upgrade
  hapax store upgrade --store sqlite:/var/lib/app/hapax.db")]
struct Upgrade {}

impl Store {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            StoreCommand::Upgrade(Upgrade {}) => upgrade(context).await,
        }
    }
}

async fn upgrade(Context { output, settings }: &Context) -> Result<Exit, Failure> {
    let url = BackendUrl::parse(&store::url(settings)?)?;
    if url.scheme() == "sqlite" {
        let options = SqliteOptions::from_url(&url, &ConnectOptions::default())?;
        let Upgraded::NothingToDo { layout, .. } = sqlite::upgrade(options).await? else {
            return Err(Failure::new(
                Exit::Bug,
                "command.internal",
                "the upgrade ended in a way that has no name",
            ));
        };
        if output.json {
            output.object(&serde_json::json!({ "store": url.scheme(), "layout": layout, "upgraded": false }));
        } else {
            output.line(&format!("the layout is {layout}, the newest of this version: nothing to do"));
        }
        output.end()?;
        return Ok(Exit::Done);
    }
    // Says which stores this build has, if this is none of them.
    store::open(settings, Sharing::Needed).await?;
    let message = format!("a {}: store has no layout to upgrade", url.scheme());
    Err(Failure::new(Exit::Unreachable, "store.unsupported", message))
}
