//! `hapax mail reconcile`: asks a provider about mails that may have gone.

use super::send::{DELIVERED, Target};
use crate::{
    commands::Context,
    duration,
    exit::Exit,
    failure::Failure,
    output,
    store::{self, Sharing},
    text,
};
use clap::Args;
use hapax::{
    Hapax, IdempotencyError, Key,
    core::{
        Name, Namespace, Scope,
        idempotency::{List, Record, RecordState, StateFilter},
    },
    mail::{
        NotAccepted, Receipt,
        provider::{Found, Lookup, Sought},
    },
};
use serde::Serialize;
use std::{sync::Arc, time::Duration};

/// So many are looked at at a time.
const PAGE: usize = 500;

/// Ask a provider about mails that may have gone
///
/// Every mail of unknown outcome is looked for in the list of the provider. What it has is settled as done, and later runs answer
/// that it was sent. What it does not have stays unknown, as lists of providers lag behind, unless --free-after says from which
/// age on a mail that is not there was not sent: its key is free then, and the next run sends it.
///
/// Postmark and Mailgun can be asked. A mail is only looked for at the provider whose receipt it has; one without a receipt (its
/// process died) at the one that is named.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  POSTMARK_SERVER_TOKEN=… hapax mail reconcile --via postmark:
  MAILGUN_API_KEY=… hapax mail reconcile --via mailgun:mg.example.com --free-after 1h
  hapax mail resolve welcome:1 --as done

EXIT CODES:
  0   none is unknown any more, of those that were asked about
  69  the provider, or the store, could not be asked
  76  some are still unknown")]
pub(super) struct Reconcile {
    /// The provider that was sent with
    #[arg(long, value_name = "URL")]
    via: String,
    /// A mail that is not there and was first to be sent so long ago was not sent
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    free_after: Option<Duration>,
    /// How long the receipt of what was found answers
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    ttl: Duration,
    /// Only asks
    #[arg(long)]
    dry_run: bool,
}

/// What became of a mail, as a program reads it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    key: &'a str,
    found: &'static str,
    provider_id: Option<&'a str>,
    /// What was done about it.
    settled: &'static str,
}

#[derive(Debug, Default)]
struct Counts {
    sent: u64,
    freed: u64,
    unknown: u64,
}

