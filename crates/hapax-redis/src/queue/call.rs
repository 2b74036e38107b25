//! Calling the scripts of a queue.

use super::{
    Queues,
    keys::{Groups, Place, Prepared},
};
use crate::{
    error::Failure,
    line::Routed,
    lines::{Lines, Request},
    script::{Form, Script},
};
use hapax_core::{StoreErrorKind, Timestamp};
use redis::{Arg, Cmd, RedisError, Value};
use std::sync::Arc;

/// So often a script is told that the groups have changed since, before somebody must be changing them all the time.
const TRIES: usize = 16;

/// What a script is given behind the groups and their numbers.
#[derive(Default)]
pub(super) struct Args {
    cmd: Cmd,
    /// About how many bytes those are, and the keys.
    bytes: usize,
    pub(super) more_keys: Vec<String>,
}

impl Args {
    pub(super) fn new() -> Self {
        Self::with_capacity(16, 256)
    }

    /// With room for so many of so many bytes.
    pub(super) fn with_capacity(count: usize, bytes: usize) -> Self {
        Self { cmd: Cmd::with_capacity(count, bytes), bytes: bytes + 1024, more_keys: Vec::new() }
    }

    pub(super) fn arg(mut self, arg: impl redis::ToRedisArgs) -> Self {
        self.cmd.arg(arg);
        self
    }

    pub(super) fn push(&mut self, arg: impl redis::ToRedisArgs) {
        self.cmd.arg(arg);
    }
}

/// What to do, and how.
#[derive(Clone, Copy)]
pub(super) struct Op {
    pub(super) script: &'static Script,
    /// Whether it may be sent again when nobody knows what became of it.
    pub(super) resend: bool,
    /// Whether a failover must not forget it, where replicas are waited for.
    pub(super) kept: bool,
}

impl Op {
    pub(super) const fn new(script: &'static Script) -> Self {
        Self { script, resend: false, kept: false }
    }

    pub(super) const fn again(script: &'static Script) -> Self {
        Self { script, resend: true, kept: false }
    }

    pub(super) const fn kept(self) -> Self {
        Self { kept: true, ..self }
    }
}

enum Sent<'a> {
    Script {
        script: &'static Script,
        form: Form<'a>,
        keys: Arc<Prepared>,
        groups: Arc<Groups>,
        args: &'a Args,
    },
    Wait(String, Cmd),
}

impl Request for Sent<'_> {
    fn routed(&self, to_cluster: bool) -> Routed {
        match self {
            Self::Script { script, form, keys, groups, args } => {
                let (count, bytes) = (args.cmd.args_iter().len(), args.bytes);
                let mut cmd = form.command(script, keys.keys.len() + args.more_keys.len() + count + 3, bytes);
                cmd.arg(keys.keys.len() + args.more_keys.len()).arg(&keys.keys).arg(&args.more_keys);
                cmd.arg(&groups.text).arg(&keys.numbers);
                for arg in args.cmd.args_iter() {
                    if let Arg::Simple(bytes) = arg {
                        cmd.arg(bytes);
                    }
                }
                Routed::new(to_cluster, keys.keys.first().map_or("", String::as_str), cmd)
            }
            Self::Wait(key, cmd) => Routed::new(to_cluster, key, cmd.clone()),
        }
    }

    fn differently(&self, answer: &RedisError) -> bool {
        match self {
            Self::Script { form, .. } => form.differently(answer),
            Self::Wait(..) => false,
        }
    }
}

/// What a script said behind its first word.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) now: Timestamp,
    rest: std::vec::IntoIter<Value>,
}

impl Said {
    pub(super) fn next(&mut self) -> Option<Value> {
        self.rest.next()
    }

    pub(super) fn number(&mut self) -> Option<i64> {
        number(&self.next()?)
    }

    pub(super) fn count(&mut self) -> Option<u64> {
        self.number().and_then(|n| u64::try_from(n).ok())
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        bytes(self.next()?)
    }

    pub(super) fn list(&mut self) -> Option<Vec<Value>> {
        list(self.next()?)
    }
}

pub(super) fn number(value: &Value) -> Option<i64> {
    redis::from_redis_value_ref(value).ok()
}

pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::Nil => Some(Vec::new()),
        _ => None,
    }
}

pub(super) fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(list) => Some(list),
        _ => None,
    }
}

