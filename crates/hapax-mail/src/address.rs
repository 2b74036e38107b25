//! Mail addresses: what is accepted, and how each is written.

mod domain;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use parse::{Syntax, parse_list};

use std::{borrow::Cow, fmt, str::FromStr};

/// The longest local part, as it is written: RFC 5321 §4.5.3.1.1.
const MAX_LOCAL: usize = 64;
/// The longest address without its name: RFC 5321 §4.5.3.1.3, less the angle brackets.
const MAX_ADDRESS: usize = 254;
/// The longest display name. Ours: no reader shows more.
const MAX_NAME: usize = 512;

/// One mailbox: `Ada <ada@example.com>`.
///
/// Parses one address, never a list: text that a stranger typed into a form cannot add a second recipient. Lists are
/// read by [`parse_list`](Address::parse_list), where a list is meant. `Display` writes what parses back to the same
/// address; `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    name: Option<String>,
    local: String,
    domain: String,
    /// `None` while it would be the same as `domain`.
    ascii_domain: Option<String>,
}

impl Address {
    /// An address from its parts. The name may hold anything but control characters; `address` is `local@domain`.
    pub fn new(name: Option<&str>, address: &str) -> Result<Self, InvalidAddress> {
        let mut parsed = Self::from_str(address)?;
        if parsed.name.is_some() {
            return Err(InvalidAddress::NotAlone);
        }
        parsed.name = match name {
            Some(name) => checked_name(name)?,
            None => None,
        };
        Ok(parsed)
    }

    /// Addresses parted by commas.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, InvalidAddress> {
        parse_list(text, Syntax::Strict)
    }

    fn from_parts(name: Option<String>, local: String, domain: String) -> Result<Self, InvalidAddress> {
        let name = match name {
            Some(name) => checked_name(&name)?,
            None => None,
        };
        let ascii = domain::to_ascii(&domain)?;
        let ascii_domain = (ascii != domain).then_some(ascii);
        let address = Self { name, local, domain, ascii_domain };
        let local = address.local_form().len();
        if local > MAX_LOCAL {
            return Err(InvalidAddress::LocalTooLong { bytes: local });
        }
        let whole = local + 1 + address.domain.len().max(address.ascii_domain().len());
        if whole > MAX_ADDRESS {
            return Err(InvalidAddress::TooLong { bytes: whole });
        }
        Ok(address)
    }

    /// The display name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What stands before the `@`, without quotes.
    pub fn local(&self) -> &str {
        &self.local
    }

    /// What stands after the `@`, as it was given.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The domain as DNS knows it: A-labels, in lower case.
    pub fn ascii_domain(&self) -> &str {
        self.ascii_domain.as_deref().unwrap_or(&self.domain)
    }

    /// `local@domain` as it was given, without the name.
    pub fn addr_spec(&self) -> String {
        format!("{}@{}", self.local_form(), self.domain)
    }

    /// `local@domain` as SMTP and header fields carry it: an international domain as A-labels, which every server
    /// takes, unless the local part needs SMTPUTF8 anyway. The local part is never encoded: only its own server may
    /// say what it means.
    pub fn wire_form(&self) -> String {
        let domain = if self.needs_smtputf8() { &self.domain } else { self.ascii_domain() };
        let local = self.local_form();
        let mut out = String::with_capacity(local.len() + 1 + domain.len());
        out.push_str(&local);
        out.push('@');
        out.push_str(domain);
        out
    }

    /// `Name <local@domain>` for providers that read it: the name quoted where it needs it, the domain as in
    /// [`wire_form`](Self::wire_form).
    pub(crate) fn wire_text(&self) -> String {
        match &self.name {
            None => self.wire_form(),
            Some(name) if is_plain_phrase(name) => format!("{name} <{}>", self.wire_form()),
            Some(name) => format!("{} <{}>", quoted(name), self.wire_form()),
        }
    }

    /// Whether only a server with SMTPUTF8 can take it: the local part is not ASCII.
    pub fn needs_smtputf8(&self) -> bool {
        !self.local.is_ascii()
    }

    /// The same place to deliver to, whatever the name and the spelling of the domain.
    pub fn same_mailbox(&self, other: &Self) -> bool {
        self.local == other.local && self.ascii_domain() == other.ascii_domain()
    }

    fn local_form(&self) -> Cow<'_, str> {
        if is_dot_atom(&self.local) { Cow::Borrowed(&self.local) } else { Cow::Owned(quoted(&self.local)) }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let mut list = parse_list(text, Syntax::Strict)?;
        match (list.pop(), list.is_empty()) {
            (Some(address), true) => Ok(address),
            (Some(_), false) => Err(InvalidAddress::List),
            (None, _) => Err(InvalidAddress::Empty),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => f.write_str(&self.addr_spec()),
            Some(name) if is_plain_phrase(name) => write!(f, "{name} <{}>", self.addr_spec()),
            Some(name) => write!(f, "{} <{}>", quoted(name), self.addr_spec()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(…)")
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl From<&Address> for String {
    fn from(address: &Address) -> Self {
        address.to_string()
    }
}

/// Why text is no address. Never repeats the text: it may be somebody's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAddress {
    /// Nothing but white space.
    #[error("it is empty")]
    Empty,
    /// CR or LF, which could begin a header field or an SMTP command of its own.
    #[error("it holds a line break")]
    LineBreak,
    /// NUL or another control character.
    #[error("it holds a control character (U+{code:04X})")]
    #[non_exhaustive]
    Control {
        /// Which.
        code: u32,
    },
    /// No `@` outside quotes.
    #[error("the @ is missing: expected `name@domain` or `Name <name@domain>`")]
    NoAt,
    /// Nothing before the `@`.
    #[error("nothing stands before the @")]
    NoLocal,
    /// The local part is not one.
    #[error("the part before the @ is not valid: {reason}")]
    #[non_exhaustive]
    Local {
        /// Why.
        reason: &'static str,
    },
    /// The local part is too long.
    #[error("the part before the @ has {bytes} bytes: 64 are the most")]
    #[non_exhaustive]
    LocalTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The domain is not one.
    #[error("the domain is not valid: {reason}")]
    #[non_exhaustive]
    Domain {
        /// Why.
        reason: &'static str,
    },
    /// The whole address is too long.
    #[error("it has {bytes} bytes without the name: 254 are the most")]
    #[non_exhaustive]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The display name is too long.
    #[error("the name has {bytes} bytes: 512 are the most")]
    #[non_exhaustive]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The display name is already encoded for a header field.
    #[error("the name is already encoded (`=?…?=`): give it as plain text, it is encoded when it is sent")]
    NameEncoded,
    /// A name with a character that has to be quoted.
    #[error("the name holds `{found}`: put it in double quotes, as in `\"Lovelace, Ada\" <ada@example.com>`")]
    #[non_exhaustive]
    QuoteName {
        /// The character.
        found: char,
    },
    /// A quoted string without its end.
    #[error("a double quote is not closed")]
    OpenQuote,
    /// `<` without `>`, or the other way round.
    #[error("`<` and `>` do not match")]
    Brackets,
    /// Something after the address.
    #[error("text stands after the address")]
    Trailing,
    /// A comment in parentheses.
    #[error("it holds a comment in parentheses: leave it out, or put the name in double quotes")]
    Comment,
    /// `group: a, b;`.
    #[error("it is a group (`name: …;`): give its addresses one by one")]
    Group,
    /// A list where one address was expected.
    #[error("these are several addresses: give each as a string of its own")]
    List,
    /// A name where only `local@domain` was expected.
    #[error("expected `name@domain` without a display name")]
    NotAlone,
}

impl InvalidAddress {
    /// `message.header_injection` for a line break, else `message.address`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::LineBreak => "message.header_injection",
            _ => "message.address",
        }
    }
}

