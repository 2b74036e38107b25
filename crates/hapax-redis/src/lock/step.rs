//! The steps of locks: which script, with what, and what its answer means.

use super::script;
use crate::{answer::Answer, clock::ServerClock, keys::Keys, script::Script, step::Step};
use hapax_core::{
    Name, Span, Token,
    lock::{Acquire, Acquired, Extended, Fence, Grant, Holder, HolderInfo, LockInfo, Write},
};
use redis::Cmd;
use std::time::Duration;

fn fence(answer: &Answer, at: usize) -> Option<Fence> {
    Fence::new(answer.count(at)?).ok()
}

/// Last fence, and who holds the lock: from the place of the last fence on.
fn info(answer: &Answer) -> Option<LockInfo> {
    let held = || {
        let text = std::str::from_utf8(answer.bytes(1)?).ok()?;
        let (since, until) = (answer.instant(3)?, answer.instant(4)?);
        Some(HolderInfo { holder: Holder::new(text), fence: fence(answer, 2)?, since, until })
    };
    match answer.len() {
        0 => Some(LockInfo::default()),
        1 => Some(LockInfo { held: None, fence: Some(fence(answer, 0)?) }),
        _ => Some(LockInfo { held: Some(held()?), fence: Some(fence(answer, 0)?) }),
    }
}

impl Step for Acquire {
    type Answer = Acquired;
    const OP: &'static str = "acquire a lock";
    const KEPT: bool = true;

    fn script(&self) -> &'static Script {
        &script::ACQUIRE
    }
    fn key(&self, keys: &Keys) -> String {
        keys.lock(&self.name)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.token.as_bytes()).arg(self.lease.as_millis()).arg(self.holder.as_str());
    }
    fn read(&self, answer: Answer) -> Option<Acquired> {
        match answer.word.as_slice() {
            b"" => {
                let fence = Fence::new(u64::try_from(answer.number).ok()?).ok()?;
                Some(Acquired::Yours(Grant { fence, until: fence.as_time().after(self.lease.get()) }))
            }
            b"yours" => {
                let (fence, until) = (fence(&answer, 0)?, answer.instant(1)?);
                Some(Acquired::Yours(Grant { fence, until }))
            }
            b"busy" => Some(Acquired::Busy { rest: Duration::from_millis(answer.count(0)?) }),
            _ => None,
        }
    }
}

pub(super) struct Extend<'a>(pub(super) &'a Name, pub(super) &'a Token, pub(super) Span);

impl Step for Extend<'_> {
    type Answer = Extended;
    const OP: &'static str = "extend a lock";
    // The holder counts on what it was answered, whoever is the primary.
    const KEPT: bool = true;

    fn script(&self) -> &'static Script {
        &script::EXTEND
    }
    fn key(&self, keys: &Keys) -> String {
        keys.lock(self.0)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.1.as_bytes()).arg(self.2.as_millis());
    }
    fn read(&self, answer: Answer) -> Option<Extended> {
        match answer.word.as_slice() {
            b"until" => answer.instant(0).map(Extended::Until),
            b"fenced" => Some(Extended::Fenced),
            _ => None,
        }
    }
}

pub(super) struct Release<'a>(pub(super) &'a Name, pub(super) &'a Token);

impl Step for Release<'_> {
    type Answer = Write;
    const OP: &'static str = "release a lock";

    fn script(&self) -> &'static Script {
        &script::RELEASE
    }
    fn key(&self, keys: &Keys) -> String {
        keys.lock(self.0)
    }
    fn more_keys(&self, keys: &Keys) -> Vec<String> {
        vec![keys.lock_mark(self.0)]
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.1.as_bytes());
    }
    fn read(&self, answer: Answer) -> Option<Write> {
        match answer.word.as_slice() {
            b"" | b"applied" => Some(Write::Applied),
            b"fenced" => Some(Write::Fenced),
            _ => None,
        }
    }
}

pub(super) struct Show<'a>(pub(super) &'a Name);

impl Step for Show<'_> {
    type Answer = LockInfo;
    const OP: &'static str = "look at a lock";

    fn script(&self) -> &'static Script {
        &script::SHOW
    }
    fn key(&self, keys: &Keys) -> String {
        keys.lock(self.0)
    }
    fn args(&self, _: &mut Cmd, _: &ServerClock) {}
    fn read(&self, answer: Answer) -> Option<LockInfo> {
        if answer.word == b"shown" { info(&answer) } else { None }
    }
}

pub(super) struct Break<'a>(pub(super) &'a Name);

impl Step for Break<'_> {
    type Answer = Option<HolderInfo>;
    const OP: &'static str = "break a lock";
    // Sent again, it would take the lock from the next holder, too.
    const RESEND: bool = false;

    fn script(&self) -> &'static Script {
        &script::BREAK
    }
    fn key(&self, keys: &Keys) -> String {
        keys.lock(self.0)
    }
    fn more_keys(&self, keys: &Keys) -> Vec<String> {
        vec![keys.lock_mark(self.0)]
    }
    fn args(&self, _: &mut Cmd, _: &ServerClock) {}
    fn read(&self, answer: Answer) -> Option<Option<HolderInfo>> {
        if answer.word == b"broken" { info(&answer).map(|info| info.held) } else { None }
    }
}

pub(super) struct Seed<'a>(pub(super) &'a Name, pub(super) Fence);

impl Step for Seed<'_> {
    type Answer = Fence;
    const OP: &'static str = "seed a fence";
    const KEPT: bool = true;

    fn script(&self) -> &'static Script {
        &script::SEED
    }
    fn key(&self, keys: &Keys) -> String {
        keys.lock(self.0)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.1.get());
    }
    fn read(&self, answer: Answer) -> Option<Fence> {
        if answer.word == b"fence" { fence(&answer, 0) } else { None }
    }
}

/// Tells the holder that somebody waits for so long; answers the rest of its lease.
pub(super) struct Want<'a>(pub(super) &'a Name, pub(super) Duration);

impl Step for Want<'_> {
    type Answer = Duration;
    const OP: &'static str = "wait for a lock";

    fn script(&self) -> &'static Script {
        &script::WANT
    }
    fn key(&self, keys: &Keys) -> String {
        keys.lock(self.0)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(u64::try_from(self.1.as_millis()).unwrap_or(u64::MAX));
    }
    fn read(&self, answer: Answer) -> Option<Duration> {
        if answer.word == b"rest" { answer.count(0).map(Duration::from_millis) } else { None }
    }
}
