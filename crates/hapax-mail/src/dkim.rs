//! DKIM: signatures by which a receiver can tell that a domain stands for a message.
//!
//! RFC 6376 with the algorithms `rsa-sha256` and `ed25519-sha256` (RFC 8463), canonicalization `relaxed/relaxed`. The header
//! fields that a reader sees are signed, and some of them once more than they are there, so that none can be added without
//! breaking the signature; the fields of one-click unsubscribe are among them, as RFC 8058 asks.

mod canonical;
mod key;

use crate::{mime::reader, transport::InvalidTransport};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use canonical::{body, field};
use hapax_core::Timestamp;
use key::Key;
use sha2::{Digest, Sha256};
use std::{fmt, fs, path::Path, sync::Arc};

/// Signed where they are there.
const SIGNED: &[&str] = &[
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
];

/// Signed once more than they are there.
const SEALED: &[&str] = &["From", "Reply-To", "To", "Cc", "Subject", "Date", "Message-ID", "Content-Type"];

/// Signs messages for one domain. Cheap to clone; `Debug` shows no key.
///
/// ```no_run
/// # use hapax_mail::*;
/// # fn main() -> Result<(), InvalidTransport> {
/// let signer = dkim::Signer::from_file("example.com", "2030a", "/etc/app/dkim.pem")?;
/// let transport = Smtp::with_options(smtp::SmtpOptions::new("mail.example.com").dkim(signer))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Signer {
    domain: String,
    selector: String,
    key: Arc<Key>,
}

impl Signer {
    /// Signs for `domain` with a private key, RSA of 2,048 bits or more or Ed25519, in PEM (PKCS #8 or #1). Its public half
    /// is in DNS, at `SELECTOR._domainkey.DOMAIN`.
    pub fn new(domain: &str, selector: &str, pem: &[u8]) -> Result<Self, InvalidTransport> {
        let domain = idna::domain_to_ascii(domain).ok().filter(|ascii| is_name(ascii) && ascii.contains('.'));
        let domain = domain.ok_or_else(|| InvalidTransport::new("the domain of DKIM is no domain name"))?;
        if !is_name(selector) {
            return Err(InvalidTransport::new(
                "the selector of DKIM is no name: write letters, digits, dots and hyphens",
            ));
        }
        Ok(Self { domain, selector: selector.to_owned(), key: Arc::new(Key::read(pem)?) })
    }

    /// The same with a key in a file, which is read now.
    pub fn from_file(domain: &str, selector: &str, path: impl AsRef<Path>) -> Result<Self, InvalidTransport> {
        let path = path.as_ref();
        let pem = fs::read(path).map_err(|error| {
            InvalidTransport::new(format!("the key of DKIM, `{}`, cannot be read: {error}", path.display()))
        })?;
        Self::new(domain, selector, &pem)
    }

    /// The field to put before a message, with its line end. The message has CRLF at every line end, and `at` is when it is
    /// sent: the same message and time give the same field.
    pub fn sign(&self, mail: &[u8], at: Timestamp) -> String {
        let (fields, text) = reader::split(mail).unwrap_or((Vec::new(), mail));
        let mut names: Vec<&str> = Vec::new();
        let mut signed = Vec::new();
        for name in SIGNED {
            // The last of several comes first: §5.4.2.
            for found in fields.iter().rev().filter(|field| field.is(name)) {
                names.push(name);
                signed.extend_from_slice(&field(found.name, found.value));
                signed.extend_from_slice(b"\r\n");
            }
            if SEALED.contains(name) {
                names.push(name);
            }
        }
        let hash = BASE64.encode(Sha256::digest(body(text)));
        let value = format!(
            "v=1; a={}; c=relaxed/relaxed; d={};\r\n\ts={}; t={};\r\n\th={};\r\n\tbh={hash};\r\n\tb=",
            self.key.algorithm(),
            self.domain,
            self.selector,
            at.as_millis().div_euclid(1000),
            folded(&names, 70),
        );
        signed.extend_from_slice(&field(b"DKIM-Signature", format!(" {value}").as_bytes()));
        let signature = BASE64.encode(self.key.sign(&signed));
        let lines: Vec<&str> =
            signature.as_bytes().chunks(72).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("DKIM-Signature: {value}{}\r\n", lines.join("\r\n\t"))
    }
}

/// Names with colons between them, on lines of about that many characters.
fn folded(names: &[&str], width: usize) -> String {
    let (mut out, mut line) = (String::new(), 0);
    for (i, name) in names.iter().enumerate() {
        if i > 0 {
            out.push(':');
            if line + name.len() > width {
                out.push_str("\r\n\t");
                line = 0;
            }
        }
        out.push_str(name);
        line += name.len() + 1;
    }
    out
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("domain", &self.domain)
            .field("selector", &self.selector)
            .finish_non_exhaustive()
    }
}
