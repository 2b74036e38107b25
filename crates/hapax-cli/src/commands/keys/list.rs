//! `hapax keys list`.

use super::{
    hints,
    show::{COLUMNS, Shown},
};
use crate::{
    commands::Context,
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
    text,
};
use clap::{Args, ValueEnum};
use hapax::{
    Key,
    core::{
        Namespace, Scope,
        idempotency::{List, StateFilter},
    },
};

/// So many are asked for at a time, whatever the limit.
const PAGE: usize = 500;

/// List what is kept, in the order of scopes and keys
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys list
  hapax keys list --state unknown --all-scopes
  hapax keys list --prefix nightly- --limit 20
  hapax keys list --after nightly-report            the next page
  hapax keys list --json | jq -r 'select(.state == \"pending\") | .key'")]
pub(crate) struct ListKeys {
    /// Whose key starts so. A key above 512 bytes starts with `#sha256:`
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// In this state
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// At most so many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// After this key: the last of the page before
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// What the keys are for: once, mail, or the name a program made its handle with
    #[arg(long, value_name = "SCOPE", default_value = "once")]
    scope: String,
    /// The keys of all scopes; --scope is then the scope of --after
    #[arg(long)]
    all_scopes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Pending,
    Done,
    Unknown,
}

impl ListKeys {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let output = &context.output;
        let scope = Scope::from_shown(&self.scope)?;
        let after = self.after.as_deref().map(Key::from_shown).transpose()?.map(|key| (scope.clone(), key));
        let mut request = List {
            namespace: Namespace::new(&context.settings.namespace)?,
            scope: (!self.all_scopes).then_some(scope),
            prefix: self.prefix,
            state: self.state.map(|state| match state {
                State::Pending => StateFilter::Pending,
                State::Done => StateFilter::Done,
                State::Unknown => StateFilter::Unknown,
            }),
            after,
            limit: 0,
        };
        // Looking makes no store.
        if let Some(note) = store::missing(&context.settings)? {
            output.note(&note);
            return Ok(Exit::Done);
        }
        let hapax = store::open(&context.settings, Sharing::Needed).await?;
        let mut left = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let (mut rows, mut more) = (Vec::new(), true);
        let is_whole = request.after.is_none();
        while more && left > 0 && !output.is_closed() {
            request.limit = left.min(PAGE);
            let page = hapax.backend().idempotency.list(&request).await?;
            more = page.more;
            let Some((last, _)) = page.records.last() else {
                if is_whole
                    && request.after.is_none()
                    && !output.quiet
                    && let Some(hint) = hints::of_list(&hapax, &request).await?
                {
                    output.note(&hint);
                }
                break;
            };
            request.after = Some((Scope::from_shown(last.scope())?, Key::from_shown(last.key())?));
            left = left.saturating_sub(page.records.len());
            for (name, record) in page.records {
                let shown = Shown::new(&name, Some(record));
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
        if let (true, Some((scope, key))) = (more, &request.after) {
            let scope = if scope.as_str() == "once" {
                String::new()
            } else {
                format!(" --scope {}", text::quoted(scope.as_str()))
            };
            output.note(&format!("there may be more: --after {}{scope}", text::quoted(key.as_str())));
        }
        Ok(Exit::Done)
    }
}
