//! `hapax queue limits`.

use super::{Found, queue};
use crate::{commands::Context, duration, exit::Exit, failure::Failure};
use clap::Args;
use hapax::{
    core::{
        Span,
        queue::{PerRate, events::MOST_KEPT},
    },
    queue,
};
use serde_json::json;
use std::time::Duration;

/// Show or set the bounds of a queue
///
/// They hold for all of its workers together, on every machine. What is not given stays as it is; `none` takes a bound away.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax queue limits thumbs                                   shows them
  hapax queue limits thumbs --concurrency 4 --rate 50/s
  hapax queue limits thumbs --rate 5/s --per /tenant          for each value of that field
  hapax queue limits thumbs --max-len 100000                  above it, `add` exits with 75
  hapax queue limits thumbs --rate none
  hapax queue limits thumbs --per none                        the rate for all stays
  hapax queue limits thumbs --events 1000                     for `hapax queue events`")]
pub(super) struct Limits {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// So many jobs of a group run at once
    #[arg(long, value_name = "N|none", value_parser = parse::<u32>)]
    concurrency: Option<Bound<u32>>,
    /// So many jobs of a group start in a time, and up to so many at once after a rest (a token bucket): 50/s, 600/m, 1000/h, 100/10s
    #[arg(long, value_name = "RATE|none", value_parser = parse_rate)]
    rate: Option<Bound<(u32, Span)>>,
    /// The rate is one for each value that payloads have at this JSON pointer, such as /tenant; jobs without one are not held
    /// back. Workers hear of it within 2 s, and put off what has to wait for its turn
    #[arg(long, value_name = "POINTER|none")]
    per: Option<String>,
    /// So many jobs may wait, ready and delayed ones together
    #[arg(long, value_name = "N|none", value_parser = parse::<u64>)]
    max_len: Option<Bound<u64>>,
    /// So many events are kept, the latest ones; 100000 at most
    #[arg(long, value_name = "N|none", value_parser = parse_events)]
    events: Option<Bound<u32>>,
}

/// A bound, or none.
#[derive(Clone, Copy, Debug)]
struct Bound<T>(Option<T>);

fn parse<T: std::str::FromStr + PartialEq + Default>(text: &str) -> Result<Bound<T>, String> {
    let number = || text.parse().ok().filter(|n| *n != T::default());
    match text {
        "none" => Ok(Bound(None)),
        _ => number().map(|n| Bound(Some(n))).ok_or_else(|| {
            format!(
                "`{text}` is no bound: write a number from 1, or none. `hapax queue pause` holds jobs back"
            )
        }),
    }
}

fn parse_events(text: &str) -> Result<Bound<u32>, String> {
    match parse::<u32>(text)? {
        Bound(Some(n)) if n > MOST_KEPT => Err(format!("a queue keeps {MOST_KEPT} events at most")),
        bound => Ok(bound),
    }
}

fn parse_rate(text: &str) -> Result<Bound<(u32, Span)>, String> {
    const FORM: &str = "write 50/s, 600/m, 100/10s, or none";
    if text == "none" {
        return Ok(Bound(None));
    }
    let (number, time) = text.split_once('/').ok_or_else(|| format!("`{text}` is no rate: {FORM}"))?;
    let number = number.parse::<u32>().ok().filter(|n| *n > 0);
    let number = number.ok_or_else(|| format!("`{text}` is no rate: {FORM}"))?;
    // `s` is `1s`.
    let digits = time.starts_with(|c: char| c.is_ascii_digit());
    let time = if digits { time.to_owned() } else { format!("1{time}") };
    let time: Duration = duration::parse_positive(&time)?;
    Ok(Bound(Some((number, Span::new(time).map_err(|error| error.to_string())?))))
}

impl Limits {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        queue(&self.queue)?;
        let per = self.per()?;
        let sets = self.concurrency.is_some()
            || self.rate.is_some()
            || self.per.is_some()
            || self.max_len.is_some()
            || self.events.is_some();
        // Looking makes no store.
        let found = if sets {
            Some(Found::open(&self.queue, context).await?)
        } else {
            Found::look(&self.queue, context).await?
        };
        let mut limits = match &found {
            Some(found) => found.store.limits(found.raw.id()).await?,
            None => queue::Limits::default(),
        };
        if let (Some(found), true) = (&found, sets) {
            set(&mut limits.concurrency, self.concurrency);
            set(&mut limits.per, per);
            if self.per.as_deref().is_none_or(|per| per == "none") {
                set(&mut limits.rate, self.rate);
            }
            set(&mut limits.max_len, self.max_len);
            if let Some(Bound(events)) = self.events {
                limits.events = events.unwrap_or_default();
            }
            found.store.set_limits(found.raw.id(), &limits).await?;
            context.output.changed();
        }
        self.print(&limits, context);
        Ok(Exit::Done)
    }

    /// The rate for each value.
    fn per(&self) -> Result<Option<Bound<PerRate>>, Failure> {
        let Some(pointer) = &self.per else { return Ok(None) };
        if pointer == "none" {
            return Ok(Some(Bound(None)));
        }
        let Some(Bound(Some((count, window)))) = self.rate else {
            let reason = "--per needs the rate that each value has: --rate 5/s --per /tenant, or --per none";
            return Err(Failure::usage(reason));
        };
        let per = PerRate::new(pointer, count, window);
        per.map(|per| Some(Bound(Some(per)))).map_err(|error| Failure::usage(format!("--per: {error}")))
    }

    fn print(&self, limits: &queue::Limits, context: &Context) {
        let shown = |n: u32, time: Span| format!("{n}/{}", duration::format(time.get()));
        let rate = limits.rate.map(|(n, time)| shown(n, time));
        let per = limits.per.as_ref().map(|per| (per.pointer(), shown(per.count(), per.window())));
        if context.output.json {
            context.output.object(&json!({
                "queue": self.queue,
                "concurrency": limits.concurrency,
                "rate": rate,
                "per": per.as_ref().map(|(pointer, rate)| json!({ "pointer": pointer, "rate": rate })),
                "max_len": limits.max_len,
                "events": limits.events,
            }));
            return;
        }
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        for (name, value) in [
            ("concurrency", or_none(limits.concurrency.map(|n| n.to_string()))),
            ("rate", or_none(rate)),
            ("rate per", or_none(per.map(|(pointer, rate)| format!("{pointer} {rate}")))),
            ("max length", or_none(limits.max_len.map(|n| n.to_string()))),
            ("events", or_none(Some(limits.events).filter(|n| *n > 0).map(|n| n.to_string()))),
        ] {
            context.output.line(&format!("{name:<12} {value}"));
        }
    }
}

fn set<T>(bound: &mut Option<T>, to: Option<Bound<T>>) {
    if let Some(Bound(to)) = to {
        *bound = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_number_and_a_time() {
        let rate =
            |text| parse_rate(text).map(|Bound(rate)| rate.map(|(n, time)| (n, time.get().as_millis())));
        assert_eq!(rate("50/s"), Ok(Some((50, 1000))));
        assert_eq!(rate("100/10s"), Ok(Some((100, 10_000))));
        assert_eq!(rate("none"), Ok(None));
        for text in ["50", "0/s", "-1/s", "5/", "5/x", "/s", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_are_numbers_from_1() {
        assert_eq!(parse::<u32>("4").unwrap().0, Some(4));
        assert_eq!(parse::<u32>("none").unwrap().0, None);
        assert!(parse::<u32>("0").is_err() && parse::<u32>("-1").is_err());
        assert!(parse_events("100000").is_ok() && parse_events("100001").is_err());
    }
}
