//! A reservation in one plain command, which costs a server less than a script: where nothing is under the key it is
//! set, else what is there is the answer. Before Redis 7 that command did not exist.

use crate::{
    ask::Ask,
    connect::Connector,
    error::Failure,
    gather::{self, Gather, Parcel},
    line::Routed,
    lines::{Berth, Lines, Request},
    script::{self, Form},
    step::Step,
    store::{self, RedisStore},
    value,
};
use hapax_core::{
    Fingerprint, Span, Timestamp, Token,
    idempotency::{Entry, Record, Reserve, Reserved},
};
use redis::{Cmd, RedisError, Value};

/// What one plain command told.
pub(crate) enum Told {
    Answer(Reserved),
    /// Only a script can tell: a late result lies there, or the caller's own token.
    AskAgain,
}

/// What is asked for: owned, because it may leave with those of others.
#[derive(Debug)]
pub(crate) struct Wanted {
    key: String,
    token: Token,
    fingerprint: Fingerprint,
    lease: Span,
    pub(crate) times: Times,
}

/// When a reservation begins and ends, where it is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    first_at: Timestamp,
    until: Timestamp,
}

impl Wanted {
    fn new(req: &Reserve, connector: &Connector) -> Self {
        let first_at = Timestamp::from_millis(connector.clock.millis());
        Self {
            key: connector.keys.record(&req.name),
            token: req.token,
            fingerprint: req.fingerprint,
            lease: req.lease,
            times: Times { first_at, until: first_at.after(req.lease.get()) },
        }
    }
}

impl Parcel for Wanted {
    type Kind = ();
    const PARTS: usize = 3;

    fn gather(berth: &Berth) -> &Gather<Self> {
        &berth.reserves
    }

    async fn leave(lines: &Lines, (): (), wanted: Vec<Self>) -> Vec<Result<Value, Failure>> {
        let only_6_2 = &lines.connector.only_6_2;
        let ask = |wanted| Ask::Reserve(ReserveAsk { wanted, form: Form::new(only_6_2) });
        let asks: Vec<_> = wanted.into_iter().map(ask).collect();
        store::ask(lines, &asks, Reserve::RESEND, Reserve::KEPT).await
    }

    async fn leave_alone(lines: &Lines, (): (), wanted: Self) -> Result<Value, Failure> {
        let ask = Ask::Reserve(ReserveAsk { wanted, form: Form::new(&lines.connector.only_6_2) });
        store::ask_one(lines, &ask, Reserve::RESEND, Reserve::KEPT).await
    }
}

/// The command.
pub(crate) struct ReserveAsk<'a> {
    wanted: Wanted,
    form: Form<'a>,
}

impl ReserveAsk<'_> {
    pub(crate) fn key(&self) -> &str {
        &self.wanted.key
    }
}

impl Request for ReserveAsk<'_> {
    fn routed(&self, to_cluster: bool) -> Routed {
        let Wanted { key, token, fingerprint, lease, times } = &self.wanted;
        if self.form.is_plain() {
            let mut cmd = self.form.command(&script::RESERVE, 4, key.len() + 64);
            cmd.arg(1).arg(key).arg(token.as_bytes()).arg(&value::print(fingerprint)).arg(lease.as_millis());
            return Routed::new(to_cluster, key, cmd);
        }
        let value = value::reservation(token, fingerprint, times.first_at, times.until);
        let mut cmd = Cmd::with_capacity(7, key.len() + value.len() + 40);
        cmd.arg("SET").arg(key).arg(&value[..]).arg("NX").arg("GET").arg("PX").arg(lease.as_millis());
        Routed::new(to_cluster, key, cmd)
    }

    fn differently(&self, answer: &RedisError) -> bool {
        if answer.detail().is_some_and(|detail| detail.contains("syntax error")) {
            return self.form.is_old();
        }
        self.form.differently(answer)
    }
}

impl RedisStore {
    /// Reserves without a script, as far as that tells; with other callers who are ready too.
    pub(crate) async fn reserve_one(&self, req: &Reserve) -> Result<Told, Failure> {
        let berth = self.lines.berth()?;
        let (others, _under_way) = berth.traffic.enter();
        let wanted = Wanted::new(req, self.connector());
        let times = wanted.times;
        let reply = if others && !self.connector().is_cluster() {
            gather::together(&self.lines, &berth, (), wanted).await?
        } else {
            // Apart, so that the future of the others stays small.
            Box::pin(Wanted::leave_alone(&self.lines, (), wanted)).await?
        };
        self.told(req, times, reply)
    }

    /// Reserves a batch without a script, as far as that tells.
    pub(crate) async fn reserve_plainly(&self, reqs: &[Reserve]) -> Vec<Result<Told, Failure>> {
        let wanted: Vec<_> = reqs.iter().map(|req| Wanted::new(req, self.connector())).collect();
        let times: Vec<_> = wanted.iter().map(|wanted| wanted.times).collect();
        let replies = Wanted::leave(&self.lines, (), wanted).await;
        let told = reqs.iter().zip(times).zip(replies);
        told.map(|((req, times), reply)| self.told(req, times, reply?)).collect()
    }

    fn told(&self, req: &Reserve, times: Times, reply: Value) -> Result<Told, Failure> {
        let place = &self.connector().place;
        let entry = match reply {
            Value::Nil => {
                return Ok(Told::Answer(Reserved::Yours { first_at: times.first_at, until: times.until }));
            }
            Value::BulkString(bytes) => value::decode(bytes),
            // A script's.
            Value::Array(mut answers) => {
                let answer = answers.pop().ok_or_else(|| Failure::nonsense(place))?;
                return self.read(req, answer).map(Told::Answer);
            }
            _ => return Err(Failure::nonsense(place)),
        };
        match &entry {
            Entry::Pending(pending) if pending.late.is_some() || pending.token == req.token => {
                Ok(Told::AskAgain)
            }
            _ => {
                let now = value::moment(self.connector().clock.millis());
                Ok(Told::Answer(Reserved::Held(Record::of(&entry, &now))))
            }
        }
    }
}
