//! `--rate`: how often a send may start.

use std::time::Duration;

/// So many in such a time, evenly spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Rate {
    /// From one start to the next.
    pub(super) interval: Duration,
}

impl Rate {
    /// Reads `50/s`, `600/m` or `1000/h`.
    pub(in super::super) fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write 50/s, 600/m or 1000/h";
        let (number, unit) =
            text.split_once('/').ok_or_else(|| format!("`{text}` has no unit of time: {FORM}"))?;
        let per = match unit {
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return Err(format!("`{unit}` is no unit of time here: {FORM}")),
        };
        let number = number.parse::<u32>().ok().filter(|n| *n > 0);
        let number = number.ok_or_else(|| format!("`{text}` is no rate: {FORM}"))?;
        Ok(Self { interval: per / number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_intervals() {
        for (text, ms) in [("50/s", 20), ("600/m", 100), ("3600/h", 1000), ("1/s", 1000)] {
            assert_eq!(Rate::parse(text).unwrap().interval, Duration::from_millis(ms), "{text}");
        }
        for text in ["50", "50/", "0/s", "-1/s", "1.5/s", "50/d", "/s", ""] {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
    }
}
