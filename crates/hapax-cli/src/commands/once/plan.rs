//! What was asked for, checked before anything is opened.

use super::{Once, verdict::Rules};
use crate::{commands::program::Program, duration, failure::Failure};
use hapax::{
    Fingerprint, Key, Timestamp,
    core::{Name, Namespace, Scope},
    protocol::Terms,
    stable_hash,
};
use std::{
    error::Error,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    time::Duration,
};

/// A call that can be made.
#[derive(Debug)]
pub(super) struct Plan {
    /// As it was given, with the window.
    pub(super) key: String,
    pub(super) name: Name,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: Terms,
    pub(super) rules: Rules,
    pub(super) timeout: Option<Duration>,
    /// Without one, nothing is kept and nothing copied.
    pub(super) record_limit: Option<usize>,
    pub(super) program: Program,
}

impl Plan {
    pub(super) fn new(once: Once, namespace: &str, now: Timestamp) -> Result<Self, Failure> {
        let given = once.key.text()?;
        // Checked alone, too: with a window behind it an empty key would not be empty.
        Key::new(&given)?;
        let key = once.every.map_or_else(|| given.clone(), |every| windowed(&given, every, now));
        let name = Name::new(&Namespace::new(namespace)?, &Scope::new("once")?, &Key::new(&key)?);
        let window = once.every.unwrap_or_default();
        // An unknown outcome that is forgotten within the window would let its work run again, unless that was asked for.
        let unknown_ttl = once.unknown_ttl.unwrap_or_else(|| Terms::TTL.max(window));
        let terms = Terms::new(once.lease, once.ttl.max(window), unknown_ttl)
            .map_err(|error| Failure::usage("a duration cannot be used").because(error.source()))?;
        let fingerprint = match once.fingerprint.as_deref() {
            Some("none") => Fingerprint::ANY,
            Some(text) => hash(text)?,
            None => of_command_line(&once.command)?,
        };
        let program = Program::new(once.command)?;
        Ok(Self {
            key,
            name,
            fingerprint,
            // No ceiling: the lease lives as long as the command.
            terms: terms.wait((!once.wait.is_zero()).then_some(once.wait)),
            rules: Rules { unknown_exit: once.unknown_exit, keep_failures: once.keep_failures },
            timeout: once.timeout,
            record_limit: (!once.no_record).then(|| usize::try_from(once.record_limit).unwrap_or(usize::MAX)),
            program,
        })
    }
}

/// The key of a window: which one it is, counted from 1970-01-01 UTC. Read from its end it falls into its parts in one way
/// only, so no two keys or windows meet.
fn windowed(key: &str, every: Duration, now: Timestamp) -> String {
    let length = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
    format!("{key}@{}#{}", duration::format(every), now.as_millis().div_euclid(length))
}

/// Words of text are hashed as a list, so that any language can compute it; others byte by byte.
fn of_command_line(command: &[OsString]) -> Result<Fingerprint, Failure> {
    let words: Option<Vec<&str>> = command.iter().map(|word| word.to_str()).collect();
    match words {
        Some(words) => hash(&words),
        // No word holds a NUL.
        None => Ok(Fingerprint::of_bytes(command.join(OsStr::new("\0")).as_bytes())),
    }
}

fn hash<T: serde::Serialize + ?Sized>(value: &T) -> Result<Fingerprint, Failure> {
    stable_hash(value).map_err(|error| Failure::input(format!("no fingerprint can be made: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::Cli, commands::Command};
    use clap::Parser;

    const DAY: i64 = 86_400_000;

    fn plan(args: &[&str]) -> Result<Plan, Failure> {
        plan_at(args, Timestamp::from_millis(20_454 * DAY + 5))
    }

    fn plan_at(args: &[&str], now: Timestamp) -> Result<Plan, Failure> {
        let cli = Cli::try_parse_from(["hapax", "once"].iter().chain(args)).unwrap();
        let Command::Once(once) = cli.command else { panic!("another command") };
        Plan::new(once, "default", now)
    }

    #[test]
    fn the_command_line_is_the_fingerprint() {
        let fingerprint = |args: &[&str]| plan(args).unwrap().fingerprint;
        assert_eq!(fingerprint(&["k", "--", "echo", "a b"]), stable_hash(&["echo", "a b"]).unwrap());
        assert_ne!(fingerprint(&["k", "--", "echo", "a b"]), fingerprint(&["k", "--", "echo", "a", "b"]));
        assert_eq!(
            fingerprint(&["k", "--fingerprint", "v1", "--", "a"]),
            fingerprint(&["k", "--fingerprint", "v1", "--", "b"])
        );
        assert_eq!(fingerprint(&["k", "--fingerprint", "none", "--", "a"]), Fingerprint::ANY);
    }

    #[test]
    fn words_that_are_not_text_have_a_fingerprint() {
        let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let one = of_command_line(&[word(b"a"), word(b"\xff")]).unwrap();
        assert_ne!(one, of_command_line(&[word(b"a\xff")]).unwrap());
        assert_eq!(one, of_command_line(&[word(b"a"), word(b"\xff")]).unwrap());
    }

    #[test]
    fn a_window_becomes_part_of_the_key() {
        let at = |days: i64, ms: i64| {
            plan_at(&["backup", "--every", "1d", "--", "x"], Timestamp::from_millis(days * DAY + ms))
                .unwrap()
                .key
        };
        assert_eq!(at(20_454, 0), "backup@1d#20454");
        assert_eq!(at(20_454, DAY - 1), at(20_454, 0));
        assert_ne!(at(20_455, 0), at(20_454, 0));
        assert_eq!(at(-1, 5), "backup@1d#-1");
        let same = plan(&["backup", "--every", "24h", "--", "x"]).unwrap().key;
        assert_eq!(same, at(20_454, 0));
    }

    #[test]
    fn results_answer_for_the_window_at_least() {
        let terms = |args: &[&str]| plan(args).unwrap().terms;
        let week = Duration::from_hours(7 * 24);
        let terms_of_week = terms(&["k", "--every", "7d", "--ttl", "1h", "--", "x"]);
        assert_eq!((terms_of_week.ttl.get(), terms_of_week.unknown_ttl.get()), (week, week));
        let short = terms(&["k", "--every", "7d", "--unknown-ttl", "1h", "--", "x"]);
        assert_eq!(short.unknown_ttl.get(), Duration::from_hours(1));
        assert_eq!(terms(&["k", "--every", "1h", "--", "x"]).ttl.get(), Terms::TTL);
        assert_eq!((terms(&["k", "--", "x"]).ceiling, terms(&["k", "--", "x"]).wait), (None, None));
    }

    #[test]
    fn keys_that_cannot_be_used_are_refused() {
        assert!(plan(&["", "--", "x"]).is_err());
        assert!(plan(&["", "--every", "1d", "--", "x"]).is_err());
        assert!(plan(&[&"k".repeat(65_537), "--", "x"]).is_err());
        assert!(plan(&["{🐘}", "--", "x"]).is_ok());
        assert!(plan(&["k", "--", ""]).is_err());
    }
}
