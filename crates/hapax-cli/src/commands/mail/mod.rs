//! `hapax mail`: mails that are sent once.

mod resolve;
mod send;

use super::Context;
use crate::{exit::Exit, failure::Failure};
use clap::{Args, Subcommand};

/// Send mails, each once
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax mail send welcome.jsonl
  hapax keys list --all-scopes --state unknown
  hapax mail resolve welcome:1 --as done --via file:outbox")]
pub(crate) struct Mail {
    #[command(subcommand)]
    command: MailCommand,
}

#[derive(Debug, Subcommand)]
enum MailCommand {
    Send(Box<send::Send>),
    Resolve(resolve::Resolve),
}

impl Mail {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            MailCommand::Send(send) => send.run(context).await,
            MailCommand::Resolve(resolve) => resolve.run(context).await,
        }
    }
}
