//! Warnings of the library as lines of the command; more on request.

use crate::{failure::Failure, output};
use std::fmt::{self, Write as _};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};
use tracing_subscriber::EnvFilter;

/// Its value is a filter such as `debug` or `hapax_engine=trace`.
const VARIABLE: &str = "HAPAX_LOG";

/// What the command says itself when it ends: no second line for it.
const SAID_ANYWAY: &[&str] = &["idempotency.key_reused", "idempotency.store_failed"];

/// Each send is a line of the report, or of the queue: no second one for it, unless more was asked for.
const SENDS: &str = "hapax_mail::decorate::observe";

/// Starts logging: warnings alone, or what `verbose` or the variable ask for.
pub(crate) fn start(verbose: u8) -> Result<(), Failure> {
    let wanted = match (verbose, std::env::var(VARIABLE)) {
        (1, _) => "info".to_owned(),
        (2.., _) => "debug".to_owned(),
        (0, Ok(filter)) if !filter.is_empty() => filter,
        (0, _) => {
            let _ = tracing::subscriber::set_global_default(Warnings);
            return Ok(());
        }
    };
    let filter = EnvFilter::try_new(&wanted).map_err(|error| {
        Failure::config(format!("{VARIABLE} is no filter: {error}")).help("write info, debug or trace")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).finish();
    let _ = tracing::subscriber::set_global_default(log);
    Ok(())
}

/// The default: small, since most runs of the command log nothing.
struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        *metadata.level() <= Level::WARN && target.starts_with("hapax") && target != SENDS
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if !SAID_ANYWAY.contains(&line.code.as_str()) {
            output::say(&line.text());
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    error: String,
    code: String,
}

impl Line {
    fn text(&self) -> String {
        let mut text = format!("warning: {}", self.message);
        if !self.error.is_empty() {
            let _ = write!(text, ": {}", self.error);
        }
        if !self.code.is_empty() {
            let _ = write!(text, " ({})", self.code);
        }
        text
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "code" {
            value.clone_into(&mut self.code);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!("{value:?}"),
            // The key's digest says nothing to whoever typed the key.
            _ => {}
        }
    }
}
