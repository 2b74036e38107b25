//! The store: steps go out, answers come back.

use crate::{
    answer::Answer,
    ask::Ask,
    clock::ServerClock,
    connect::{Connector, SharedConnector},
    error::{BACKEND, Failure},
    gather::{self, Gather, Parcel},
    keys::Keys,
    lines::{Berth, Lines},
    options::RedisOptions,
    script::{Eval, Script},
    step::{Outgoing, Step},
    tokens::Tokens,
};
use hapax_core::{Clock, StoreError, StoreErrorKind, StoreResult};
use redis::Value;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// So many steps go into one script call.
const MOST_STEPS: usize = 128;
/// So many bytes of receipts.
const MOST_BYTES: usize = 256 * 1024;
/// What a step has beside its receipt, about.
pub(crate) const AROUND: usize = 128;
/// A larger receipt goes alone: small ones need not wait for it.
const LARGE: usize = 16 * 1024;

/// Idempotency keys on Redis. See the [crate](crate) for what it promises.
///
/// Its methods are called from within a tokio runtime whose I/O and timers are enabled, of either kind; each runtime
/// has its own connection. From outside of one they answer an error.
pub struct RedisStore {
    pub(crate) lines: Arc<Lines>,
    pub(crate) secret: OnceLock<[u8; 32]>,
    pub(crate) tokens: Tokens,
}

impl RedisStore {
    /// Connects, and checks that the server can be worked with.
    pub async fn connect(options: RedisOptions) -> StoreResult<Self> {
        let connector: SharedConnector = Arc::new(Connector::new(options)?);
        let lines = Lines::new(connector);
        lines.open().await.map_err(|failure| failure.error("connect"))?;
        Ok(Self { lines: Arc::new(lines), secret: OnceLock::new(), tokens: Tokens::default() })
    }

    /// What the server's clock shows, for callers who compare the instants of records with now. In a Cluster it is that
    /// of the node that answered last.
    pub fn clock(&self) -> Arc<dyn Clock> {
        let clock: Arc<ServerClock> = Arc::clone(&self.connector().clock);
        clock
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.lines.connector
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.connector().keys
    }

    /// Takes one step; with those of other callers that are ready too.
    pub(crate) async fn take<S: Step>(&self, step: &S) -> StoreResult<S::Answer> {
        if let Some(refusal) = self.refusal(step) {
            return Err(refusal);
        }
        let answer = self.sent(step).await.and_then(|value| self.read(step, value));
        answer.map_err(|failure| failure.error(S::OP))
    }

    async fn sent<S: Step>(&self, step: &S) -> Result<Value, Failure> {
        let (group, outgoing) = (group(step), Outgoing::of(step, self.connector()));
        let berth = self.lines.berth()?;
        let (others, _under_way) = berth.traffic.enter();
        if others && outgoing.size <= LARGE && !self.connector().is_cluster() {
            return gather::together(&self.lines, &berth, group, outgoing).await;
        }
        // Apart, so that the future of the others stays small.
        Box::pin(Outgoing::leave_alone(&self.lines, group, outgoing)).await
    }

    /// Takes steps in one round trip. Those on one key are taken in their order.
    pub(crate) async fn take_many<S: Step>(&self, steps: &[S]) -> Vec<StoreResult<S::Answer>> {
        let refused: Vec<_> = steps.iter().map(|step| self.refusal(step)).collect();
        let open = steps.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let outgoing: Vec<_> = open.map(|(step, _)| Outgoing::of(step, self.connector())).collect();
        let Some(first) = steps.first() else { return Vec::new() };
        let mut replies = Outgoing::leave(&self.lines, group(first), outgoing).await.into_iter();
        let answers = steps.iter().zip(refused).map(|(step, refused)| match refused {
            Some(refusal) => Err(refusal),
            None => {
                let reply = replies.next().unwrap_or_else(|| Err(Failure::nonsense(&self.connector().place)));
                reply.and_then(|value| self.read(step, value)).map_err(|failure| failure.error(S::OP))
            }
        });
        answers.collect()
    }

    /// What is wrong with a step before it is sent.
    fn refusal<S: Step>(&self, step: &S) -> Option<StoreError> {
        let most = self.connector().options.max_receipt;
        let receipt = step.receipt()?;
        let reason = match receipt.bytes.len() {
            bytes if bytes > most => {
                format!(
                    "the receipt has {bytes} bytes, and {most} are the most: `?max_receipt=` in the URL raises that"
                )
            }
            _ if receipt.codec.len() > usize::from(u16::MAX) => {
                "the name of the receipt's codec is too long".into()
            }
            _ => return None,
        };
        Some(StoreError::new(StoreErrorKind::Unsupported, BACKEND, S::OP, reason))
    }

    pub(crate) fn read<S: Step>(&self, step: &S, value: Value) -> Result<S::Answer, Failure> {
        let place = &self.connector().place;
        let answer = match Answer::read(value) {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => return Err(Failure::of_reply(place, error.into())),
            None => return Err(Failure::nonsense(place)),
        };
        if let Some(now) = answer.now {
            self.connector().clock.shows(now);
        }
        step.read(answer).ok_or_else(|| Failure::nonsense(place))
    }
}

fn group<S: Step>(step: &S) -> Group {
    Group { op: S::OP, script: step.script(), resend: S::RESEND, kept: S::KEPT }
}

