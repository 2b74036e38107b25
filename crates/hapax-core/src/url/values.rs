//! The values of options: one form for each kind, whatever the store.

use super::{BackendUrl, config};
use crate::StoreResult;
use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

const MIB: u64 = 1024 * 1024;

impl BackendUrl {
    /// An option that takes one of several words: what the word means.
    pub fn one_of<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> StoreResult<Option<T>> {
        let Some(text) = self.option(name) else { return Ok(None) };
        let found = known.iter().find(|(word, _)| *word == text).map(|(_, meaning)| Some(*meaning));
        found.ok_or_else(|| {
            let words: Vec<_> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
            config(format!("`{name}` is {}, not `{text}`", words.join(" or ")))
        })
    }

    /// An option that takes a whole number.
    pub fn number<T>(&self, name: &str, range: RangeInclusive<T>) -> StoreResult<Option<T>>
    where
        T: FromStr + PartialOrd + Display,
    {
        self.option(name).map(|text| number(name, text, range)).transpose()
    }

    /// An option that takes a duration, from 1 ms to 1 h.
    pub fn duration(&self, name: &str) -> StoreResult<Option<Duration>> {
        self.option(name).map(|text| duration(name, text)).transpose()
    }

    /// An option that takes a size in bytes, from 1 to `most` MiB.
    pub fn bytes(&self, name: &str, most: u32) -> StoreResult<Option<usize>> {
        self.option(name).map(|text| bytes(name, text, most)).transpose()
    }
}

/// A whole number that stands elsewhere in a URL, under the name that messages give it.
pub fn number<T>(name: &str, text: &str, range: RangeInclusive<T>) -> StoreResult<T>
where
    T: FromStr + PartialOrd + Display,
{
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        config(format!("`{name}` is a whole number from {} to {}", range.start(), range.end()))
    })
}

fn duration(name: &str, text: &str) -> StoreResult<Duration> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    match measured(text, &units) {
        Some(ms @ 1..=3_600_000) => Ok(Duration::from_millis(ms)),
        Some(_) => Err(config(format!("`{name}={text}` is not from `1ms` to `1h`"))),
        None if is_bare(text) => {
            Err(config(format!("`{name}={text}` has no unit: write `{text}s` for seconds")))
        }
        None => Err(config(format!("`{name}={text}` is no duration: write `500ms`, `5s` or `1m`"))),
    }
}

fn bytes(name: &str, text: &str, most: u32) -> StoreResult<usize> {
    let units = [("KiB", 1024), ("MiB", MIB), ("B", 1)];
    match measured(text, &units) {
        Some(bytes) if (1..=u64::from(most) * MIB).contains(&bytes) => {
            Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
        }
        Some(_) => Err(config(format!("`{name}={text}` is not from `1B` to `{most}MiB`"))),
        None if is_bare(text) => {
            Err(config(format!("`{name}={text}` has no unit: write `{text}KiB` or `{text}MiB`")))
        }
        None => Err(config(format!("`{name}={text}` is no size: write `64KiB` or `1MiB`"))),
    }
}

fn measured(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_count() {
        assert_eq!(duration("t", "1500ms").unwrap(), Duration::from_millis(1500));
        assert_eq!(duration("t", "2m").unwrap(), Duration::from_mins(2));
        assert_eq!(bytes("b", "64KiB", 1).unwrap(), 65_536);
    }

    #[test]
    fn refusals_say_what_to_write() {
        let wrong = |text: &str| duration("t", text).unwrap_err().to_string();
        assert!(wrong("5").contains("`5s`") && wrong("0s").contains("`1h`"));
        assert!(
            wrong("soon").contains("no duration") && wrong("99999999999999999999s").contains("no duration")
        );
        let wrong = |text: &str| bytes("b", text, 128).unwrap_err().to_string();
        assert!(wrong("64").contains("`64KiB`") && wrong("0B").contains("`128MiB`"));
        assert!(wrong("64kb").contains("no size") && wrong("129MiB").contains("`128MiB`"));
        assert!(number::<i64>("n", "x", 0..=3).unwrap_err().to_string().contains("0 to 3"));
    }

    #[test]
    fn options_that_are_not_given_are_none() {
        let url = BackendUrl::parse("x:y?a=on").unwrap();
        let switch = [("on", true), ("off", false)];
        assert_eq!(
            (url.one_of("a", &switch).unwrap(), url.one_of("b", &switch).unwrap()),
            (Some(true), None)
        );
        assert!(
            url.one_of("a", &[("yes", true), ("no", false)])
                .unwrap_err()
                .to_string()
                .contains("`yes` or `no`")
        );
        assert_eq!((url.duration("b").unwrap(), url.bytes("b", 1).unwrap()), (None, None));
        assert_eq!(url.number::<u8>("b", 0..=1).unwrap(), None);
    }
}
