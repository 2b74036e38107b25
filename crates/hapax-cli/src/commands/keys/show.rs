//! How a key is shown.

use crate::{output::Output, text};
use base64::{Engine, prelude::BASE64_STANDARD};
use hapax::core::{
    Name,
    idempotency::{Kind, Receipt, Record, RecordState},
};
use serde::Serialize;
use serde_json::{Value, json};

/// A key and what is kept under it. The names of its fields are stable.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) key: String,
    pub(crate) state: &'static str,
    pub(crate) scope: String,
    /// For `resolve --version`.
    pub(crate) version: Option<String>,
    pub(crate) fingerprint: Option<String>,
    /// End of the lease, or of the time for which the result answers.
    pub(crate) until: Option<String>,
    pub(crate) first_at: Option<String>,
    pub(crate) receipt: Option<Value>,
}

impl Shown {
    pub(crate) fn new(name: &Name, record: Option<Record>) -> Self {
        let (key, scope) = (name.key().to_owned(), name.scope().to_owned());
        let empty = |state| Self {
            key: key.clone(),
            state,
            scope: scope.clone(),
            version: None,
            fingerprint: None,
            until: None,
            first_at: None,
            receipt: None,
        };
        let Some(record) = record else { return empty("vacant") };
        let (state, receipt) = match &record.state {
            RecordState::Pending => ("pending", None),
            RecordState::Settled { kind: Kind::Done, receipt, .. } => ("done", Some(json_of(receipt))),
            RecordState::Settled { kind: Kind::Unknown, receipt, .. } => ("unknown", Some(json_of(receipt))),
            // Written by a newer version: nothing else of it is known.
            _ => return empty("unreadable"),
        };
        Self {
            version: Some(record.version().to_string()),
            fingerprint: Some(record.fingerprint.to_string()),
            until: text::time(record.until),
            first_at: text::time(record.first_at),
            receipt,
            ..empty(state)
        }
    }

    /// The answer about one key.
    pub(crate) fn print(&self, output: &Output) {
        if output.json {
            return output.object(self);
        }
        let receipt = self.receipt.as_ref().map(ToString::to_string);
        let key = text::shown(&self.key);
        let fields = [
            ("key", Some(&key)),
            ("state", Some(&self.state.to_owned())),
            ("scope", Some(&text::shown(&self.scope))),
            ("first at", self.first_at.as_ref()),
            ("until", self.until.as_ref()),
            ("version", self.version.as_ref()),
            ("fingerprint", self.fingerprint.as_ref()),
            ("receipt", receipt.as_ref()),
        ]
        .map(|(name, value)| value.map(|value| format!("{name:<12} {value}\n")));
        output.bytes(fields.into_iter().flatten().collect::<String>().as_bytes());
    }

    /// A row of a list.
    pub(crate) fn row(&self) -> Vec<String> {
        let time = |at: &Option<String>| at.clone().unwrap_or_else(|| "-".into());
        let (key, scope) = (text::shown(&self.key), text::shown(&self.scope));
        vec![key, self.state.to_owned(), scope, time(&self.first_at), time(&self.until)]
    }
}

/// The columns of [`Shown::row`].
pub(crate) const COLUMNS: &[&str] = &["KEY", "STATE", "SCOPE", "FIRST AT", "UNTIL"];

pub(crate) fn json_of(receipt: &Receipt) -> Value {
    serde_json::from_slice(&receipt.bytes).unwrap_or_else(
        |_| json!({ "codec": receipt.codec, "base64": BASE64_STANDARD.encode(&receipt.bytes) }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_json_or_say_what_they_are() {
        assert_eq!(json_of(&Receipt::new("json/1", &b"{\"a\":1}"[..])), json!({ "a": 1 }));
        assert_eq!(json_of(&Receipt::new("x/2", &[0xff][..])), json!({ "codec": "x/2", "base64": "/w==" }));
        assert_eq!(json_of(&Receipt::new("x/2", &b""[..])), json!({ "codec": "x/2", "base64": "" }));
    }
}
