//! Durations as people write them: `250ms`, `5s`, `10m`, `24h`, `7d`, and one after the other.

use std::time::Duration;

/// The longest that any store keeps.
const MAX: Duration = Duration::from_hours(400 * 24);

/// Longest name last, so that the first that fits while formatting is the largest unit.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration, zero included.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let (mut rest, mut ms) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        if number.is_empty() {
            return Err(format!("`{text}` is no duration: write 250ms, 5s, 10m, 24h or 7d"));
        }
        if unit.is_empty() {
            return Err(if after.is_empty() {
                format!(
                    "`{text}` has no unit: write {text}s for seconds, {text}m for minutes, {text}h for hours"
                )
            } else {
                format!("`{text}` is no duration: write whole numbers, 1500ms for one and a half seconds")
            });
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("`{unit}` is no unit of time: there are ms, s, m, h and d"));
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
        ms = part.and_then(|part| ms.checked_add(part)).ok_or_else(|| too_long(text))?;
        rest = after;
    }
    let duration = Duration::from_millis(ms);
    match text {
        "" => Err("a duration is empty: write 250ms, 5s, 10m, 24h or 7d".into()),
        _ if duration > MAX => Err(too_long(text)),
        _ => Ok(duration),
    }
}

/// Reads a duration that is longer than nothing.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it has to be longer than zero".into()),
        duration => Ok(duration),
    }
}

/// Reads the length of a lease.
pub(crate) fn parse_lease(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        duration if duration < hapax::protocol::Terms::MIN_LEASE => Err("a lease is at least 1s".into()),
        duration => Ok(duration),
    }
}

fn too_long(text: &str) -> String {
    format!("`{text}` is too long: 400d is the longest")
}

/// As one number and the largest unit that fits: the same text for the same duration, `1d` for `24h`.
pub(crate) fn format(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let unit = UNITS.iter().find(|(_, factor)| ms >= *factor && ms % factor == 0);
    unit.map_or_else(|| "0s".to_owned(), |(name, factor)| format!("{}{name}", ms / factor))
}

/// For people: whole seconds, rounded up, in at most two units.
pub(crate) fn format_rough(duration: Duration) -> String {
    let secs = duration.as_millis().div_ceil(1000);
    match secs {
        0..60 => format!("{secs}s"),
        60..3600 => format!("{}m{}s", secs / 60, secs % 60),
        3600..86_400 => format!("{}h{}m", secs / 3600, secs % 3600 / 60),
        _ => format!("{}d{}h", secs / 86_400, secs % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_sums() {
        for (text, ms) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("10m", 600_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("1m30s", 90_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_with_the_hint() {
        assert!(parse("60").unwrap_err().contains("write 60s"));
        assert!(parse("0").unwrap_err().contains("no unit"));
        assert!(parse("1m30").unwrap_err().contains("no unit"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "s", "-5s", "1.5s", "5 s", "5x", "5S", "99999999999999999999s", "401d", "९s"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_positive("0s").is_err());
        assert!(parse_lease("999ms").is_err());
    }

    #[test]
    fn format_takes_the_largest_unit_that_fits() {
        for (text, shown) in
            [("24h", "1d"), ("90s", "90s"), ("60m", "1h"), ("1500ms", "1500ms"), ("0s", "0s")]
        {
            assert_eq!(format(parse(text).unwrap()), shown);
        }
        assert_eq!(format_rough(Duration::from_millis(1)), "1s");
        assert_eq!(format_rough(Duration::from_secs(3700)), "1h1m");
    }
}
