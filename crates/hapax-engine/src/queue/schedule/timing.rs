//! When a schedule fires: a cron expression on the wall of a time zone.
//!
//! A time that the wall does not show, because it is set forward, counts as the first minute after the gap. A time that
//! it shows twice counts the first time. So the times of an expression, in their order on the wall, are also in the
//! order in which they come, and every instant has a frontier on the wall: all times up to it have come, and none after.

use super::expression::Expression;
use crate::queue::QueueError;
use hapax_core::Timestamp;
use jiff::{
    SignedDuration,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};
use std::fmt;

/// A cron expression in a time zone.
#[derive(Clone)]
pub struct Timing {
    expression: Expression,
    zone: TimeZone,
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timing").field("expression", &self.expression()).field("zone", &self.zone()).finish()
    }
}

impl Timing {
    /// From an expression of five fields (six with seconds in front, or a name such as `@hourly`) and the name of a
    /// time zone: `UTC`, `Europe/Berlin`.
    ///
    /// # Errors
    /// `queue.invalid`: the message names the field, or the zone and those that are written alike.
    pub fn new(expression: &str, zone: &str) -> Result<Self, QueueError> {
        let expression = Expression::parse(expression).map_err(QueueError::invalid)?;
        let zone = self::zone(zone).map_err(QueueError::invalid)?;
        Ok(Self { expression, zone })
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        self.expression.text()
    }

    /// The name of the time zone.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The first time after `at`; `None` where there is none.
    pub fn after(&self, at: Timestamp) -> Option<Timestamp> {
        self.instant(self.expression.after(self.frontier(at)?)?)
    }

    /// The last time that is not after `at`; `None` where there is none.
    pub fn until(&self, at: Timestamp) -> Option<Timestamp> {
        self.instant(self.expression.until(self.frontier(at)?)?)
    }

    /// The next times after `at`, as many as are asked for.
    pub fn upcoming(&self, at: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.after(at), |last| self.after(*last))
    }

    /// An instant as the zone's wall shows it, by RFC 3339.
    pub fn shown(&self, at: Timestamp) -> String {
        let Ok(instant) = jiff::Timestamp::from_millisecond(at.as_millis()) else { return "never".into() };
        instant.display_with_offset(self.zone.to_offset(instant)).to_string()
    }

    /// Up to where the wall has come.
    fn frontier(&self, at: Timestamp) -> Option<DateTime> {
        let at = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
        let offset = self.zone.to_offset(at);
        let wall = offset.to_datetime(at);
        match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Fold { before, after } if offset == after => {
                // The wall shows it for the second time: what it shows twice has all come.
                let just_after = at.checked_add(SignedDuration::from_nanos(1)).ok()?;
                let turn = self.zone.preceding(just_after).next()?.timestamp();
                before.to_datetime(turn).checked_sub(SignedDuration::from_nanos(1)).ok()
            }
            _ => Some(wall),
        }
    }

    /// When the wall shows it for the first time.
    fn instant(&self, wall: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(wall);
        let instant = match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_gap = after.to_timestamp(wall).ok()?;
                self.zone.following(before_the_gap).next()?.timestamp()
            }
            _ => ambiguous.earlier().ok()?,
        };
        Some(Timestamp::from_millis(instant.as_millisecond()))
    }
}