/// What all steps of a group share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    op: &'static str,
    script: &'static Script,
    resend: bool,
    kept: bool,
}

impl PartialEq for Group {
    /// A step has its own name for what it does.
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && std::ptr::eq(self.script, other.script)
    }
}

impl Parcel for Outgoing {
    type Kind = Group;
    const PARTS: usize = 4;

    fn gather(berth: &Berth) -> &Gather<Self> {
        &berth.steps
    }

    async fn leave(lines: &Lines, group: Group, steps: Vec<Self>) -> Vec<Result<Value, Failure>> {
        let evals = evals(&lines.connector, group.script, steps);
        let counts: Vec<usize> = evals.iter().map(Eval::len).collect();
        let asks: Vec<_> = evals.into_iter().map(Ask::Eval).collect();
        let replies = ask(lines, &asks, group.resend, group.kept).await;
        replies.into_iter().zip(counts).flat_map(|(reply, count)| split(lines, reply, count)).collect()
    }

    async fn leave_alone(lines: &Lines, group: Group, step: Self) -> Result<Value, Failure> {
        let mut eval = Eval::new(group.script, &lines.connector.only_6_2);
        eval.add(step.key, step.more_keys, step.args, step.size + AROUND);
        match ask_one(lines, &Ask::Eval(eval), group.resend, group.kept).await? {
            Value::Int(usual) => Ok(Value::Int(usual)),
            reply => only(lines, split(lines, Ok(reply), 1)),
        }
    }
}

/// Steps as script calls. In a cluster the keys of one script lie in one slot, so each goes alone.
fn evals<'a>(connector: &'a Connector, script: &'static Script, steps: Vec<Outgoing>) -> Vec<Eval<'a>> {
    let mut evals: Vec<Eval<'_>> = Vec::new();
    let (mut room, mut bytes) = (0, 0);
    for step in steps {
        if room == 0 || bytes + step.size > MOST_BYTES || step.size > LARGE {
            evals.push(Eval::new(script, &connector.only_6_2));
            room = if connector.is_cluster() || step.size > LARGE { 1 } else { MOST_STEPS };
            bytes = 0;
        }
        if let Some(eval) = evals.last_mut() {
            eval.add(step.key, step.more_keys, step.args, step.size + AROUND);
        }
        room -= 1;
        bytes += step.size;
    }
    evals
}

/// The answers for the keys of one script call.
fn split(lines: &Lines, reply: Result<Value, Failure>, count: usize) -> Vec<Result<Value, Failure>> {
    match reply {
        Ok(Value::Array(answers)) if answers.len() == count => answers.into_iter().map(Ok).collect(),
        // All of them alike.
        Ok(Value::Int(usual)) => vec![Ok(Value::Int(usual)); count],
        Ok(_) => vec![Err(Failure::nonsense(&lines.connector.place)); count],
        Err(failure) => vec![Err(failure); count],
    }
}

fn only(lines: &Lines, mut answers: Vec<Result<Value, Failure>>) -> Result<Value, Failure> {
    answers.pop().unwrap_or_else(|| Err(Failure::nonsense(&lines.connector.place)))
}

/// [`ask`] with one question, which is the usual.
pub(crate) async fn ask_one(
    lines: &Lines,
    lone: &Ask<'_>,
    resend: bool,
    kept: bool,
) -> Result<Value, Failure> {
    if kept && lines.connector.options.wait_replicas > 0 {
        // Apart, so that the usual call stays small.
        let answers = Box::pin(ask(lines, std::slice::from_ref(lone), resend, kept)).await;
        return only(lines, answers);
    }
    lines.call_one(lone, resend).await
}

/// Asks in one round trip; with `kept` also for replicas, where they are to be waited for.
pub(crate) async fn ask(
    lines: &Lines,
    asks: &[Ask<'_>],
    resend: bool,
    kept: bool,
) -> Vec<Result<Value, Failure>> {
    let connector = &lines.connector;
    let wanted = if kept { connector.options.wait_replicas } else { 0 };
    match (asks, wanted) {
        ([], _) => return Vec::new(),
        ([lone], 0) => return vec![lines.call_one(lone, resend).await],
        (_, 0) => return lines.call(asks, resend).await,
        _ => {}
    }
    let ms = u64::try_from(lines.limit().as_millis() / 2).unwrap_or(u64::MAX).max(1);
    let mut wait = redis::cmd("WAIT");
    wait.arg(wanted).arg(ms);
    let (count, waits) = (asks.len(), if connector.is_cluster() { asks.len() } else { 1 });
    let waits: Vec<_> = asks.iter().take(waits).map(|ask| Ask::Plain(ask.key(), wait.clone())).collect();
    let both: Vec<&Ask<'_>> = asks.iter().chain(&waits).collect();
    let mut answers = lines.call_and_wait(&both, waits.len(), resend).await;
    let reached = answers.split_off(count);
    if reached.into_iter().all(|reply| matches!(reply, Ok(Value::Int(n)) if n >= i64::from(wanted))) {
        return answers;
    }
    let reason = format!("fewer than {wanted} replicas of {} have it", connector.place);
    let failure = Failure::new(StoreErrorKind::Unavailable, reason).maybe_applied();
    answers.into_iter().map(|answer| answer.and(Err(failure.clone()))).collect()
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("options", &self.connector().options).finish_non_exhaustive()
    }
}
