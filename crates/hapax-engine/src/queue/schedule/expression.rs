//! Cron expressions, on the wall: no time zone is known here.

use croner::{
    CivilDate, CivilDateTime, CivilTime, Cron, CronDateTime, Resolution, Weekday,
    errors::CronError,
    parser::{CronParser, Seconds, Year},
};
use jiff::{SignedDuration, civil::DateTime};
use std::cmp::Ordering;

/// Names for common expressions.
const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// One field of an expression.
struct Field {
    name: &'static str,
    /// What it may hold.
    form: &'static str,
    /// Words in it, in capitals.
    words: &'static [&'static str],
    /// Characters beside digits and `*` `/` `,` `-`.
    signs: &'static str,
}

const FIELDS: [Field; 6] = [
    Field { name: "second", form: "0 to 59", words: &[], signs: "" },
    Field { name: "minute", form: "0 to 59", words: &[], signs: "" },
    Field { name: "hour", form: "0 to 23", words: &[], signs: "" },
    Field {
        name: "day of the month",
        form: "1 to 31, L for the last one, 15W for the workday nearest to the 15th",
        words: &["L", "W", "LW"],
        signs: "?",
    },
    Field { name: "month", form: "1 to 12 or JAN to DEC", words: &MONTHS, signs: "" },
    Field {
        name: "day of the week",
        form: "0 (Sunday) to 7 (Sunday again) or SUN to SAT, 5L for the last Friday of a month, 1#2 for its second Monday",
        words: &DAYS,
        signs: "#?",
    },
];

/// A cron expression that was read.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    cron: Cron,
    text: String,
}

impl Expression {
    /// Reads five fields, six with seconds in front, or a name such as `@hourly`. The error says which field is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = format!("the schedule `{text}`");
        if text.is_empty() {
            return Err("the schedule is empty: write `MINUTE HOUR DAY MONTH WEEKDAY`".into());
        }
        let fields = if text.starts_with('@') {
            let known = NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
            let names = || NAMES.map(|(name, _)| name).join(", ");
            known.map(|(_, fields)| *fields).ok_or_else(|| format!("{shown} is none of {}", names()))?
        } else {
            text.as_str()
        };
        let mut parts: Vec<&str> = fields.split(' ').collect();
        match parts.len() {
            5 => parts.insert(0, "0"),
            6 => {}
            n => {
                let form = "MINUTE HOUR DAY MONTH WEEKDAY, with SECOND in front where it matters";
                return Err(format!("{shown} has {n} fields where 5 or 6 are needed: {form}"));
            }
        }
        for (at, (field, part)) in FIELDS.iter().zip(&parts).enumerate() {
            let alone: Vec<&str> = (0..FIELDS.len()).map(|i| if i == at { *part } else { "*" }).collect();
            if !field.may_hold(part) || read(&alone.join(" ")).is_err() {
                return Err(format!(
                    "`{part}` is no {} in {shown}: {}; lists `1,2`, ranges `1-5` and steps `*/2`",
                    field.name, field.form
                ));
            }
        }
        let cron = read(&parts.join(" ")).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        Ok(Self { cron, text })
    }

    /// As it was written, with single spaces.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The first time on the wall after `wall`.
    pub(super) fn after(&self, wall: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&Wall(wall), false).ok().map(|found| found.0)
    }

    /// The last time on the wall that is not after `wall`.
    pub(super) fn until(&self, wall: DateTime) -> Option<DateTime> {
        self.cron.find_previous_occurrence(&Wall(wall), true).ok().map(|found| found.0)
    }
}

impl Field {
    /// Whether its words are its own: the reader takes the name of a month for a number wherever it stands.
    fn may_hold(&self, part: &str) -> bool {
        let is_sign = |c: char| c.is_ascii_digit() || "*/,-".contains(c) || self.signs.contains(c);
        let is_word = |word: &str| {
            let word = word.to_ascii_uppercase();
            let known = |word: &str| self.words.contains(&word);
            // `FRIL` is the last Friday.
            word.is_empty()
                || known(&word)
                || (self.signs.contains('#') && (word == "L" || word.strip_suffix('L').is_some_and(known)))
        };
        part.chars().all(|c| is_sign(c) || c.is_ascii_alphabetic())
            && part.split(|c: char| !c.is_ascii_alphabetic()).all(is_word)
    }
}

fn read(fields: &str) -> Result<Cron, CronError> {
    CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build().parse(fields)
}

/// A time on the wall, for the search: each one is there once. Which instant it is, is another question.
#[derive(Clone, Copy, Debug)]
struct Wall(DateTime);

