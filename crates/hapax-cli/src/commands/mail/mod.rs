//! `hapax mail`: mails that are sent once.

mod enqueue;
mod reconcile;
mod resolve;
mod send;
mod worker;

use super::Context;
use crate::{exit::Exit, failure::Failure};
use clap::{Args, Subcommand};

/// The queue of mails.
const QUEUE: &str = "mail";

/// Send mails, each once: now, or over a queue
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax mail send welcome.jsonl
  hapax mail enqueue welcome.jsonl; hapax mail worker --until-empty
  hapax keys list --all-scopes --state unknown
  hapax mail resolve welcome:1 --as done --via file:outbox
  POSTMARK_SERVER_TOKEN=… hapax mail reconcile --via postmark:")]
pub(crate) struct Mail {
    #[command(subcommand)]
    command: MailCommand,
}

#[derive(Debug, Subcommand)]
enum MailCommand {
    Send(Box<send::Send>),
    Enqueue(Box<enqueue::Enqueue>),
    Worker(Box<worker::Worker>),
    Resolve(resolve::Resolve),
    Reconcile(reconcile::Reconcile),
}

impl Mail {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            MailCommand::Send(send) => send.run(context).await,
            MailCommand::Enqueue(enqueue) => enqueue.run(context).await,
            MailCommand::Worker(worker) => worker.run(context).await,
            MailCommand::Resolve(resolve) => resolve.run(context).await,
            MailCommand::Reconcile(reconcile) => reconcile.run(context).await,
        }
    }
}
