//! What can be asked of a server.

use crate::{
    connect::Connector,
    line::Routed,
    lines::Request,
    script::{Eval, Form},
    step::Step,
    value,
};
use hapax_core::{Timestamp, idempotency::Reserve};
use redis::{Cmd, RedisError};

pub(crate) enum Ask<'a> {
    Eval(Eval<'a>),
    Reserve(ReserveAsk<'a>),
    /// A plain command, on a key.
    Plain(String, Cmd),
}

impl Ask<'_> {
    /// The key that it goes to.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Eval(eval) => eval.first_key().to_owned(),
            Self::Reserve(reserve) => reserve.key.clone(),
            Self::Plain(key, _) => key.clone(),
        }
    }
}

impl Request for Ask<'_> {
    fn routed(&self, to_cluster: bool) -> Routed {
        match self {
            Self::Eval(eval) => eval.routed(to_cluster),
            Self::Reserve(reserve) => reserve.routed(to_cluster),
            Self::Plain(key, cmd) => Routed::new(to_cluster, key, cmd.clone()),
        }
    }

    fn differently(&self, answer: &RedisError) -> bool {
        match self {
            Self::Eval(eval) => eval.differently(answer),
            Self::Reserve(reserve) => reserve.differently(answer),
            Self::Plain(..) => false,
        }
    }
}

impl Request for &Ask<'_> {
    fn routed(&self, to_cluster: bool) -> Routed {
        (**self).routed(to_cluster)
    }

    fn differently(&self, answer: &RedisError) -> bool {
        (**self).differently(answer)
    }
}

/// A reservation in one plain command, which costs a server less than a script: where nothing is under the key it is
/// set, else what is there is the answer. Before Redis 7 that command did not exist.
pub(crate) struct ReserveAsk<'a> {
    pub(crate) req: &'a Reserve,
    key: String,
    pub(crate) first_at: Timestamp,
    pub(crate) until: Timestamp,
    form: Form<'a>,
}

impl<'a> ReserveAsk<'a> {
    pub(crate) fn new(req: &'a Reserve, connector: &'a Connector) -> Self {
        let first_at = Timestamp::from_millis(connector.clock.millis());
        let (key, until) = (connector.keys.record(&req.name), first_at.after(req.lease.get()));
        Self { req, key, first_at, until, form: Form::new(&connector.only_6_2) }
    }
}

impl Request for ReserveAsk<'_> {
    fn routed(&self, to_cluster: bool) -> Routed {
        let req = self.req;
        if self.form.is_plain() {
            let mut cmd = self.form.command(req.script());
            cmd.arg(1).arg(&self.key);
            req.args(&mut cmd);
            return Routed::new(to_cluster, &self.key, cmd);
        }
        let value = value::reservation(&req.token, &req.fingerprint, self.first_at, self.until);
        let mut cmd = Cmd::with_capacity(7, self.key.len() + value.len() + 40);
        cmd.arg("SET").arg(&self.key).arg(value).arg("NX").arg("GET").arg("PX").arg(req.lease.as_millis());
        Routed::new(to_cluster, &self.key, cmd)
    }

    fn differently(&self, answer: &RedisError) -> bool {
        if answer.detail().is_some_and(|detail| detail.contains("syntax error")) {
            return self.form.is_old();
        }
        self.form.differently(answer)
    }
}
