//! `hapax codes`: how commands end, and what each code means.

use super::Context;
use crate::{
    exit::{Exit, TABLE},
    failure::{self, Failure},
};
use clap::Args;
use serde_json::json;

/// List the exit codes and the error codes
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax codes                             all of them
  hapax codes idempotency.in_flight       one of them
  hapax codes --json | jq -r .code")]
pub(crate) struct Codes {
    /// Only this one, with what to do about it
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

impl Codes {
    pub(crate) fn run(self, Context { output, .. }: &Context) -> Result<Exit, Failure> {
        let mut codes = hapax::codes();
        codes.extend_from_slice(failure::CODES);
        codes.sort_by_key(|info| info.code);
        if let Some(wanted) = &self.code {
            let known: Vec<_> = codes.iter().map(|info| info.code).collect();
            codes.retain(|info| info.code == wanted);
            if codes.is_empty() {
                let wanted = crate::text::shown(wanted);
                let nearest = crate::text::nearest(&wanted, &known);
                let hint = nearest.map_or_else(String::new, |nearest| format!(": did you mean `{nearest}`?"));
                return Err(Failure::usage(format!("there is no code `{wanted}`{hint}")));
            }
        }
        let all = self.code.is_none();
        if output.json {
            if all {
                for (code, meaning) in TABLE {
                    let code = code.parse::<u8>().map_or_else(|_| json!(code), |code| json!(code));
                    output.object(&json!({ "exit_code": code, "meaning": meaning }));
                }
            }
            for info in &codes {
                output.object(&json!({
                    "code": info.code,
                    "category": info.category,
                    "retryable": info.retryable,
                    "exit_code": Exit::of_info(info).code(),
                    "meaning": info.meaning,
                    "remedy": info.remedy,
                }));
            }
        } else if let (false, [info]) = (all, codes.as_slice()) {
            let again = if info.retryable { "yes" } else { "no" };
            for (name, value) in [
                ("code", info.code),
                ("category", info.category),
                ("meaning", info.meaning),
                ("to do", info.remedy),
                ("retryable", again),
                ("exit code", &exits(info)),
            ] {
                output.line(&format!("{name:<10} {value}"));
            }
        } else {
            let rows: Vec<_> =
                TABLE.iter().map(|(code, meaning)| vec![(*code).to_owned(), (*meaning).to_owned()]).collect();
            output.list(&["EXIT", "MEANING"], &rows);
            output.line("");
            let row =
                |info: &hapax::CodeInfo| vec![info.code.to_owned(), exits(info), info.meaning.to_owned()];
            output.list(&["CODE", "EXIT", "MEANING"], &codes.iter().map(row).collect::<Vec<_>>());
        }
        output.end()?;
        Ok(Exit::Done)
    }
}

/// How a command ends that ends with this code.
fn exits(info: &hapax::CodeInfo) -> String {
    let exit = Exit::of_info(info).code();
    match info.code {
        "store.config" => format!("{exit} (URL), {} (place)", Exit::Unreachable.code()),
        _ => exit.to_string(),
    }
}
