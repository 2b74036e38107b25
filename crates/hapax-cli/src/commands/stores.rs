//! `hapax stores`: what a store's URL looks like. `hapax help stores` says the same.

use super::Context;
use crate::{exit::Exit, failure::Failure};
use clap::Args;
use hapax::core::{Driver, url::UrlOption};
use serde_json::json;
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

fn object(driver: &Driver) -> serde_json::Value {
    let option = |option: &UrlOption| {
        json!({
            "name": option.name,
            "value": option.value,
            "default": option.default,
            "meaning": option.meaning,
        })
    };
    let form = |(form, meaning): &(&str, &str)| json!({ "form": form, "meaning": meaning });
    json!({
        "store": driver.name,
        "schemes": driver.schemes,
        "forms": driver.url.forms.iter().map(form).collect::<Vec<_>>(),
        "options": driver.url.options.iter().map(option).collect::<Vec<_>>(),
        "example": driver.url.example,
    })
}

/// For people.
fn text() -> String {
    let texts: Vec<_> = hapax::registry().drivers().iter().map(text_of).collect();
    texts.join("\n")
}

fn text_of(driver: &Driver) -> String {
    let mut text = format!("{}:\n", driver.name.to_uppercase());
    for (form, meaning) in driver.url.forms {
        let _ = writeln!(text, "  {form}\n      {meaning}");
    }
    for UrlOption { name, value, default, meaning, .. } in driver.url.options {
        let default = default.map_or_else(String::new, |default| format!(" [default: {default}]"));
        let _ = writeln!(text, "  ?{name}={value}\n      {meaning}{default}");
    }
    let _ = writeln!(text, "  example: {}", driver.url.example);
    text
}
