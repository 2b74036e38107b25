//! What `once` keeps of a run: JSON, so that `keys get` shows it and `keys resolve` can be given one.

use crate::text;
use base64::{Engine, prelude::BASE64_STANDARD};
use hapax::{BoxError, core::idempotency::Receipt};
use serde::{Deserialize, Serialize};

/// The codec of the receipts below. Fields may be added to it; what changes their meaning is another codec.
pub(crate) const CODEC: &str = "hapax.once/1";

/// A run, as a replay tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// What the first call exited with.
    #[serde(default)]
    pub(crate) exit_code: u8,
    #[serde(default)]
    pub(crate) ended: Ended,
    /// Whether the output was recorded at all.
    #[serde(default = "yes")]
    pub(crate) recorded: bool,
    #[serde(default)]
    pub(crate) stdout: Bytes,
    #[serde(default)]
    pub(crate) stderr: Bytes,
    /// How much was written, where that is more than what is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stdout_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stderr_bytes: Option<u64>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) took_ms: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// It exited.
    #[default]
    Exited,
    /// A signal ended it, or was passed on before it exited otherwise than well.
    Signalled,
    /// Its time ran out.
    TimedOut,
    /// Its lease was lost.
    LeaseLost,
}

/// Output: text where it is UTF-8, `{"base64": …}` where not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Form", try_from = "Form")]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Bytes { base64: String },
}

impl From<Bytes> for Form {
    fn from(bytes: Bytes) -> Self {
        match String::from_utf8(bytes.0) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Bytes { base64: BASE64_STANDARD.encode(error.into_bytes()) },
        }
    }
}

impl TryFrom<Form> for Bytes {
    type Error = base64::DecodeError;

    fn try_from(form: Form) -> Result<Self, Self::Error> {
        match form {
            Form::Text(text) => Ok(Self(text.into_bytes())),
            Form::Bytes { base64 } => BASE64_STANDARD.decode(base64).map(Self),
        }
    }
}

fn yes() -> bool {
    true
}

impl Run {
    /// Whether something was written that is not kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.stdout_bytes.is_some() || self.stderr_bytes.is_some()
    }

    /// Keeps less of the output, until the receipt has at most so many bytes.
    pub(crate) fn cut_to(&mut self, most: usize) {
        while self.encode().is_ok_and(|receipt| receipt.bytes.len() > most) {
            let (kept, total) = if self.stdout.0.len() >= self.stderr.0.len() {
                (&mut self.stdout.0, &mut self.stdout_bytes)
            } else {
                (&mut self.stderr.0, &mut self.stderr_bytes)
            };
            if kept.is_empty() {
                return;
            }
            total.get_or_insert(kept.len() as u64);
            let mut shorter = kept.len() * 3 / 4;
            // Not in the middle of a character.
            while kept.get(shorter).is_some_and(|byte| byte & 0xc0 == 0x80) {
                shorter -= 1;
            }
            kept.truncate(shorter);
        }
    }

    pub(crate) fn encode(&self) -> Result<Receipt, BoxError> {
        Ok(Receipt::new(CODEC, serde_json::to_vec(self)?))
    }

    pub(crate) fn decode(receipt: &Receipt) -> Result<Self, BoxError> {
        if receipt.codec != CODEC {
            return Err(format!("it is a receipt of the form {}, not {CODEC}", receipt.codec).into());
        }
        Ok(serde_json::from_slice(&receipt.bytes)?)
    }

    /// As a person gives it: unlike in one that is kept, a field with another name is a mistake.
    pub(crate) fn of_person(json: &str) -> Result<Self, String> {
        const NAMES: &[&str] = &[
            "exit_code",
            "ended",
            "recorded",
            "stdout",
            "stderr",
            "stdout_bytes",
            "stderr_bytes",
            "took_ms",
        ];
        let form = "write {\"exit_code\": 0, \"stdout\": \"…\", \"stderr\": \"…\"}, or leave fields out";
        let value: serde_json::Value =
            serde_json::from_str(json).map_err(|error| format!("{error}: {form}"))?;
        let fields = value.as_object().ok_or_else(|| format!("it is no object: {form}"))?;
        if let Some(name) = fields.keys().find(|name| !NAMES.contains(&name.as_str())) {
            let name = text::shown(name);
            return Err(match text::nearest(&name, NAMES) {
                Some(nearest) => format!("it has no field `{name}`: did you mean `{nearest}`?"),
                None => format!("it has no field `{name}`: {form}"),
            });
        }
        serde_json::from_value(value).map_err(|error| format!("{error}: {form}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_until_the_receipt_fits() {
        let lines = "\n".repeat(40_000);
        let mut run =
            Run { stdout: Bytes(lines.into()), stderr: Bytes(vec![0xff; 60_000]), ..Run::default() };
        run.cut_to(65_536);
        assert!(run.encode().unwrap().bytes.len() <= 65_536);
        assert!(run.stdout.0.len() > 5_000 && run.stderr.0.len() > 5_000);
        assert_eq!((run.stdout_bytes, run.stderr_bytes), (Some(40_000), Some(60_000)));
        let mut wide = Run { stdout: Bytes("é".repeat(40_000).into()), ..Run::default() };
        wide.cut_to(10_000);
        assert!(String::from_utf8(wide.stdout.0).is_ok_and(|text| !text.is_empty()));
        let mut short = Run { stdout: Bytes(b"a".to_vec()), ..Run::default() };
        short.cut_to(65_536);
        assert!(!short.is_cut());
    }

    #[test]
    fn runs_survive_the_store() {
        let run = Run {
            exit_code: 3,
            ended: Ended::Signalled,
            recorded: true,
            stdout: Bytes(b"a\nb".to_vec()),
            stderr: Bytes(vec![0xff, 0]),
            stdout_bytes: Some(10_000_000),
            ..Run::default()
        };
        let receipt = run.encode().unwrap();
        assert_eq!(Run::decode(&receipt).unwrap(), run);
        let json: serde_json::Value = serde_json::from_slice(&receipt.bytes).unwrap();
        assert_eq!(json["stdout"], "a\nb");
        assert_eq!(json["stderr"]["base64"], "/wA=");
        assert!(run.is_cut());
    }

    #[test]
    fn a_receipt_of_a_newer_version_with_more_fields_is_read() {
        let receipt = Receipt::new(CODEC, &br#"{"exit_code":4,"host":"a"}"#[..]);
        let run = Run::decode(&receipt).unwrap();
        assert_eq!((run.exit_code, run.recorded, run.is_cut()), (4, true, false));
    }

    #[test]
    fn other_forms_are_not_read() {
        assert!(Run::decode(&Receipt::new("json/1", &b"{}"[..])).is_err());
        assert!(Run::decode(&Receipt::new(CODEC, &b"{"[..])).is_err());
    }

    #[test]
    fn receipts_of_people_are_checked() {
        assert_eq!(Run::of_person("{}").unwrap().exit_code, 0);
        assert_eq!(Run::of_person(r#"{"stdout":"hi"}"#).unwrap().stdout.0, b"hi");
        assert!(Run::of_person(r#"{"stdot":"hi"}"#).unwrap_err().contains("did you mean `stdout`?"));
        assert!(Run::of_person(r#"{"exit_code":256}"#).is_err());
        assert!(Run::of_person("[]").unwrap_err().contains("no object"));
        assert!(Run::of_person("{").is_err());
    }
}
