//! Small forms of text: what people and shells read.

use hapax::Timestamp;
use std::fmt::Write as _;

/// RFC 3339 in UTC, with milliseconds. `None` for what no calendar reaches: a record that never ends.
pub(crate) fn time(at: Timestamp) -> Option<String> {
    jiff::Timestamp::from_millisecond(at.as_millis()).ok().map(|at| format!("{at:.3}"))
}

/// RFC 3339 in UTC, for people: whole seconds.
pub(crate) fn time_rough(at: Timestamp) -> String {
    let secs = jiff::Timestamp::from_second(at.as_millis().div_euclid(1000));
    secs.map_or_else(|_| "never".to_owned(), |at| at.to_string())
}

/// On one line, and without anything that a terminal would obey.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Controls, and the marks that turn the direction of what follows.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// As an argument that a POSIX shell reads back, on one line, and without anything that a terminal would obey.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@=+,%".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return text.to_owned();
    }
    if text.chars().any(is_obeyed) {
        return escaped(text);
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// In the form of quotes that has escapes. Three octal digits for each byte: nothing behind them can be taken for more.
fn escaped(text: &str) -> String {
    let mut out = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            c if is_obeyed(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// The nearest of `known`, if any is near.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &&&str| strsim::jaro_winkler(name, known);
    let best = known.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(&best) > 0.8).then_some(*best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        let at = Timestamp::from_millis(1_767_225_600_120);
        assert_eq!(time(at).unwrap(), "2026-01-01T00:00:00.120Z");
        assert_eq!(time_rough(at), "2026-01-01T00:00:00Z");
        assert_eq!(time(Timestamp::from_millis(i64::MAX)), None);
    }

    #[test]
    fn shown_text_commands_no_terminal() {
        assert_eq!(shown("a\x1b[2J\nb\u{202e}"), r"a\u{1b}[2J\nb\u{202e}");
        assert_eq!(shown("{🐘}"), "{🐘}");
    }

    #[test]
    fn quoted_text_is_one_word() {
        assert_eq!(quoted("charge:o-1"), "charge:o-1");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("-x"), "'-x'");
        assert_eq!(quoted("a#1"), "'a#1'");
        assert_eq!(quoted("it's\\\x1b[2J\n1\u{202e}"), r"$'it\'s\\\033[2J\0121\342\200\256'");
    }

    #[test]
    fn nearest_names_are_near() {
        assert_eq!(nearest("stroe", &["namespace", "store"]), Some("store"));
        assert_eq!(nearest("zzz", &["namespace", "store"]), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
