//! The limit that is asked, and how.

use super::down;
use crate::{
    commands::Context,
    duration,
    failure::Failure,
    output,
    store::{self, Sharing},
};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use hapax::{
    Decision, Limit, LimitError, Quota, WhenDown,
    core::Namespace,
    limit::{Algorithm, InvalidQuota},
};
use serde::Serialize;
use std::time::Duration;

/// How much is allowed in which time.
#[derive(Clone, Debug, Args)]
pub(super) struct Amount {
    /// So much may pass in a window: 1 to 2147483648
    #[arg(long, value_name = "N", value_parser = parse_limit, allow_hyphen_values = true)]
    pub(super) limit: u32,
    /// The window: 1ms to 400d
    #[arg(long, value_name = "DUR", value_parser = parse_window, allow_hyphen_values = true)]
    pub(super) window: Duration,
}

/// How requests are counted.
pub(super) fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::as_str)).try_map(|word| word.parse::<Algorithm>())
}

fn parse_limit(text: &str) -> Result<u32, String> {
    let reason = InvalidQuota::Limit.reason();
    let way_out = "5 per minute is --limit 5 --window 1m";
    let number = whole(text).ok_or_else(|| format!("`{text}` is no whole number: {reason}; {way_out}"))?;
    u32::try_from(number)
        .ok()
        .filter(|number| (1..=1 << 31).contains(number))
        .ok_or_else(|| reason.to_owned())
}

fn parse_window(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        Duration::ZERO => Err("a window is from 1ms to 400d".to_owned()),
        window => Ok(window),
    }
}

fn parse_cost(text: &str) -> Result<u32, String> {
    let number = whole(text)
        .ok_or_else(|| format!("`{text}` is no whole number: a cost is from 1 to {}", u32::MAX))?;
    match u32::try_from(number) {
        Ok(0) => Err("a cost is at least 1: --dry-run asks without taking anything".to_owned()),
        Ok(cost) => Ok(cost),
        Err(_) => Err(format!("a cost is from 1 to {}", u32::MAX)),
    }
}

/// Digits and nothing else. What no number is large enough for is the largest.
fn whole(text: &str) -> Option<u64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| text.parse().unwrap_or(u64::MAX))
}

/// A request to a limit.
#[derive(Clone, Debug, Args)]
pub(super) struct Ask {
    /// Whose requests are counted, as in `login:ada`: 1 byte to 64 KiB of UTF-8
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    #[command(flatten)]
    amount: Amount,
    /// How requests are counted: `hapax limit explain` tells them apart. With fixed-window up to twice as many may pass around
    /// the end of a window
    #[arg(long, value_name = "ALGORITHM", default_value = "fixed-window", value_parser = algorithms())]
    algorithm: Algorithm,
    /// The request takes so much. More than the limit never passes (exit code 65)
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_cost, allow_hyphen_values = true)]
    cost: u32,
    /// Waits so long until it may pass. What cannot pass in that time is refused at once
    #[arg(long, value_name = "DUR", default_value = "0s", value_parser = duration::parse, allow_hyphen_values = true)]
    wait: Duration,
    /// What is answered while the store is out of reach, `open` or `closed`, in place of exit code 69
    #[arg(long, value_name = "ANSWER", value_parser = down::parse)]
    when_down: Option<WhenDown>,
}

impl Ask {
    /// The limit, checked before anything is opened.
    pub(super) fn limit(&self, context: &Context) -> Result<Limit, Failure> {
        Namespace::new(&context.settings.namespace)?;
        let quota = Quota::new(self.algorithm, self.amount.limit, self.amount.window)
            .map_err(|error| Failure::usage(format!("--limit and --window: {error}")))?;
        let limit = Limit::new(&self.name, quota);
        limit.key()?;
        Ok(limit)
    }

    /// Opens the store, and asks it.
    pub(super) async fn decide(
        &self,
        context: &Context,
        limit: Limit,
        dry_run: bool,
    ) -> Result<Decision, Failure> {
        let limits = match store::open(&context.settings, Sharing::Needed).await {
            Ok(hapax) => hapax.limits(),
            Err(failure) if self.when_down.is_some() && down::is_out_of_reach(&failure) => {
                output::warn(&format!("the store is out of reach ({}): --when-down answers", failure.code));
                down::limits()
            }
            Err(failure) => return Err(failure),
        };
        let mut ask = limits.check(limit).cost(self.cost);
        if let Some(answer) = self.when_down {
            ask = ask.when_down(answer);
        }
        if dry_run {
            ask = ask.dry_run();
        }
        if !self.wait.is_zero() {
            ask = ask.wait(self.wait);
        }
        Ok(ask.await?)
    }
}

/// Why a decision does not let pass; none, if it does.
pub(super) fn refusal(decision: &Decision) -> Option<Failure> {
    if decision.allowed() {
        return None;
    }
    let failure = Failure::from(LimitError::Limited(decision.clone()));
    if decision.never() {
        return Some(failure);
    }
    if decision.degraded().is_some() {
        return Some(failure.help("bring the store back; --when-down open lets everything pass meanwhile"));
    }
    let rest = duration::format_rough(decision.retry_after());
    Some(failure.help(format!("try again in {rest}, or wait for it with --wait {rest}, say")))
}

/// What a limit says. The names of its fields are stable.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    allowed: bool,
    limit: u32,
    remaining: u32,
    cost: u32,
    /// None where it never passes.
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    dry_run: bool,
    never: bool,
    violated: Vec<String>,
    degraded: Option<&'static str>,
}

impl Answer {
    pub(super) fn of(decision: &Decision) -> Self {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            allowed: decision.allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            cost: decision.cost(),
            retry_after_ms: (!decision.never()).then(|| ms(decision.retry_after())),
            reset_after_ms: ms(decision.reset_after()),
            dry_run: decision.dry_run(),
            never: decision.never(),
            violated: decision.violated().map(str::to_owned).collect(),
            degraded: decision.degraded().map(hapax::limit::Degraded::as_str),
        }
    }
}
