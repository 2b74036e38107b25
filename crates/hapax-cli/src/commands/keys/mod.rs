//! `hapax keys`: what is kept, and verdicts by hand.

mod forget;
mod get;
mod hints;
mod list;
mod prune;
mod release;
mod resolve;
mod show;

pub(crate) use self::{
    hints::with_key,
    show::{Shown, json_of},
};
use super::Context;
use crate::{args::KeyArg, exit::Exit, failure::Failure, output::Output, store::Sharing};
use clap::{Args, Subcommand};
use hapax::{
    Hapax,
    core::{Name, Namespace, Scope},
};

/// Look at the keys that are kept, and settle what is unknown
///
/// A key is vacant, pending (a call is in flight, or its process died and its lease has not passed), done, or unknown (the
/// effect may have happened).
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys list --state unknown
  hapax keys get nightly-report
  hapax keys resolve nightly-report --as done")]
pub(crate) struct Keys {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    Get(get::Get),
    List(list::ListKeys),
    Release(release::Release),
    Forget(forget::Forget),
    Resolve(resolve::Resolve),
    Prune(prune::Prune),
}

impl Keys {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let exit = match self.command {
            KeysCommand::Get(get) => get.run(context).await,
            KeysCommand::List(list) => list.run(context).await,
            KeysCommand::Release(release) => release.run(context).await,
            KeysCommand::Forget(forget) => forget.run(context).await,
            KeysCommand::Resolve(resolve) => resolve.run(context).await,
            KeysCommand::Prune(prune) => prune.run(context).await,
        }?;
        context.output.end()?;
        Ok(exit)
    }
}

/// One key of one purpose.
#[derive(Clone, Debug, Args)]
struct Target {
    #[command(flatten)]
    key: KeyArg,
    /// What the key is for: once, mail, or the name a program made its handle with
    #[arg(long, value_name = "SCOPE", default_value = "once")]
    scope: String,
}

/// A [`Target`] in its store.
struct Found {
    hapax: Hapax,
    name: Name,
}

impl Target {
    fn name(&self, context: &Context) -> Result<Name, Failure> {
        let (key, scope) = (self.key.kept()?, Scope::from_shown(&self.scope)?);
        let namespace = Namespace::new(&context.settings.namespace)?;
        Ok(Name::new(&namespace, &scope, &key))
    }

    async fn find(&self, context: &Context) -> Result<Found, Failure> {
        let name = self.name(context)?;
        let hapax = crate::store::open(&context.settings, Sharing::Needed).await?;
        Ok(Found { hapax, name })
    }
}

impl Found {
    /// As it is now.
    async fn look(&self) -> Result<Shown, Failure> {
        Ok(Shown::new(&self.name, self.hapax.keeper().read(&self.name).await?))
    }

    /// Says where else the key may be, after it was found vacant.
    async fn hint(&self, output: &Output) -> Result<(), Failure> {
        if !output.quiet
            && let Some(hint) = hints::of_key(&self.hapax, &self.name).await?
        {
            output.note(&hint);
        }
        Ok(())
    }
}
