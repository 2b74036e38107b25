//! What may stand in the place of a template.

use super::Kind;
use hapax_core::limit::LimitKey;
use sha2::{Digest, Sha256};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A value that is hashed before it leaves the process: an address, a token, a user's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A value in the name of a limit.
///
/// | kind | types | stands there as |
/// |---|---|---|
/// | `text` | `&str`, `String` | itself, what separates parts escaped |
/// | `int` | whole numbers | itself |
/// | `ip` | `IpAddr`, `Ipv4Addr`, `Ipv6Addr` | IPv4: itself; IPv6: its first 64 bits, which one customer has |
/// | `secret` | `Secret` of text, a number or an address | a part of its SHA-256 |
pub trait LimitValue: PushValue {
    /// The kind of place that it fits in.
    const KIND: Kind;
}

/// How a value is written.
#[doc(hidden)]
pub trait PushValue {
    /// Adds it to the name.
    fn push(&self, name: &mut String);
}

impl LimitValue for &str {
    const KIND: Kind = Kind::Text;
}

impl PushValue for &str {
    fn push(&self, name: &mut String) {
        LimitKey::push_escaped(name, self);
    }
}

impl LimitValue for String {
    const KIND: Kind = Kind::Text;
}

impl PushValue for String {
    fn push(&self, name: &mut String) {
        LimitKey::push_escaped(name, self);
    }
}

impl LimitValue for &String {
    const KIND: Kind = Kind::Text;
}

impl PushValue for &String {
    fn push(&self, name: &mut String) {
        LimitKey::push_escaped(name, self);
    }
}

macro_rules! whole_numbers {
    ($($int:ty),+) => {$(
        impl LimitValue for $int {
            const KIND: Kind = Kind::Int;
        }

        impl PushValue for $int {
            fn push(&self, name: &mut String) {
                name.push_str(&self.to_string());
            }
        }
    )+};
}
whole_numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl LimitValue for IpAddr {
    const KIND: Kind = Kind::Ip;
}

impl PushValue for IpAddr {
    fn push(&self, name: &mut String) {
        match self.to_canonical() {
            Self::V4(address) => name.push_str(&address.to_string()),
            Self::V6(address) => {
                // One customer has 2^64 of them.
                let network = Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
                LimitKey::push_escaped(name, &network.to_string());
                name.push_str("/64");
            }
        }
    }
}

impl LimitValue for Ipv4Addr {
    const KIND: Kind = Kind::Ip;
}

impl PushValue for Ipv4Addr {
    fn push(&self, name: &mut String) {
        IpAddr::from(*self).push(name);
    }
}

impl LimitValue for Ipv6Addr {
    const KIND: Kind = Kind::Ip;
}

impl PushValue for Ipv6Addr {
    fn push(&self, name: &mut String) {
        IpAddr::from(*self).push(name);
    }
}

impl<T: LimitValue> LimitValue for Secret<T> {
    const KIND: Kind = Kind::Secret;
}

impl<T: PushValue> PushValue for Secret<T> {
    fn push(&self, name: &mut String) {
        let mut plain = String::new();
        self.0.push(&mut plain);
        let digest: [u8; 32] = Sha256::digest(format!("hapax limit 1\0{plain}")).into();
        // No plain value has this mark: it is escaped there.
        name.push('~');
        name.push_str(&hex::encode(digest.get(..16).unwrap_or(&digest)));
    }
}
