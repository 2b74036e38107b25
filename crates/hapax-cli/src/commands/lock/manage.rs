//! `hapax lock break` and `hapax lock fence`.

use super::{Name, open};
use crate::{commands::Context, exit::Exit, failure::Failure, store, text};
use clap::Args;
use hapax::Fence;
use serde_json::json;

/// Take a lock from its holder by force
///
/// The holder, if it lives, learns of it at its next renewal, a third of its --ttl away at most; its command is ended then. Until
/// then it may run beside the next holder. Meant for a holder that is known to be gone, where waiting for the end of its lease
/// takes too long.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax lock show deploy              who holds it, and until when?
  hapax lock break deploy --force")]
pub(super) struct Break {
    #[command(flatten)]
    name: Name,
    /// Needed: two may hold it for a while if the holder still lives
    #[arg(long, required = true)]
    force: bool,
}

impl Break {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let key = self.name.key(context)?;
        let broken = open(context).await?.locks().break_lock(&key).await?;
        let holder = broken.as_ref().map(|info| info.holder.as_str());
        if context.output.json {
            let fence = broken.as_ref().map(|info| info.fence.get());
            let object =
                json!({ "name": key.as_str(), "broken": broken.is_some(), "holder": holder, "fence": fence });
            context.output.object(&object);
        } else if let Some(holder) = holder {
            context.output.line(&format!("taken from {}", text::shown(holder)));
        } else {
            context.output.line("free: nobody held it");
        }
        Ok(Exit::Done)
    }
}

/// Show the last fence of a lock, or make the next one larger
///
/// A fence is above all that were given before, and never below the time in microseconds: it grows on even where the store was
/// lost, unless its fences were ahead of the clock. Whoever compares fences then knows a larger one than the store gives: give
/// that to --seed.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax lock fence deploy
  hapax lock fence deploy --seed 1767225600000000     the next one is larger than this")]
pub(super) struct ShowFence {
    #[command(flatten)]
    name: Name,
    /// The next fence is larger than this: 1 to 9006099743113216. Never makes it smaller
    #[arg(long, value_name = "N", value_parser = parse_fence, allow_hyphen_values = true)]
    seed: Option<Fence>,
}

fn parse_fence(text: &str) -> Result<Fence, String> {
    let number = text.parse().ok().and_then(|number| Fence::new(number).ok());
    let seed = number.filter(|seed| *seed <= Fence::MAX_SEED);
    seed.ok_or_else(|| format!("a seed is a whole number from 1 to {}", Fence::MAX_SEED))
}

impl ShowFence {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (output, key) = (&context.output, self.name.key(context)?);
        let missing = store::missing(&context.settings)?.filter(|_| self.seed.is_none());
        let fence = match (&missing, self.seed) {
            (Some(note), _) => {
                output.note(note);
                None
            }
            (None, Some(seed)) => Some(open(context).await?.locks().seed_fence(&key, seed).await?),
            (None, None) => open(context).await?.locks().show(&key).await?.fence,
        };
        if output.json {
            output.object(&json!({ "name": key.as_str(), "fence": fence.map(Fence::get) }));
        } else {
            output.line(&fence.map_or_else(|| "none is known".to_owned(), |fence| fence.to_string()));
        }
        Ok(Exit::Done)
    }
}
