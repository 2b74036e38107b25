//! `hapax keys forget`.

use super::{Shown, Target};
use crate::{commands::Context, exit::Exit, failure::Failure, text};
use clap::Args;
use hapax::core::{
    Token,
    idempotency::{Resolution, Resolve as Request, Resolved},
};
use serde_json::json;

/// Remove what is kept under a key, so that the next call runs again
///
/// Meant for a result that is of no use, such as a run that was done on wrong input, and for a record that cannot be read.
/// What the first run did stays done: the next call does it again. A call in flight is not forgotten: that is ended by
/// `hapax keys release`. Nor is a record that changed since it was looked at (exit code 65).
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys get nightly-report              what is kept?
  hapax keys forget nightly-report --force")]
pub(crate) struct Forget {
    #[command(flatten)]
    target: Target,
    /// Needed: the effect happens again at the next call
    #[arg(long, required = true)]
    force: bool,
}

impl Forget {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = self.target.find(context).await?;
        let store = &found.hapax.backend().idempotency;
        let record = store.read(&found.name).await?;
        let version = record.as_ref().map(hapax::core::idempotency::Record::version);
        let seen = Shown::new(&found.name, record);
        if seen.state == "vacant" {
            say(&seen, None, context);
            found.hint(&context.output).await?;
            return Ok(Exit::Done);
        }
        let request = Request {
            name: found.name.clone(),
            token: Token::random()?,
            version,
            resolution: Resolution::Forget,
        };
        match store.resolve(&request).await? {
            // Gone meanwhile, or by a request whose reply was lost.
            Resolved::Applied | Resolved::Changed(None) => {
                context.output.changed();
                say(&seen, Some(seen.state), context);
            }
            Resolved::Changed(now) => return Err(refused(&Shown::new(&found.name, now))),
        }
        Ok(Exit::Done)
    }
}

fn refused(now: &Shown) -> Failure {
    if now.state == "pending" {
        let message = "a call under the key is in flight: nothing was removed";
        return Failure::new(Exit::Invalid, "idempotency.changed", message).help(format!(
            "wait for its end, or end it with `hapax keys release {} --force`",
            text::quoted(&now.key)
        ));
    }
    let message = format!("the key has become {} meanwhile: nothing was removed", now.state);
    Failure::new(Exit::Invalid, "idempotency.changed", message)
        .help("look at it again, then repeat the command")
}

fn say(seen: &Shown, removed: Option<&str>, context: &Context) {
    let output = &context.output;
    if output.json {
        output.object(&json!({
            "key": seen.key,
            "scope": seen.scope,
            "state": "vacant",
            "removed": removed,
            "version": seen.version,
            "first_at": seen.first_at,
        }));
        return;
    }
    let key = text::shown(&seen.key);
    output.line(&match (removed, &seen.first_at) {
        (None, _) => format!("nothing is kept under {key}"),
        (Some(state), Some(at)) => format!("removed: {key}, {state}, of {at}"),
        (Some(state), None) => format!("removed: {key}, {state}"),
    });
}
