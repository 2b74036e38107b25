//! The list itself.

use crate::{Address, Message, RawMessage};
use std::{borrow::Cow, collections::HashSet, fmt, str::FromStr, sync::Arc};

/// Addresses, and whole domains, that get no mail. Cheap to clone.
///
/// As text: an address a line, or `@domain` for everybody there; empty lines and what follows a `#` at the start of a line count for
/// nothing. Upper and lower case are the same here, also before the `@`: a list of who must not be written to errs on their side.
#[derive(Clone, Default)]
pub struct SuppressionList {
    entries: Arc<HashSet<String>>,
}

/// A line of a suppression list that is no address. Does not repeat it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is neither an address nor `@domain`")]
#[non_exhaustive]
pub struct InvalidSuppression {
    /// Counted from 1.
    pub line: usize,
}

impl SuppressionList {
    /// Whether the address is on it.
    pub fn holds(&self, address: &Address) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let domain = address.ascii_domain().to_ascii_lowercase();
        self.entries.contains(&format!("@{domain}"))
            || self.entries.contains(&format!("{}@{domain}", address.local().to_lowercase()))
    }

    /// The message without the recipients on the list, and those.
    pub fn leave_out<'a>(&self, message: &'a Message) -> (Cow<'a, Message>, Vec<String>) {
        let left_out: Vec<_> =
            message.recipients().filter(|to| self.holds(to)).map(Address::wire_form).collect();
        let message = if left_out.is_empty() {
            Cow::Borrowed(message)
        } else {
            Cow::Owned(message.without_recipients(|to| self.holds(to)))
        };
        (message, left_out)
    }

    /// The same of a mail that is ready, by its envelope.
    pub fn leave_out_raw<'a>(&self, raw: &'a RawMessage) -> (Cow<'a, RawMessage>, Vec<String>) {
        let (left_out, to) = raw.to.iter().cloned().partition::<Vec<_>, _>(|to| self.holds_text(to));
        let raw = if left_out.is_empty() {
            Cow::Borrowed(raw)
        } else {
            Cow::Owned(RawMessage { to, ..raw.clone() })
        };
        (raw, left_out)
    }

    fn holds_text(&self, text: &str) -> bool {
        text.parse().is_ok_and(|address| self.holds(&address))
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl FromStr for SuppressionList {
    type Err = InvalidSuppression;

    fn from_str(text: &str) -> Result<Self, InvalidSuppression> {
        let mut entries = HashSet::new();
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let whole_domain = line.starts_with('@');
            let address = if whole_domain { format!("x{line}") } else { line.to_owned() };
            let address: Address = address.parse().map_err(|_| InvalidSuppression { line: at + 1 })?;
            let domain = address.ascii_domain().to_ascii_lowercase();
            let local = if whole_domain { String::new() } else { address.local().to_lowercase() };
            entries.insert(format!("{local}@{domain}"));
        }
        Ok(Self { entries: Arc::new(entries) })
    }
}

impl fmt::Debug for SuppressionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuppressionList").field("entries", &self.entries.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_err_on_the_side_of_silence() {
        let list: SuppressionList =
            "# bounced\n\nAda <ada@Example.com>\n@bücher.example\r\n".parse().unwrap();
        assert_eq!(list.len(), 2);
        let holds = |text: &str| list.holds(&text.parse().unwrap());
        assert!(
            holds("ADA@example.COM") && holds("Ada L <ada@example.com>") && holds("x@xn--bcher-kva.example")
        );
        assert!(!holds("ada@sub.example.com") && !holds("bob@example.com"));
        assert!(list.holds_text("ada@example.com") && !list.holds_text("nonsense"));
        let error = "a@b.example\nsecret\n".parse::<SuppressionList>().unwrap_err();
        assert_eq!(error.line, 2);
        assert!(!error.to_string().contains("secret"));
    }
}
