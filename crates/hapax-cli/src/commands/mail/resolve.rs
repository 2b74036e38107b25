//! `hapax mail resolve`: mails that may have gone, and somebody found out.

use super::send::{DELIVERED, Targets};
use crate::{
    commands::{Context, keys::Shown},
    duration,
    exit::Exit,
    failure::Failure,
    store::{self, Sharing},
    text,
};
use clap::{Args, ValueEnum};
use hapax::{
    Coded as _, Hapax, IdempotencyError, Key, Version,
    core::{Name, Namespace, Scope},
    mail::Receipt,
};
use serde::Deserialize;
use std::time::Duration;

/// Settle mails of which nobody knew whether they went
///
/// Look first: into the sent folder, or the provider's list. Then say `done`, and later runs answer that the mail was
/// sent; or `failed`, and the next run sends it. Where a key is no longer unknown, or no longer the version that was
/// looked at, nothing is written and the exit code is 65.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax keys list --all-scopes --state unknown
  hapax mail resolve welcome:1 welcome:2 --as failed
  hapax mail resolve welcome:3 --as done --receipt '{\"provider_id\": \"250 queued as 4XyZ\"}'
  hapax mail resolve welcome:4 --as failed --via file:outbox")]
pub(super) struct Resolve {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Whether they went
    #[arg(long = "as", value_name = "VERDICT")]
    verdict: Verdict,
    #[arg(
        long,
        value_name = "JSON",
        help = "What is known of a mail that went: message_id, provider, provider_id, response, accepted; each may be left out"
    )]
    receipt: Option<String>,
    /// Only if the key still has this version, as `keys get` showed it
    #[arg(long, value_name = "V")]
    version: Option<Version>,
    #[arg(
        long,
        value_name = "URL",
        help = "Keys of a rehearsal: the file:DIR or stub: that it was sent via"
    )]
    via: Option<String>,
    /// Keys of a rehearsal: their scope, as `hapax keys list --all-scopes` shows it
    #[arg(long, value_name = "SCOPE", conflicts_with = "via")]
    scope: Option<String>,
    /// How long the receipt answers
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    ttl: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Verdict {
    /// They went
    Done,
    /// They did not: the keys are free
    Failed,
}

/// A receipt as a person gives it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    message_id: Option<String>,
    provider: Option<String>,
    provider_id: Option<String>,
    response: Option<String>,
    #[serde(default)]
    accepted: Vec<String>,
}

impl From<Given> for Receipt {
    fn from(given: Given) -> Self {
        let mut receipt = Self::accepted().with_accepted(given.accepted);
        receipt.message_id = given.message_id.unwrap_or_default();
        receipt.provider = given.provider.unwrap_or_default();
        receipt.provider_id = given.provider_id;
        receipt.response = given.response;
        receipt
    }
}

/// Whether receipts of mails are kept there.
fn is_of_mail(scope: &str) -> bool {
    scope == DELIVERED || scope.starts_with("mail:") || scope.starts_with("mail-rehearsal:")
}

impl Resolve {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let receipt = self.receipt()?;
        if self.version.is_some() && self.keys.len() > 1 {
            return Err(
                Failure::usage("--version is that of one key").help("give one key, or leave --version out")
            );
        }
        let scope = match (&self.via, &self.scope) {
            (Some(url), _) => Targets::parse(std::slice::from_ref(url))?.scope(),
            (None, Some(scope)) if !is_of_mail(scope) => {
                let message = format!("--scope {}: that is no scope of mails", text::quoted(scope));
                return Err(Failure::usage(message).help("say `hapax keys resolve KEY --scope SCOPE`"));
            }
            (None, Some(scope)) => scope.clone(),
            (None, None) => DELIVERED.to_owned(),
        };
        let keys: Vec<Key> = self.keys.iter().map(|key| Key::from_shown(key)).collect::<Result<_, _>>()?;
        let hapax = store::open(&context.settings, Sharing::Needed).await?;
        let namespace = Namespace::new(&context.settings.namespace)?;
        let scope = Scope::from_shown(&scope)?;
        let mut first = None;
        for key in &keys {
            let name = Name::new(&namespace, &scope, key);
            // Each by itself: one that has changed says nothing about the next.
            if let Err(failure) = self.settle(context, &hapax, &name, key, receipt.as_ref()).await {
                match first {
                    None => first = Some(failure),
                    Some(_) => failure.explain(),
                }
            }
        }
        if let Some(failure) = first {
            return Err(failure);
        }
        context.output.end()?;
        Ok(Exit::Done)
    }

    async fn settle(
        &self,
        context: &Context,
        hapax: &Hapax,
        name: &Name,
        key: &Key,
        receipt: Option<&Receipt>,
    ) -> Result<(), Failure> {
        let handle = hapax.idempotency(name.scope());
        let mut resolve = handle.resolve(key.clone()).ttl(self.ttl);
        if let Some(version) = self.version {
            resolve = resolve.version(version);
        }
        let settled = match receipt {
            Some(receipt) => resolve.happened_as(receipt.to_stored()).await,
            None => resolve.did_not().await,
        };
        let now = Shown::new(name, hapax.keeper().read(name).await?);
        match settled {
            Ok(()) => {
                context.output.changed();
                now.print(&context.output);
                Ok(())
            }
            Err(error @ IdempotencyError::Changed { .. }) if now.state == "vacant" => {
                let (key, scope) = (text::shown(key.as_str()), text::shown(name.scope()));
                let message = format!("nothing unknown is under {key} in scope {scope}: nothing was written");
                let help = "name the --via that it was sent with; `hapax keys list --all-scopes --state unknown` \
                            shows what is unknown";
                Err(Failure::new(Exit::Invalid, error.code(), message).help(help))
            }
            Err(error @ IdempotencyError::Changed { .. }) => {
                let key = text::shown(key.as_str());
                let version = now.version.map_or_else(String::new, |version| format!(", version {version}"));
                Err(Failure::of(&error).help(format!("{key} is {}{version} now", now.state)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn receipt(&self) -> Result<Option<Receipt>, Failure> {
        match (self.verdict, &self.receipt) {
            (Verdict::Failed, None) => Ok(None),
            (Verdict::Failed, Some(_)) => Err(Failure::usage("--receipt goes with --as done")),
            (Verdict::Done, None) => Ok(Some(Given::default().into())),
            (Verdict::Done, Some(json)) => {
                let given: Given = serde_json::from_str(json)
                    .map_err(|error| Failure::input(format!("--receipt cannot be used: {error}")))?;
                Ok(Some(given.into()))
            }
        }
    }
}