impl CronDateTime for Wall {
    fn to_civil(&self) -> CivilDateTime {
        // jiff's parts are all in range, none is negative but the year.
        let of = |part: i8| u32::from(part.unsigned_abs());
        let date =
            CivilDate::from_parts_unchecked(i32::from(self.0.year()), of(self.0.month()), of(self.0.day()));
        let time =
            CivilTime::from_parts_unchecked(of(self.0.hour()), of(self.0.minute()), of(self.0.second()));
        CivilDateTime::new(date, time)
    }

    fn civil_weekday(&self) -> Weekday {
        let day = self.0.weekday().to_sunday_zero_offset();
        Weekday::from_days_from_sunday(u32::from(day.unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let of = |part: u32| i8::try_from(part).map_err(|_| CronError::InvalidDate);
        let year = i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?;
        let (month, day) = (of(civil.month())?, of(civil.day())?);
        let (hour, minute, second) = (of(civil.hour())?, of(civil.minute())?, of(civil.second())?);
        let wall = DateTime::new(year, month, day, hour, minute, second, 0);
        wall.map(|wall| Resolution::Single(Self(wall))).map_err(|_| CronError::InvalidDate)
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Self)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wall(text: &str) -> DateTime {
        text.parse().unwrap()
    }

    #[track_caller]
    fn next(expression: &str, after: &str) -> String {
        Expression::parse(expression).unwrap().after(wall(after)).unwrap().to_string()
    }

    #[test]
    fn expressions_mean_the_times_that_cron_means() {
        for (expression, after, expected) in [
            ("0 3 * * *", "2026-01-31T03:00:00", "2026-02-01T03:00:00"),
            ("0 3 * * *", "2026-01-31T02:59:59.9", "2026-01-31T03:00:00"),
            ("*/15 * * * *", "2026-01-01T00:14:59", "2026-01-01T00:15:00"),
            ("*/20 * * * * *", "2026-01-01T00:00:20", "2026-01-01T00:00:40"),
            ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
            ("0 0 31 * *", "2026-01-31T00:00:00", "2026-03-31T00:00:00"),
            ("0 0 L * *", "2026-02-01T00:00:00", "2026-02-28T00:00:00"),
            ("0 0 L 2 *", "2028-01-01T00:00:00", "2028-02-29T00:00:00"),
            ("0 9 * * FRIL", "2026-01-01T00:00:00", "2026-01-30T09:00:00"),
            ("0 9 * * 1#2", "2026-01-01T00:00:00", "2026-01-12T09:00:00"),
            ("0 9 15W * *", "2026-02-01T00:00:00", "2026-02-16T09:00:00"),
            ("0 9 * jan,jul mon-fri", "2026-01-30T09:00:00", "2026-07-01T09:00:00"),
            // Either of the two, where both are given.
            ("0 0 13 * FRI", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
            ("@hourly", "2026-12-31T23:00:00", "2027-01-01T00:00:00"),
            ("@WEEKLY", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ] {
            assert_eq!(next(expression, after), expected, "{expression} after {after}");
        }
    }

    #[test]
    fn an_error_names_its_field() {
        for (expression, named) in [
            ("60 * * * *", "`60` is no minute"),
            ("0 24 * * *", "`24` is no hour"),
            ("0 JAN * * *", "`JAN` is no hour"),
            ("0 0 32 * *", "`32` is no day of the month"),
            ("0 0 * 13 *", "`13` is no month"),
            ("0 0 * MON *", "`MON` is no month"),
            ("0 0 * JANUARY *", "`JANUARY` is no month"),
            ("0 0 * * 8", "`8` is no day of the week"),
            ("0 0 * * JAN", "`JAN` is no day of the week"),
            ("0 0 * * 1#6", "`1#6` is no day of the week"),
            ("61 0 0 * * *", "`61` is no second"),
            ("*/0 * * * *", "`*/0` is no minute"),
            ("5-1 * * * *", "`5-1` is no minute"),
            ("\u{661} * * * *", "is no minute"),
            ("* * * *", "4 fields"),
            ("0 0 0 1 1 * 2027", "7 fields"),
            ("@reboot", "@hourly"),
            (" ", "empty"),
        ] {
            let error = Expression::parse(expression).unwrap_err();
            assert!(error.contains(named), "{expression}: {error}");
        }
    }

    #[test]
    fn what_never_comes_is_found_out() {
        for expression in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            assert_eq!(Expression::parse(expression).unwrap().after(wall("2026-01-01T00:00:00")), None);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-0-9*/,#LW?@A-Za-z+ \u{e9}]{0,24}") {
            if let Ok(expression) = Expression::parse(&text) {
                let _ = expression.after(wall("2026-01-01T00:00:00"));
                let _ = expression.until(wall("2026-01-01T00:00:00"));
            }
        }
    }
}
