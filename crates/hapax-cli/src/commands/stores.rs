//! `hapax stores`: what a store's URL looks like. `hapax help stores` says the same.

use super::Context;
use crate::{exit::Exit, failure::Failure};
use clap::Args;
use hapax::core::{
    Driver,
    url::{UrlHelp, UrlOption},
};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// List the stores of this build: the forms of their URLs, and all options
///
/// A URL has its options behind a question mark: sqlite:hapax.db?synchronous=normal&timeout=2s. User and password are
/// percent-encoded. An option that a store does not know is refused.
#[derive(Debug, Args)]
#[command(after_help = after_help(), after_long_help = format!("{}\n\n{}", after_help(), text()))]
pub(crate) struct Stores {}

fn after_help() -> &'static str {
    "\
EXAMPLES:
  hapax help stores
  hapax stores --json | jq '.options[].name'"
}

impl Stores {
    pub(crate) fn run(self, Context { output, .. }: &Context) -> Result<Exit, Failure> {
        let Self {} = self;
        if output.json {
            for driver in hapax::registry().drivers() {
                output.object(&object(driver));
            }
        } else {
            output.line(&text());
        }
        output.end()?;
        Ok(Exit::Done)
    }
}

fn object(driver: &Driver) -> Map<String, Value> {
    let mut object = urls(&driver.url);
    object.insert("store".to_owned(), driver.name.into());
    object.insert("schemes".to_owned(), driver.schemes.into());
    object
}

/// URLs, for programs.
pub(super) fn urls(url: &UrlHelp) -> Map<String, Value> {
    let option = |option: &UrlOption| {
        json!({
            "name": option.name,
            "value": option.value,
            "default": option.default,
            "meaning": option.meaning,
        })
    };
    let form = |(form, meaning): &(&str, &str)| json!({ "form": form, "meaning": meaning });
    let parts = [
        ("forms", url.forms.iter().map(form).collect()),
        ("options", url.options.iter().map(option).collect()),
        ("example", url.example.into()),
    ];
    parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect()
}

/// For people.
fn text() -> String {
    let texts: Vec<_> =
        hapax::registry().drivers().iter().map(|driver| text_of(driver.name, &driver.url)).collect();
    texts.join("\n")
}

/// URLs of one kind, for people.
pub(super) fn text_of(kind: &str, url: &UrlHelp) -> String {
    let mut text = format!("{}:\n", kind.to_uppercase());
    for (form, meaning) in url.forms {
        let _ = writeln!(text, "  {form}\n      {meaning}");
    }
    for UrlOption { name, value, default, meaning, .. } in url.options {
        let default = default.map_or_else(String::new, |default| format!(" [default: {default}]"));
        let _ = writeln!(text, "  ?{name}={value}\n      {meaning}{default}");
    }
    let _ = writeln!(text, "  example: {}", url.example);
    text
}