impl Queues {
    /// Calls a script with keys and arguments that are made for the groups that are known; once more where those have
    /// changed. `None`: for those groups there is nothing to call.
    pub(super) async fn call(
        &self,
        place: &Place,
        op: Op,
        make: impl Fn(&Groups) -> Option<(Arc<Prepared>, Args)>,
    ) -> Result<Option<Said>, Failure> {
        for _ in 0..TRIES {
            let groups = place.groups();
            let Some((keys, args)) = make(&groups) else {
                return Ok(None);
            };
            match self.say(self.sent(op, keys, groups, &args).await?)? {
                Heard::Said(said) => return Ok(Some(said)),
                Heard::Groups(text) => place.set_groups(text),
            }
        }
        let reason = format!("the groups of `{}` change all the time", place.id.name);
        Err(Failure::new(StoreErrorKind::Unavailable, reason))
    }

    /// [`call`](Self::call) on all groups of a queue that is there.
    pub(super) async fn on_all(
        &self,
        place: &Place,
        op: Op,
        args: impl Fn() -> Args,
    ) -> Result<Option<Said>, Failure> {
        self.know(place).await?;
        let is_there = |groups: &Groups| groups.is_there().then(|| groups.all()).flatten();
        self.call(place, op, |groups| Some((is_there(groups)?, args()))).await
    }

    /// Asks which groups a queue has, where nothing is known of it.
    pub(super) async fn know(&self, place: &Place) -> Result<(), Failure> {
        if place.groups().is_there() {
            return Ok(());
        }
        self.refresh(place).await
    }

    /// Asks which groups a queue has.
    pub(super) async fn refresh(&self, place: &Place) -> Result<(), Failure> {
        let key = place.keys(&[]).keys.first().cloned().unwrap_or_default();
        let mut get = redis::cmd("HGET");
        get.arg(&key).arg("g");
        let reply = self.lines().call_one(&crate::ask::Ask::Plain(key, get), true).await?;
        let text = bytes(reply).and_then(|text| String::from_utf8(text).ok());
        let text = text.ok_or_else(|| self.nonsense())?;
        if place.groups().text != text {
            place.set_groups(text);
        }
        Ok(())
    }

    async fn sent(
        &self,
        op: Op,
        keys: Arc<Prepared>,
        groups: Arc<Groups>,
        args: &Args,
    ) -> Result<Value, Failure> {
        let lines = self.lines();
        let connector = &lines.connector;
        let wait_key = keys.keys.first().cloned();
        let form = Form::new(&connector.only_6_2);
        let script = Sent::Script { script: op.script, form, keys, groups, args };
        let wanted = if op.kept { connector.options.wait_replicas } else { 0 };
        if wanted == 0 {
            return lines.call_one(&script, op.resend).await;
        }
        let ms = u64::try_from(lines.limit().as_millis() / 2).unwrap_or(u64::MAX).max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted).arg(ms);
        let both = [script, Sent::Wait(wait_key.unwrap_or_default(), wait)];
        let mut answers = lines.call_and_wait(&both, 1, op.resend).await.into_iter();
        let mut next = || answers.next().unwrap_or_else(|| Err(self.nonsense()));
        let (answer, reached) = (next()?, next());
        if matches!(reached, Ok(Value::Int(n)) if n >= i64::from(wanted)) {
            return Ok(answer);
        }
        let reason = format!("fewer than {wanted} replicas of {} have it", connector.place);
        Err(Failure::new(StoreErrorKind::Unavailable, reason).maybe_applied())
    }

    fn say(&self, value: Value) -> Result<Heard, Failure> {
        let heard = || {
            let mut parts = list(value)?.into_iter();
            let word = bytes(parts.next()?)?;
            let now = number(&parts.next()?)?;
            self.lines().connector.clock.shows(now);
            if word == b"groups" {
                return String::from_utf8(bytes(parts.next()?)?).ok().map(Heard::Groups);
            }
            Some(Heard::Said(Said { now: Timestamp::from_millis(now), rest: parts }))
        };
        heard().ok_or_else(|| self.nonsense())
    }

    pub(super) fn lines(&self) -> &Arc<Lines> {
        &self.store.lines
    }

    pub(super) fn nonsense(&self) -> Failure {
        Failure::nonsense(&self.lines().connector.place)
    }
}

enum Heard {
    Said(Said),
    /// Other groups than the caller thought.
    Groups(String),
}
