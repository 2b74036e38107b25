//! The steps of limits: which script, with what, and what its answer means.

use super::script;
use crate::{answer::Answer as Said, clock::ServerClock, keys::Keys, script::Script, step::Step};
use hapax_core::{
    Namespace,
    limit::{
        Algorithm, Answer, Check, LimitKey, State,
        machine::{self, FixedWindow, Kept, TokenBucket, Verdict},
    },
};
use redis::Cmd;

/// The version of what is kept of a limit. Another form has other keys: both count for themselves meanwhile.
const VERSION: char = '1';
/// So many bytes a limit has in an answer.
const SAID: usize = 33;

fn letter(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::FixedWindow => b'f',
        Algorithm::SlidingWindow => b'w',
        Algorithm::SlidingCounter => b'c',
        Algorithm::TokenBucket => b'b',
    }
}

/// A limit has a key for each algorithm, and its shadows have theirs.
fn own(mut base: String, algorithm: Algorithm, shadow: bool) -> String {
    base.push(letter(algorithm).into());
    base.push(VERSION);
    if shadow {
        base.push('s');
    }
    base
}

/// All that may be kept under the name of a limit.
pub(super) fn all_keys(keys: &Keys, namespace: &Namespace, key: &LimitKey) -> Vec<String> {
    let base = keys.limit(namespace, key);
    let both = |algorithm| [false, true].map(|shadow| own(base.clone(), algorithm, shadow));
    Algorithm::ALL.into_iter().flat_map(both).collect()
}

fn key(keys: &Keys, namespace: &Namespace, check: &Check) -> String {
    own(keys.limit(namespace, &check.key), check.quota.algorithm(), check.shadow)
}

/// What the steps are about: the limits of one decision, which lie together.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) checks: &'a [Check],
}

impl Limits<'_> {
    fn key(&self, keys: &Keys) -> String {
        self.checks.first().map(|check| key(keys, self.namespace, check)).unwrap_or_default()
    }

    fn more_keys(&self, keys: &Keys) -> Vec<String> {
        self.checks.iter().skip(1).map(|check| key(keys, self.namespace, check)).collect()
    }

    /// The mode is that of a [`Sight`], or 0 to count.
    fn args(&self, mode: u8, args: &mut Cmd) {
        let mut text = Vec::with_capacity(1 + 17 * self.checks.len());
        text.push(mode);
        for Check { quota, cost, shadow, .. } in self.checks {
            let letter = letter(quota.algorithm());
            text.push(if *shadow { letter.to_ascii_uppercase() } else { letter });
            text.extend(quota.limit().to_be_bytes());
            text.extend(quota.window_ms().to_be_bytes());
            text.extend(cost.to_be_bytes());
        }
        args.arg(text);
    }
}

/// Counts a request where all limits let it pass.
pub(super) struct Count<'a>(pub(super) Limits<'a>);

impl Step for Count<'_> {
    type Answer = Vec<Answer>;
    const OP: &'static str = "check a limit";
    // It would be counted twice.
    const RESEND: bool = false;

    fn script(&self) -> &'static Script {
        &script::DECIDE
    }
    fn key(&self, keys: &Keys) -> String {
        self.0.key(keys)
    }
    fn more_keys(&self, keys: &Keys) -> Vec<String> {
        self.0.more_keys(keys)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        self.0.args(0, args);
    }
    fn read(&self, said: Said) -> Option<Vec<Answer>> {
        answers(&said, self.0.checks)
    }
}

/// What a look is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    /// What would be answered: what is left is said as if the request had been counted.
    DryRun = 1,
    /// What is left as it is.
    AsItIs = 2,
    /// The same before a request is counted: a state is moved to a clock that was set back, as by one that is refused.
    InEarnest = 3,
}

/// What the limits would say; nothing is counted.
pub(super) struct Look<'a>(pub(super) Limits<'a>, pub(super) Sight);

impl Step for Look<'_> {
    type Answer = Vec<Answer>;
    const OP: &'static str = "look at a limit";

    fn script(&self) -> &'static Script {
        if self.1 == Sight::InEarnest { &script::DECIDE } else { &script::LOOK }
    }
    fn key(&self, keys: &Keys) -> String {
        self.0.key(keys)
    }
    fn more_keys(&self, keys: &Keys) -> Vec<String> {
        self.0.more_keys(keys)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        self.0.args(self.1 as u8, args);
    }
    fn read(&self, said: Said) -> Option<Vec<Answer>> {
        answers(&said, self.0.checks)
    }
}

fn answers(said: &Said, checks: &[Check]) -> Option<Vec<Answer>> {
    if let ([check], true) = (checks, said.word.is_empty()) {
        return usual(said, check).map(|answer| vec![answer]);
    }
    let bytes = said.bytes(0).filter(|_| said.word == b"decided")?;
    if bytes.len() != SAID * checks.len() {
        return None;
    }
    bytes.chunks_exact(SAID).zip(checks).map(|(part, check)| answer(part, check)).collect()
}

/// What the limit says after it has counted the request. The script tells what it keeps, and the rules are asked here: at a
/// time that is counted from the state itself.
fn usual(said: &Said, check: &Check) -> Option<Answer> {
    let (quota, number) = (check.quota, u64::try_from(said.number).ok()?);
    let (state, now) = match quota.algorithm() {
        Algorithm::FixedWindow => {
            let now = quota.window_ms().checked_sub(said.count(0)?)?;
            (State::FixedWindow(FixedWindow { start: 0, count: number }), now)
        }
        Algorithm::TokenBucket => (State::TokenBucket(TokenBucket { at: 0, credits: number }), 0),
        Algorithm::SlidingWindow | Algorithm::SlidingCounter => return None,
    };
    Some(machine::answer(&Some(Kept { quota, state }), check, Verdict::Allowed, now))
}

fn answer(part: &[u8], check: &Check) -> Option<Answer> {
    let (says, numbers) = part.split_first()?;
    let mut numbers = numbers.chunks_exact(8).map(|eight| eight.try_into().map(u64::from_be_bytes));
    let mut next = || numbers.next()?.ok();
    let limit = check.quota.limit();
    Some(Answer {
        allowed: *says == 0,
        never: *says == 2,
        limit,
        cost: check.cost,
        remaining: u32::try_from(next()?).unwrap_or(limit),
        retry_after_ms: next()?,
        reset_after_ms: next()?,
        next_after_ms: next()?,
    })
}

/// Gives back what was counted.
pub(super) struct Refund<'a>(pub(super) Limits<'a>);

impl Step for Refund<'_> {
    type Answer = ();
    const OP: &'static str = "give a request back to a limit";
    const RESEND: bool = false;

    fn script(&self) -> &'static Script {
        &script::GIVE_BACK
    }
    fn key(&self, keys: &Keys) -> String {
        self.0.key(keys)
    }
    fn more_keys(&self, keys: &Keys) -> Vec<String> {
        self.0.more_keys(keys)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        self.0.args(0, args);
    }
    fn read(&self, said: Said) -> Option<()> {
        (said.word == b"given").then_some(())
    }
}
