//! One message over one connection.

mod message;
mod open;

use super::{
    connection::{Connection, State},
    failure::{Trouble, at, out_of_turn, refused, size},
    reply::Reply,
    stage::Stage,
};
use crate::{Failure, FailureScope, MailCategory, SendContext};
use bytes::Bytes;
use std::time::Duration;

/// A refusal that came before the connection broke is read within that.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A message and its envelope, ready for the wire.
#[derive(Debug)]
pub(super) struct Mail {
    /// `<…>`, as the address module makes it.
    pub(super) from: String,
    pub(super) to: Vec<String>,
    pub(super) utf8: bool,
    pub(super) bytes: Bytes,
}

/// How one transaction went.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) verdict: Verdict,
    /// Recipients by their number that the server took the message for.
    pub(super) accepted: Vec<usize>,
    /// Those that it refused, each for itself.
    pub(super) refused: Vec<(usize, Reply)>,
    /// Those for whom it asked to be asked again, with the next message.
    pub(super) put_off: Vec<(usize, Reply)>,
    /// What it said in the end.
    pub(super) response: Option<String>,
}

/// What became of the message.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Taken for those that are `accepted`.
    Taken,
    /// Certainly not delivered.
    Failed(Failure),
    /// It may have gone to recipients that are neither accepted nor refused.
    Unknown(Failure),
    /// Nothing was begun: the server had closed this connection, which was idle, already.
    Stale(Failure),
}

impl Ended {
    fn new(verdict: Verdict) -> Self {
        Self { verdict, accepted: Vec::new(), refused: Vec::new(), put_off: Vec::new(), response: None }
    }

    fn failed(trouble: impl Into<Trouble>) -> Self {
        let Trouble { failure, response } = trouble.into();
        Self { response, ..Self::new(Verdict::Failed(failure)) }
    }

    fn unknown(failure: Failure) -> Self {
        Self::new(Verdict::Unknown(failure))
    }
}

impl Connection {
    /// Sends the message to the recipients of these numbers.
    ///
    /// # Cancel safety
    /// Dropped at any moment, the connection is poisoned; whether the message may have gone says the context.
    pub(super) async fn transact(
        &mut self,
        mail: &Mail,
        to: &[usize],
        pipelining: bool,
        context: &SendContext,
    ) -> Ended {
        if let Err(failure) = self.preflight(mail) {
            return Ended::failed(failure);
        }
        let before = std::mem::replace(&mut self.state, State::Poisoned);
        let is_reused = self.used > 0;
        self.used = self.used.saturating_add(1);
        if before == State::NeedsReset
            && let Err(trouble) = self.agree(Stage::Mail, "RSET").await
        {
            return Ended::new(Verdict::Stale(trouble.failure));
        }
        let opened = match self.open(mail, to, pipelining, is_reused).await {
            Ok(opened) => opened,
            Err(ended) => return *ended,
        };
        let ended = match self.body(mail).await {
            Ok(last) => self.finish(mail, last, &opened.accepted, context).await,
            Err(trouble) => Ended::failed(trouble),
        };
        let mut refused = opened.refused;
        refused.extend(ended.refused);
        Ended { refused, put_off: opened.put_off, ..ended }
    }

    /// Compares what the server can do with what the message needs.
    fn preflight(&self, mail: &Mail) -> Result<(), Failure> {
        let known = &self.capabilities;
        let needed = |code, detail| {
            at(Stage::Preflight, MailCategory::Validation, code, detail).with_scope(FailureScope::Provider)
        };
        if mail.utf8 && !known.utf8 {
            return Err(needed(
                "smtp.utf8_required",
                "an address is not ASCII, and the server takes no others",
            ));
        }
        if !mail.bytes.is_ascii() && !known.eight_bit && !mail.utf8 {
            return Err(needed(
                "smtp.eight_bit_required",
                "the message is not ASCII, and the server takes nothing else",
            ));
        }
        let bytes = mail.bytes.len() as u64;
        match known.size {
            Some(most) if bytes > most => Err(size("the message is larger than the server takes")
                .with_stage(Stage::Preflight.as_str())
                .with_detail(format!("the message has {bytes} bytes, and the server takes {most}"))),
            _ => Ok(()),
        }
    }
}

/// Nobody is left to deliver to. One who may be taken later is worth another try.
fn all_refused(stage: Stage, refusals: &[(usize, Reply)]) -> Trouble {
    let passing = refusals.iter().find(|(_, reply)| reply.is_transient());
    match passing.or_else(|| refusals.first()) {
        Some((_, reply)) => refused(stage, reply),
        None => out_of_turn(stage).into(),
    }
}
