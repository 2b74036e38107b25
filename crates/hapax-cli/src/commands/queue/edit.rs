//! `hapax queue edit`.

use super::{
    Found, OfGroup, OneJob,
    add::payload,
    dead::{not_dead, of_group},
    show,
};
use crate::{commands::Context, exit::Exit, failure::Failure};
use clap::Args;
use hapax::{core::queue::Edit as Request, queue::raw};
use std::ffi::OsString;

/// Give a dead letter another payload, before it is redriven
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue dead show thumbs a.png --json | jq '.payload.width = 64 | .payload' | hapax queue edit thumbs a.png -
  hapax queue dead redrive thumbs a.png")]
pub(super) struct Edit {
    #[command(flatten)]
    job: OneJob,
    /// The new payload; `-` reads it from standard input
    #[arg(value_name = "PAYLOAD", allow_negative_numbers = true)]
    payload: OsString,
    #[command(flatten)]
    group: OfGroup,
}

impl Edit {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = Found::of_job(&self.job, context).await?;
        let payload = payload::read(Some(&self.payload))?;
        let group = found.one_group(&self.group).await?;
        let (job, infos) = found.find(&self.job.id).await?;
        let Some(dead) = of_group(infos, group.as_ref()).pop() else { return Err(not_dead(&self.job.id)) };
        let (queue, fingerprint) = (found.raw.id().clone(), raw::fingerprint(&payload));
        let req = Request { queue, group: group.clone(), uid: dead.uid, payload, fingerprint };
        if !found.store.edit(&req).await? {
            return Err(not_dead(&self.job.id));
        }
        context.output.changed();
        let infos = found.store.find(found.raw.id(), &job).await?;
        show::print(found.name(), &of_group(infos, group.as_ref()), &context.output);
        Ok(Exit::Done)
    }
}
