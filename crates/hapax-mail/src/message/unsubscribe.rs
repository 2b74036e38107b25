//! How a reader gets off the list: RFC 2369, and one click by RFC 8058.

use super::Fault;
use crate::Address;
use std::fmt;

/// A URL has to fit one header line: it cannot be folded.
const MAX_URL: usize = 900;

/// A web address, a mail address, or both. `Debug` hides them: they often name the reader.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Unsubscribe {
    /// `https://…`; mailbox providers ask for it by POST, without the reader having to confirm.
    pub url: Option<String>,
    /// `mailto:…`
    pub mailto: Option<String>,
}

impl Unsubscribe {
    /// Whether the `List-Unsubscribe-Post` field may be sent: RFC 8058 asks for https.
    pub fn one_click(&self) -> bool {
        self.url.as_deref().is_some_and(is_https)
    }

    /// Checks it; a bare mail address becomes a `mailto:`.
    pub(super) fn checked(self, faults: &mut Vec<Fault>) -> Option<Self> {
        if self == Self::default() {
            faults.push(Fault::new("unsubscribe", "message.unsubscribe", "give `url`, `mailto`, or both"));
            return None;
        }
        let before = faults.len();
        if let Some(url) = &self.url
            && let Err(fault) = uri("unsubscribe.url", url).and_then(|()| web(url))
        {
            faults.push(fault);
        }
        let mailto = self.mailto.map(|m| if m.starts_with("mailto:") { m } else { format!("mailto:{m}") });
        if let Some(mailto) = &mailto
            && let Err(fault) = uri("unsubscribe.mailto", mailto).and_then(|()| mail(mailto))
        {
            faults.push(fault);
        }
        (faults.len() == before).then_some(Self { url: self.url, mailto })
    }
}

impl fmt::Debug for Unsubscribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsubscribe")
            .field("url", &self.url.is_some())
            .field("mailto", &self.mailto.is_some())
            .finish()
    }
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

fn uri(field: &'static str, text: &str) -> Result<(), Fault> {
    if text.contains(['\r', '\n']) {
        return Err(Fault::new(field, "message.header_injection", "it holds a line break"));
    }
    if text.len() > MAX_URL {
        return Err(Fault::new(
            field,
            "message.unsubscribe",
            "it is longer than 900 bytes, which no header line holds",
        ));
    }
    // A comma parts the addresses of the field, and angle brackets end one.
    if !text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b',' | b'"' | b'\\')) {
        let reason = "it holds a space, a comma, a quote, an angle bracket or a character outside ASCII: percent-encode it";
        return Err(Fault::new(field, "message.unsubscribe", reason));
    }
    Ok(())
}

fn web(url: &str) -> Result<(), Fault> {
    let http = url.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"));
    let host = url.split_once("//").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if (is_https(url) || http) && host.is_some_and(|host| !host.is_empty()) {
        return Ok(());
    }
    Err(Fault::new(
        "unsubscribe.url",
        "message.unsubscribe",
        "a web address begins with `https://` and names a host",
    ))
}

fn mail(mailto: &str) -> Result<(), Fault> {
    let address = mailto.trim_start_matches("mailto:").split('?').next().unwrap_or_default();
    match Address::new(None, address) {
        Ok(_) => Ok(()),
        Err(e) => Err(Fault::new(
            "unsubscribe.mailto",
            "message.unsubscribe",
            format!("the address before `?`: {e}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: Option<&str>, mailto: Option<&str>) -> Result<Unsubscribe, Vec<&'static str>> {
        let mut faults = Vec::new();
        let given = Unsubscribe { url: url.map(str::to_owned), mailto: mailto.map(str::to_owned) };
        given.checked(&mut faults).ok_or_else(|| faults.iter().map(|fault| fault.code).collect())
    }

    #[test]
    fn one_click_needs_https() {
        assert!(check(Some("https://example.com/u?x=1"), None).unwrap().one_click());
        assert!(check(Some("HTTPS://example.com/u"), None).unwrap().one_click());
        assert!(!check(Some("http://example.com/u"), None).unwrap().one_click());
        assert!(!check(None, Some("leave@example.com")).unwrap().one_click());
    }

    #[test]
    fn bare_mail_address_becomes_mailto() {
        let both = check(Some("https://example.com"), Some("leave@example.com?subject=off")).unwrap();
        assert_eq!(both.mailto.as_deref(), Some("mailto:leave@example.com?subject=off"));
    }

    #[test]
    fn what_cannot_stand_in_the_field_is_refused() {
        for url in [
            "ftp://example.com",
            "https://",
            "example.com",
            "https://e.com/a b",
            "https://e.com/a>b",
            "https://e.com/é",
            "https://e.com/a,b",
        ] {
            assert_eq!(check(Some(url), None), Err(vec!["message.unsubscribe"]), "{url}");
        }
        assert_eq!(check(Some("https://e.com/\r\nBcc: a@b"), None), Err(vec!["message.header_injection"]));
        assert_eq!(
            check(Some(&format!("https://e.com/{}", "a".repeat(900))), None),
            Err(vec!["message.unsubscribe"])
        );
        assert_eq!(check(None, Some("mailto:nobody")), Err(vec!["message.unsubscribe"]));
        assert_eq!(check(None, None), Err(vec!["message.unsubscribe"]));
    }
}