impl Reconcile {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let provider = match Target::parse(&self.via)? {
            Target::Provider(provider) => provider,
            other => {
                let message = format!("--via: {} cannot be asked whether it has a mail", other.words());
                return Err(Failure::usage(message)
                    .help("look there, then say `hapax mail resolve KEY --as done|failed`"));
            }
        };
        let Some(lookup) = provider.lookup()? else {
            let scheme = provider.scheme();
            let message = format!("--via {scheme}: it cannot be asked whether it has a mail");
            return Err(Failure::usage(message)
                .help("look there, then say `hapax mail resolve KEY --as done|failed`"));
        };
        if let Some(note) = store::missing(&context.settings)? {
            context.output.note(&note);
            return Ok(Exit::Done);
        }
        let hapax = store::open(&context.settings, Sharing::Needed).await?;
        let counts = self.all(context, &hapax, provider.scheme(), &lookup).await?;
        if !context.output.quiet {
            let Counts { sent, freed, unknown } = counts;
            output::say(&format!("were sent {sent}, were not {freed}, still unknown {unknown}"));
        }
        context.output.end()?;
        Ok(if counts.unknown > 0 { Exit::Unknown } else { Exit::Done })
    }

    async fn all(
        &self,
        context: &Context,
        hapax: &Hapax,
        provider: &str,
        lookup: &Arc<dyn Lookup>,
    ) -> Result<Counts, Failure> {
        let scope = Scope::new(DELIVERED)?;
        let mut request = List {
            namespace: Namespace::new(&context.settings.namespace)?,
            scope: Some(scope.clone()),
            prefix: String::new(),
            state: Some(StateFilter::Unknown),
            after: None,
            limit: PAGE,
        };
        let mut counts = Counts::default();
        loop {
            let page = hapax.backend().idempotency.list(&request).await?;
            for (name, record) in &page.records {
                self.one(context, hapax, provider, lookup, (name, record), &mut counts).await?;
            }
            match page.records.last() {
                Some((last, _)) if page.more => {
                    request.after = Some((scope.clone(), Key::from_shown(last.key())?));
                }
                _ => return Ok(counts),
            }
        }
    }

    async fn one(
        &self,
        context: &Context,
        hapax: &Hapax,
        provider: &str,
        lookup: &Arc<dyn Lookup>,
        (name, record): (&Name, &Record),
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        let receipt = match &record.state {
            RecordState::Settled { receipt, .. } => Receipt::from_stored(receipt).ok(),
            _ => None,
        };
        let tried = |receipt: &Receipt| receipt.attempts.iter().any(|attempt| attempt.provider == provider);
        if receipt.as_ref().is_some_and(|receipt| !tried(receipt)) {
            counts.unknown += 1;
            self.say(context, name, "elsewhere", None, "unknown");
            return Ok(());
        }
        let sought = Sought::new(name, &record.fingerprint, receipt.as_ref(), record.first_at);
        let found = lookup.find(&sought).await.map_err(|failure| {
            let error = NotAccepted::Failed(failure);
            let message = format!("{provider} could not be asked: {}", error.failure());
            Failure::new(Exit::Unreachable, hapax::Coded::code(&error), message)
        })?;
        let age = hapax.keeper().clock().now().since(record.first_at);
        let old = self.free_after.is_some_and(|limit| age >= limit);
        let (word, id) = match &found {
            Found::Yes { provider_id } => ("yes", provider_id.as_deref()),
            Found::No => ("no", None),
            Found::CannotTell => ("cannot_tell", None),
        };
        let settled = match &found {
            Found::Yes { .. } => {
                let mut receipt = receipt.unwrap_or_else(Receipt::accepted);
                receipt.outcome = hapax::mail::Outcome::Accepted;
                receipt.provider = provider.to_owned();
                receipt.provider_id = id.map(ToOwned::to_owned);
                self.settle(context, hapax, name, record, Some(&receipt)).await?.then_some("sent")
            }
            Found::No if old => self.settle(context, hapax, name, record, None).await?.then_some("not_sent"),
            Found::No | Found::CannotTell => None,
        };
        match settled {
            Some("sent") => counts.sent += 1,
            Some(_) => counts.freed += 1,
            None => counts.unknown += 1,
        }
        self.say(context, name, word, id, settled.unwrap_or("unknown"));
        Ok(())
    }

    /// Whether the key is settled so; somebody else may have been faster.
    async fn settle(
        &self,
        context: &Context,
        hapax: &Hapax,
        name: &Name,
        record: &Record,
        receipt: Option<&Receipt>,
    ) -> Result<bool, Failure> {
        if self.dry_run {
            return Ok(true);
        }
        let handle = hapax.idempotency(name.scope());
        let resolve = handle.resolve(Key::from_shown(name.key())?).ttl(self.ttl).version(record.version());
        let settled = match receipt {
            Some(receipt) => resolve.happened_as(receipt.to_stored()).await,
            None => resolve.did_not().await,
        };
        match settled {
            Ok(()) => {
                context.output.changed();
                Ok(true)
            }
            Err(IdempotencyError::Changed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn say(
        &self,
        context: &Context,
        name: &Name,
        found: &'static str,
        id: Option<&str>,
        settled: &'static str,
    ) {
        if context.output.json {
            context.output.object(&Line { key: name.key(), found, provider_id: id, settled });
        } else if !context.output.quiet {
            let key = text::shown(name.key());
            let would = if self.dry_run && settled != "unknown" { "would be settled as " } else { "" };
            output::say(&format!("{key}: found {found}, {would}{settled}"));
        }
    }
}
