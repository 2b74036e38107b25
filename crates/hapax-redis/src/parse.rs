//! The values of a URL's options.

use crate::error::config;
use hapax_core::StoreResult;
use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

/// The largest receipt that can be asked for: Redis itself takes 512 MiB, late result included.
pub(crate) const MOST_BYTES: usize = 128 * 1024 * 1024;

pub(crate) fn one_of<T: Copy>(name: &str, text: &str, known: &[(&str, T)]) -> StoreResult<T> {
    known.iter().find(|(value, _)| *value == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let values: Vec<_> = known.iter().map(|(value, _)| format!("`{value}`")).collect();
        config(format!("`{name}` is {}, not `{text}`", values.join(" or ")))
    })
}

pub(crate) fn number<T>(name: &str, text: &str, range: RangeInclusive<T>) -> StoreResult<T>
where
    T: FromStr + PartialOrd + Display,
{
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        config(format!("`{name}` is a whole number from {} to {}", range.start(), range.end()))
    })
}

pub(crate) fn duration(name: &str, text: &str) -> StoreResult<Duration> {
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

pub(crate) fn bytes(name: &str, text: &str) -> StoreResult<usize> {
    let units = [("KiB", 1024), ("MiB", 1024 * 1024), ("B", 1)];
    let bytes = measured(text, &units).and_then(|bytes| usize::try_from(bytes).ok());
    match bytes {
        Some(bytes @ 1..=MOST_BYTES) => Ok(bytes),
        Some(_) => Err(config(format!("`{name}={text}` is not from `1B` to `128MiB`"))),
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
        assert_eq!(bytes("b", "64KiB").unwrap(), 65_536);
    }

    #[test]
    fn refusals_say_what_to_write() {
        let wrong = |text: &str| duration("t", text).unwrap_err().to_string();
        assert!(wrong("5").contains("`5s`") && wrong("0s").contains("`1h`"));
        assert!(
            wrong("soon").contains("no duration") && wrong("99999999999999999999s").contains("no duration")
        );
        let wrong = |text: &str| bytes("b", text).unwrap_err().to_string();
        assert!(wrong("64").contains("`64KiB`") && wrong("0B").contains("`128MiB`"));
        assert!(wrong("64kb").contains("no size"));
        assert!(number::<i64>("n", "x", 0..=3).unwrap_err().to_string().contains("0 to 3"));
    }
}
