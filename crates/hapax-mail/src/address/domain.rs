//! The part after the `@`: host names, international ones too, and address literals.

use super::InvalidAddress;
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use std::net::{Ipv4Addr, Ipv6Addr};

const MAX_DOMAIN: usize = 253;

fn invalid(reason: &'static str) -> InvalidAddress {
    InvalidAddress::Domain { reason }
}

/// The domain as DNS knows it, or why it is none.
pub(super) fn to_ascii(domain: &str) -> Result<String, InvalidAddress> {
    if domain.is_empty() {
        return Err(invalid("nothing stands after the @"));
    }
    if domain.starts_with('[') {
        return literal(domain);
    }
    if domain.ends_with('.') {
        return Err(invalid("it ends in a dot"));
    }
    if domain.starts_with('.') || domain.contains("..") {
        return Err(invalid("two dots without a name between them"));
    }
    let ascii = if domain.is_ascii() && !has_a_label(domain) {
        domain.to_ascii_lowercase()
    } else {
        // Also checks the A-labels that were given: one that decodes to nothing valid is refused.
        Uts46::new()
            .to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify)
            .map_err(|_| invalid("it is no international domain name"))?
            .into_owned()
    };
    if ascii.len() > MAX_DOMAIN {
        return Err(invalid("it is longer than 253 bytes"));
    }
    ascii.split('.').try_for_each(label)?;
    // As an address literal it would need brackets; as a name no mail exchanger can exist for it.
    if ascii.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
        return Err(invalid("its last part is a number; an IP address is written `[192.0.2.1]`"));
    }
    Ok(ascii)
}

fn has_a_label(domain: &str) -> bool {
    domain.split('.').any(|label| label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--")))
}

fn label(label: &str) -> Result<(), InvalidAddress> {
    if label.is_empty() {
        return Err(invalid("two dots without a name between them"));
    }
    if label.len() > 63 {
        return Err(invalid("a part between dots is longer than 63 bytes"));
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(invalid("a part begins or ends with a hyphen"));
    }
    if !label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(invalid("it holds a character other than letters, digits, hyphens and dots"));
    }
    Ok(())
}

/// `[192.0.2.1]` or `[IPv6:2001:db8::1]`.
fn literal(domain: &str) -> Result<String, InvalidAddress> {
    let no_literal = || invalid("it is no address literal: `[192.0.2.1]` or `[IPv6:2001:db8::1]`");
    let inner = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']')).ok_or_else(no_literal)?;
    let tagged = inner.get(..5).filter(|tag| tag.eq_ignore_ascii_case("ipv6:")).and(inner.get(5..));
    match tagged {
        Some(v6) => v6.parse::<Ipv6Addr>().map(|ip| format!("[IPv6:{ip}]")).map_err(|_| no_literal()),
        None => inner.parse::<Ipv4Addr>().map(|ip| format!("[{ip}]")).map_err(|_| no_literal()),
    }
}
