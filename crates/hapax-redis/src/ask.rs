//! What can be asked of a server.

use crate::{line::Routed, lines::Request, reserve::ReserveAsk, script::Eval};
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
            Self::Reserve(reserve) => reserve.key().to_owned(),
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