fn zone(name: &str) -> Result<TimeZone, String> {
    let found = TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some());
    found.ok_or_else(|| {
        let database = jiff::tz::db();
        let like = |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &name.to_lowercase());
        let mut near: Vec<_> = database
            .available()
            .map(|known| (like(known.as_str()), known.to_string()))
            .filter(|(like, _)| *like > 0.8)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let near: Vec<_> = near.into_iter().take(3).map(|(_, known)| known).collect();
        let way_out = if near.is_empty() {
            "write a name of the IANA list, as `UTC` or `Europe/Berlin`".to_owned()
        } else {
            format!("is it {}?", near.join(" or "))
        };
        format!("there is no time zone `{name}`: {way_out}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    fn shown(at: Timestamp) -> String {
        jiff::Timestamp::from_millisecond(at.as_millis()).unwrap().to_string()
    }

    /// The next times of an expression.
    fn times(expression: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
        let timing = Timing::new(expression, zone).unwrap();
        timing.upcoming(at(after)).take(n).map(shown).collect()
    }

    #[test]
    fn a_local_time_that_does_not_exist_runs_at_the_next_valid_minute() {
        // Berlin, 2026-03-29: 02:00 is followed by 03:00.
        let nightly = times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3);
        assert_eq!(nightly, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
        // What falls into the gap and what comes right after it are one.
        let often = times("*/20 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", 3);
        assert_eq!(often, ["2026-03-29T00:40:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"]);
        // Half an hour on Lord Howe, and a whole day on Samoa.
        let howe = times("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", 1);
        assert_eq!(howe, ["2026-10-03T15:30:00Z"]);
        let samoa = times("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1);
        assert_eq!(samoa, ["2011-12-30T10:00:00Z"]);
    }

    #[test]
    fn a_local_time_that_occurs_twice_runs_once() {
        // Berlin, 2026-10-25: 03:00 is followed by 02:00.
        let nightly = times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(nightly, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        let often = times("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 2);
        assert_eq!(often, ["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"]);
        let timing = Timing::new("*/30 * * * *", "Europe/Berlin").unwrap();
        for second_time in ["2026-10-25T01:00:00Z", "2026-10-25T01:10:00Z", "2026-10-25T01:59:59.999Z"] {
            assert_eq!(timing.after(at(second_time)).map(shown).unwrap(), "2026-10-25T02:00:00Z");
            assert_eq!(timing.until(at(second_time)).map(shown).unwrap(), "2026-10-25T00:30:00Z");
        }
    }

    #[test]
    fn days_that_not_every_year_has_are_waited_for() {
        assert_eq!(
            times("0 0 29 2 *", "UTC", "2095-01-01T00:00:00Z", 2),
            ["2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"]
        );
        assert_eq!(
            times("0 0 31 * *", "America/New_York", "2026-01-31T12:00:00Z", 2),
            ["2026-03-31T04:00:00Z", "2026-05-31T04:00:00Z"]
        );
        let monthly = times("59 23 L * *", "Asia/Kolkata", "2028-01-31T20:00:00Z", 2);
        assert_eq!(monthly, ["2028-02-29T18:29:00Z", "2028-03-31T18:29:00Z"]);
    }

    #[test]
    fn an_unknown_zone_is_told_with_those_alike() {
        let error = |zone| Timing::new("@daily", zone).unwrap_err().to_string();
        assert!(error("Europe/Berln").contains("Europe/Berlin"), "{}", error("Europe/Berln"));
        assert!(error("").contains("IANA"), "{}", error(""));
        // However it is written, it is kept by its name.
        assert_eq!(Timing::new("@daily", "europe/berlin").unwrap().zone(), "Europe/Berlin");
    }

    #[test]
    fn times_beyond_the_calendar_are_none() {
        let timing = Timing::new("@daily", "Europe/Berlin").unwrap();
        for at in [i64::MIN, i64::MAX] {
            assert_eq!(
                (timing.after(Timestamp::from_millis(at)), timing.until(Timestamp::from_millis(at))),
                (None, None)
            );
        }
    }

    const ZONES: [&str; 7] = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "America/St_Johns",
        "Pacific/Apia",
    ];
    const EXPRESSIONS: [&str; 8] = [
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "0,30 0-3 * * *",
        "*/20 5 1 * * *",
        "15 1 * 3,4,9,10,11 SUN",
        "0 0 L * *",
        "*/15 */2 * * 1-5",
    ];

    proptest! {
        /// Times grow, none lies between one and its successor, and looking back finds what looking ahead found.
        #[test]
        fn looking_ahead_and_looking_back_agree(
            zone in prop::sample::select(&ZONES[..]),
            expression in prop::sample::select(&EXPRESSIONS[..]),
            ms in 1_230_768_000_000_i64..1_893_456_000_000,
            between in 0.0_f64..1.0,
        ) {
            let timing = Timing::new(expression, zone).unwrap();
            let start = Timestamp::from_millis(ms);
            let first = timing.after(start).unwrap();
            let second = timing.after(first).unwrap();
            prop_assert!(start < first && first < second);
            prop_assert!(timing.until(start).unwrap() <= start);
            prop_assert_eq!(timing.until(first).unwrap(), first);
            #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any instant between")]
            let some = Timestamp::from_millis(
                first.as_millis() + ((second.as_millis() - first.as_millis() - 1) as f64 * between) as i64,
            );
            prop_assert_eq!(timing.until(some).unwrap(), first);
            prop_assert_eq!(timing.after(some).unwrap(), second);
        }

        /// Around every turn of the clock: the times of a day on the wall are all there, each once.
        #[test]
        fn each_local_minute_has_its_instant_once(zone in prop::sample::select(&ZONES[..]), year in 2015_i16..2030) {
            let timing = Timing::new("*/10 * * * *", zone).unwrap();
            let start = jiff::civil::date(year, 1, 1).at(0, 0, 0, 0);
            let turns = timing.zone.following(timing.zone.to_timestamp(start).unwrap()).take(2);
            for turn in turns.map(|turn| turn.timestamp()) {
                let from = Timestamp::from_millis(turn.as_millisecond() - 4 * 3_600_000);
                let mut seen = std::collections::BTreeSet::new();
                for tick in timing.upcoming(from).take(60) {
                    let instant = jiff::Timestamp::from_millisecond(tick.as_millis()).unwrap();
                    let wall = timing.zone.to_datetime(instant);
                    prop_assert!(seen.insert(wall), "{} twice", wall);
                    prop_assert!(wall.minute() % 10 == 0 || instant == turn, "{}", wall);
                }
            }
        }
    }
}
