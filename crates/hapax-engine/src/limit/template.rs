//! The names of limits with places for values, checked when the program is compiled.

use super::value::PushValue;

/// What may stand in a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Text, escaped.
    Text,
    /// A whole number.
    Int,
    /// An address; IPv6 by its first 64 bits.
    Ip,
    /// Hashed.
    Secret,
}

/// The longest list of places.
const PLACES: usize = 8;

/// A name with places: `login:{ip:ip}`. For [`define_limit!`](crate::define_limit).
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Template {
    text: &'static str,
    /// For each place: where its braces begin and end, and which value stands there.
    places: [(usize, usize, usize); PLACES],
    count: usize,
}

impl Template {
    /// Checks it. In a constant, what is wrong does not compile.
    ///
    /// # Panics
    /// What the message says is wrong with it.
    #[expect(clippy::panic, clippy::indexing_slicing, reason = "run by the compiler, which reports both")]
    pub const fn new(text: &'static str, names: &[&'static str], kinds: &[Kind]) -> Self {
        let bytes = text.as_bytes();
        let mut places = [(0, 0, 0); PLACES];
        let (mut count, mut at) = (0, 0);
        let mut used = [false; PLACES];
        assert!(!bytes.is_empty(), "the name of a limit is empty");
        assert!(names.len() <= PLACES, "a limit has 8 values at most");
        while at < bytes.len() {
            match bytes[at] {
                b'{' => {
                    let start = at;
                    let mut colon = 0;
                    while at < bytes.len() && bytes[at] != b'}' {
                        if bytes[at] == b':' {
                            colon = at;
                        }
                        at += 1;
                    }
                    assert!(at < bytes.len(), "a `{{` of a limit has no `}}`");
                    assert!(colon > start, "a place of a limit is `{{value:kind}}`");
                    assert!(count < PLACES, "a limit has 8 places at most");
                    let value = index(bytes, start + 1, colon, names);
                    assert!(value < names.len(), "a place of a limit names no value of its function");
                    let kind = kind(bytes, colon + 1, at);
                    assert!(
                        same_kind(kind, kinds[value]),
                        "a place of a limit is of another kind than its value"
                    );
                    if count > 0 {
                        assert!(
                            places[count - 1].1 < start,
                            "two places of a limit touch: put a `:` between"
                        );
                    }
                    places[count] = (start, at + 1, value);
                    used[value] = true;
                    count += 1;
                }
                b'}' => panic!("a `}}` of a limit has no `{{`"),
                _ => {}
            }
            at += 1;
        }
        let mut value = 0;
        while value < names.len() {
            assert!(used[value], "a value of a limit has no place in its name");
            value += 1;
        }
        Self { text, places, count }
    }

    pub(super) fn fill(&self, values: &[&dyn PushValue]) -> String {
        let mut name = String::with_capacity(self.text.len() + 32);
        let mut from = 0;
        for (start, end, value) in self.places.iter().take(self.count) {
            name.push_str(self.text.get(from..*start).unwrap_or_default());
            if let Some(value) = values.get(*value) {
                value.push(&mut name);
            }
            from = *end;
        }
        name.push_str(self.text.get(from..).unwrap_or_default());
        name
    }
}

/// Which of the names stands there; their number where none does.
#[expect(clippy::indexing_slicing, reason = "run by the compiler")]
const fn index(text: &[u8], from: usize, to: usize, names: &[&str]) -> usize {
    let mut at = 0;
    while at < names.len() {
        if is(text, from, to, names[at].as_bytes()) {
            return at;
        }
        at += 1;
    }
    at
}

#[expect(clippy::panic, reason = "run by the compiler")]
const fn kind(text: &[u8], from: usize, to: usize) -> Kind {
    if is(text, from, to, b"text") {
        Kind::Text
    } else if is(text, from, to, b"int") {
        Kind::Int
    } else if is(text, from, to, b"ip") {
        Kind::Ip
    } else if is(text, from, to, b"secret") {
        Kind::Secret
    } else {
        panic!("the kind of a place is `text`, `int`, `ip` or `secret`")
    }
}

#[expect(clippy::indexing_slicing, reason = "run by the compiler")]
const fn is(text: &[u8], from: usize, to: usize, name: &[u8]) -> bool {
    if to - from != name.len() {
        return false;
    }
    let mut at = 0;
    while at < name.len() {
        if text[from + at] != name[at] {
            return false;
        }
        at += 1;
    }
    true
}

const fn same_kind(a: Kind, b: Kind) -> bool {
    a as u8 == b as u8
}

/// Writes functions that name limits. The name, its places, their kinds and the quota are checked when the program is
/// compiled; values are escaped, so that no two lists of values give one name.
///
/// ```
/// use hapax_engine::{define_limit, limit::{Quota, Secret}};
/// use std::{net::IpAddr, time::Duration};
///
/// const MINUTE: Duration = Duration::from_secs(60);
///
/// define_limit! {
///     /// Five tries a minute from one address.
///     pub fn login_by_ip(ip: IpAddr) = "login:{ip:ip}", Quota::sliding_window(5, MINUTE);
///     fn login_by_user(user: Secret<&str>) = "login:{user:secret}", Quota::token_bucket(10, MINUTE);
///     fn site() = "site", Quota::sliding_counter(100_000, MINUTE);
/// }
///
/// let ip: IpAddr = "2001:db8::1:2:3:4".parse().unwrap();
/// assert_eq!(login_by_ip(ip).key().unwrap().as_str(), "login:2001%3Adb8%3A%3A/64");
/// assert_eq!(login_by_ip(ip).policy_name(), "login_by_ip");
/// assert_ne!(login_by_user(Secret("ada")), login_by_user(Secret("eve")));
/// assert_eq!(site().quota().limit(), 100_000);
/// ```
///
/// A place without a value, or of another kind, does not compile:
///
/// ```compile_fail
/// # use hapax_engine::{define_limit, limit::Quota};
/// define_limit! {
///     fn by_user(user: &str) = "user:{user:ip}", Quota::fixed_window(5, std::time::Duration::from_secs(1));
/// }
/// by_user("ada");
/// ```
#[macro_export]
macro_rules! define_limit {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($value:ident: $type:ty),* $(,)?) = $template:literal, $quota:expr;)+) => {$(
        $(#[$meta])*
        $vis fn $name($($value: $type),*) -> $crate::limit::Limit {
            const QUOTA: $crate::limit::Quota = $quota;
            const TEMPLATE: $crate::limit::Template = $crate::limit::Template::new(
                $template,
                &[$(::core::stringify!($value)),*],
                &[$(<$type as $crate::limit::LimitValue>::KIND),*],
            );
            $crate::limit::Limit::fill(::core::stringify!($name), &TEMPLATE, &[$(&$value),*], QUOTA)
        }
    )+};
}
