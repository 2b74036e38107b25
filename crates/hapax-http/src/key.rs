//! The value of `Idempotency-Key`.

use http::{HeaderMap, HeaderName};
use sfv::{
    BareItemFromInput, Parser,
    visitor::{ItemVisitor, ParameterVisitor},
};

/// How a value may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// Without the quotes, too.
    pub(crate) lenient: bool,
    /// In bytes, without the quotes.
    pub(crate) longest: usize,
}

/// Why a value is no key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Malformed {
    Repeated,
    Empty,
    TooLong { bytes: usize, longest: usize },
    NoString { lenient: bool },
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repeated => f.write_str("the field stands more than once: send it once"),
            Self::Empty => f.write_str("the key is empty: send at least one character"),
            Self::TooLong { bytes, longest } => {
                write!(f, "the key has {bytes} characters: {longest} are the most")
            }
            Self::NoString { lenient: false } => f.write_str(
                "the value is not a string of a structured field: printable ASCII between double quotes, such as \"8e03978e-40d5\"",
            ),
            Self::NoString { lenient: true } => f.write_str(
                "the value is neither printable ASCII between double quotes nor a bare word of ASCII without spaces, commas, semicolons, quotes and backslashes",
            ),
        }
    }
}

/// The key of a request; none where it has none.
pub(crate) fn find(
    headers: &HeaderMap,
    name: &HeaderName,
    rules: Rules,
) -> Option<Result<String, Malformed>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return Some(Err(Malformed::Repeated));
    }
    Some(parse(value.as_bytes(), rules))
}

fn parse(value: &[u8], rules: Rules) -> Result<String, Malformed> {
    let bare = value.trim_ascii();
    if bare.is_empty() {
        return Err(Malformed::Empty);
    }
    let key = match Parser::new(bare).parse_item_with_visitor(Text).ok().flatten() {
        Some(text) => text,
        None if rules.lenient && bare.iter().all(|byte| is_bare(*byte)) => {
            String::from_utf8_lossy(bare).into_owned()
        }
        None => return Err(Malformed::NoString { lenient: rules.lenient }),
    };
    match key.len() {
        0 => Err(Malformed::Empty),
        bytes if bytes > rules.longest => Err(Malformed::TooLong { bytes, longest: rules.longest }),
        _ => Ok(key),
    }
}

/// What proxies and parsers leave alone: a comma may join two fields to one, a semicolon begins a parameter.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

/// Takes the text of an item that is a string. Parameters, of which the draft knows none, are left out.
struct Text;

struct Found(Option<String>);

impl<'de> ItemVisitor<'de> for Text {
    type Out = Option<String>;
    type Error = std::convert::Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'de>,
    ) -> Result<impl ParameterVisitor<'de, Out = Self::Out>, Self::Error> {
        Ok(Found(match item {
            BareItemFromInput::String(text) => Some(text.as_str().to_owned()),
            _ => None,
        }))
    }
}

impl<'de> ParameterVisitor<'de> for Found {
    type Out = Option<String>;
    type Error = std::convert::Infallible;

    fn parameter(&mut self, _: &'de sfv::KeyRef, _: BareItemFromInput<'de>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn finish(self) -> Result<Self::Out, Self::Error> {
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRICT: Rules = Rules { lenient: false, longest: 255 };
    const LENIENT: Rules = Rules { lenient: true, longest: 255 };

    #[test]
    fn a_quoted_string_is_a_key_in_both_modes() {
        for rules in [STRICT, LENIENT] {
            assert_eq!(parse(b"\"8e03978e-40d5\"", rules), Ok("8e03978e-40d5".into()));
            assert_eq!(parse(br#"  "a \"b\" \\ c"  "#, rules), Ok(r#"a "b" \ c"#.into()));
            assert_eq!(parse(b"\"a\";v=1", rules), Ok("a".into()), "a parameter");
        }
    }

    #[test]
    fn a_bare_value_is_a_key_in_the_lenient_mode_alone() {
        for bare in ["8e03978e-40d5-43e8-bc93-6894a57f9324", "e03978e", "17", "?1", "a/b:c", ":YQ==:"] {
            assert_eq!(parse(bare.as_bytes(), STRICT), Err(Malformed::NoString { lenient: false }), "{bare}");
            assert_eq!(parse(bare.as_bytes(), LENIENT), Ok(bare.into()));
        }
    }

    #[test]
    fn what_is_no_key_is_refused_in_both_modes() {
        for rules in [STRICT, LENIENT] {
            let no_string = Err(Malformed::NoString { lenient: rules.lenient });
            for bad in ["\"a", "a\"", "\"a\" \"b\"", "\"a\", \"b\"", "a, b", "a b", "a;b c", "(\"a\")"] {
                assert_eq!(parse(bad.as_bytes(), rules), no_string, "{bad}");
            }
            for bad in [&b"\"\xc3\xa4\""[..], b"\xc3\xa4", b"\"a\tb\"", b"a\x7f"] {
                assert_eq!(parse(bad, rules), no_string);
            }
            for empty in ["", "  ", "\"\""] {
                assert_eq!(parse(empty.as_bytes(), rules), Err(Malformed::Empty));
            }
            let long = format!("\"{}\"", "x".repeat(256));
            assert_eq!(parse(long.as_bytes(), rules), Err(Malformed::TooLong { bytes: 256, longest: 255 }));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_of_printable_ascii_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for rules in [STRICT, LENIENT] {
                if let Ok(key) = parse(&bytes, rules) {
                    prop_assert!(!key.is_empty() && key.bytes().all(|byte| matches!(byte, b' '..=b'~')));
                }
            }
        }

        #[test]
        fn any_printable_text_can_be_a_key(text in "[ -~]{1,255}") {
            let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(parse(quoted.as_bytes(), STRICT), Ok(text));
        }
    }
}
