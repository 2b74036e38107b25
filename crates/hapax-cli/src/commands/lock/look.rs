//! `hapax lock show` and `hapax lock list`.

use super::{Name, open};
use crate::{commands::Context, exit::Exit, failure::Failure, output::Output, store, text};
use clap::Args;
use hapax::{
    Key,
    lock::{HolderInfo, LockInfo},
};
use serde::Serialize;

/// So many are asked for at a time, whatever the limit.
const PAGE: usize = 500;
const COLUMNS: &[&str] = &["NAME", "HOLDER", "FENCE", "SINCE", "UNTIL"];

/// A lock as it is shown. The names of its fields are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    name: String,
    held: bool,
    holder: Option<String>,
    /// Of its holder.
    fence: Option<u64>,
    since: Option<String>,
    until: Option<String>,
    /// Also of one that nobody holds. A list does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fence: Option<u64>,
}

impl Shown {
    pub(super) fn new(name: &str, info: &LockInfo) -> Self {
        let held = info.held.as_ref();
        Self {
            name: name.to_owned(),
            held: held.is_some(),
            holder: held.map(|held| held.holder.as_str().to_owned()),
            fence: held.map(|held| held.fence.get()),
            since: held.and_then(|held| text::time(held.since)),
            until: held.and_then(|held| text::time(held.until)),
            last_fence: info.fence.map(hapax::Fence::get),
        }
    }

    fn held_by(name: &str, holder: HolderInfo) -> Self {
        Self::new(name, &LockInfo { held: Some(holder), fence: None })
    }

    fn row(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let fence = self.fence.map(|fence| fence.to_string());
        let holder = self.holder.as_deref().map(text::shown);
        let (since, until) = (self.since.clone(), self.until.clone());
        let rest = [holder, fence, since, until].into_iter().map(or_dash);
        std::iter::once(text::shown(&self.name)).chain(rest).collect()
    }

    fn print(&self, output: &Output) {
        if output.json {
            return output.object(self);
        }
        let state = if self.held { "held" } else { "free" };
        let fields = [
            ("name", Some(text::shown(&self.name))),
            ("state", Some(state.to_owned())),
            ("holder", self.holder.as_deref().map(text::shown)),
            ("fence", self.fence.map(|fence| fence.to_string())),
            ("since", self.since.clone()),
            ("until", self.until.clone()),
            ("last fence", self.last_fence.map(|fence| fence.to_string())),
        ]
        .map(|(name, value)| value.map(|value| format!("{name:<12} {value}\n")));
        output.bytes(fields.into_iter().flatten().collect::<String>().as_bytes());
    }
}

/// Show who holds a lock, and until when
///
/// A lock that nobody holds is free, and no error. `until` is the end of the lease as it is now: it is renewed while the holder
/// lives.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax lock show deploy
  hapax lock show deploy --json | jq -r .holder")]
pub(super) struct ShowLock {
    #[command(flatten)]
    name: Name,
}

impl ShowLock {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let key = self.name.key(context)?;
        // Looking makes no store.
        if let Some(note) = store::missing(&context.settings)? {
            Shown::new(key.as_str(), &LockInfo::default()).print(&context.output);
            context.output.note(&note);
            return Ok(Exit::Done);
        }
        let info = open(context).await?.locks().show(&key).await?;
        Shown::new(key.as_str(), &info).print(&context.output);
        Ok(Exit::Done)
    }
}

/// List the locks that are held, in the order of their names
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax lock list
  hapax lock list --prefix deploy: --limit 20
  hapax lock list --after deploy:web              the next page
  hapax lock list --json | jq -r .name")]
pub(super) struct ListLocks {
    /// Whose name starts so
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// At most so many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// After this one: the last of the page before
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
}

impl ListLocks {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let output = &context.output;
        let mut after = self.after.as_deref().map(Key::from_shown).transpose()?;
        if let Some(note) = store::missing(&context.settings)? {
            output.note(&note);
            return Ok(Exit::Done);
        }
        let locks = open(context).await?.locks();
        let mut left = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let (mut rows, mut more) = (Vec::new(), true);
        while more && left > 0 && !output.is_closed() {
            let page = locks.list(&self.prefix, after.clone(), left.min(PAGE)).await?;
            more = page.more;
            let Some((last, _)) = page.locks.last() else { break };
            after = Some(Key::from_shown(last.key())?);
            left = left.saturating_sub(page.locks.len());
            for (name, holder) in page.locks {
                let shown = Shown::held_by(name.key(), holder);
                if output.json {
                    output.object(&shown);
                } else {
                    rows.push(shown.row());
                }
            }
        }
        if !output.json {
            output.list(COLUMNS, &rows);
        }
        if let (true, Some(last)) = (more, &after) {
            output.note(&format!("there may be more: --after {}", text::quoted(last.as_str())));
        }
        Ok(Exit::Done)
    }
}