/// A name without space around it; `None` when nothing is left.
fn checked_name(name: &str) -> Result<Option<String>, InvalidAddress> {
    refuse_controls(name)?;
    let name = name.trim();
    if name.len() > MAX_NAME {
        return Err(InvalidAddress::NameTooLong { bytes: name.len() });
    }
    if crate::message::looks_encoded(name) {
        return Err(InvalidAddress::NameEncoded);
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

fn refuse_controls(text: &str) -> Result<(), InvalidAddress> {
    if text.contains(['\r', '\n']) {
        return Err(InvalidAddress::LineBreak);
    }
    match text.chars().find(|c| is_refused(*c)) {
        Some(c) => Err(InvalidAddress::Control { code: u32::from(c) }),
        None => Ok(()),
    }
}

/// Controls, and the characters that some readers take for a line break.
fn is_refused(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// RFC 5322 `atext`, with RFC 6532's other characters.
fn is_atext(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => true,
        _ if c.is_ascii() => "!#$%&'*+-/=?^_`{|}~".contains(c),
        // Invisible ones would make two addresses look alike; U+FFFD is what is left of bytes that were no text.
        _ => !is_refused(c) && !c.is_whitespace() && !is_invisible(c) && c != '\u{fffd}',
    }
}

/// What a name holds without quotes: names are shown, not compared, so joiners and wide spaces are fine.
fn is_phrase_char(c: char) -> bool {
    is_atext(c) || !c.is_ascii()
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn is_dot_atom(text: &str) -> bool {
    // Without a look at each atom where there is but one, of letters and digits.
    let is_word = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    is_word || text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

/// Words of a name that need no quotes, parted by single spaces. A dot counts as obsolete there, so it is quoted.
fn is_plain_phrase(name: &str) -> bool {
    name.split(' ').all(|word| !word.is_empty() && word.chars().all(is_phrase_char))
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}
