//! The message itself, its dot, and what the server says to it.

use super::{Ended, LAST_WORDS, Mail, Verdict, all_refused};
use crate::{
    Failure, SendContext,
    smtp::{
        body::{blocks, stuffed},
        connection::{Connection, State},
        failure::{
            Trouble, dot_lost, garbled, late, lost, out_of_turn, refused, relayed, reply_late, reply_lost,
        },
        reply::Reply,
        stage::Stage,
        wire::{Broken, Written},
    },
};
use std::time::Duration;

/// A message up to that size leaves in one write with its dot: the replies before it say that nothing is under way, so that
/// it fits into what the system sends at once.
const SMALL: usize = 16 * 1024;

impl Connection {
    /// The message, up to what leaves together with the dot, which is what this answers.
    pub(super) async fn body(&mut self, mail: &Mail) -> Result<Vec<u8>, Trouble> {
        let mut last = Vec::new();
        if mail.bytes.len() <= SMALL {
            last.reserve(mail.bytes.len() + 64);
            stuffed(&mail.bytes).for_each(|part| last.extend_from_slice(part));
        } else {
            for block in blocks(&mail.bytes) {
                let limit = self.times.of(Stage::Body, 0);
                match self.timer.within(limit, self.wire.write_watching(&block)).await {
                    Ok(Written::All) => {}
                    Ok(Written::Interrupted) => return Err(self.early(limit, None).await),
                    Ok(Written::Failed(error)) => {
                        return Err(self.early(LAST_WORDS, Some(Broken::Io(error))).await);
                    }
                    Err(_) => return Err(late(Stage::Body).into()),
                }
            }
        }
        if self.wire.is_quiet() { Ok(last) } else { Err(self.early(LAST_WORDS, None).await) }
    }

    /// The server answered before it had the message, or broke off. Without the dot it must not deliver.
    async fn early(&mut self, limit: Duration, write: Option<Broken>) -> Trouble {
        match self.timer.within(limit, self.wire.reply()).await {
            Ok(Ok(reply)) if reply.is_refusal() => refused(Stage::Body, &reply),
            Ok(Ok(_)) => out_of_turn(Stage::Body).into(),
            Ok(Err(broken)) => lost(Stage::Body, write.as_ref().unwrap_or(&broken)).into(),
            Err(_) => write.map_or_else(|| late(Stage::Body), |broken| lost(Stage::Body, &broken)).into(),
        }
    }

    /// What is left of the message and the dot, in one write, and what the server says to it.
    pub(super) async fn finish(
        &mut self,
        mail: &Mail,
        mut last: Vec<u8>,
        to: &[usize],
        context: &SendContext,
    ) -> Ended {
        let limit = self.times.of(Stage::Reply, mail.bytes.len());
        let before_the_dot = last.len();
        last.extend_from_slice(b".\r\n");
        // From here on the message may be delivered.
        context.commit();
        let write_limit = if before_the_dot == 0 { limit } else { self.times.of(Stage::Body, 0) };
        let written = self.timer.within(write_limit, self.wire.write(&last)).await;
        // Who watches the flag has to take the message for gone. Here it is known how much was taken of it.
        let is_kept = before_the_dot > 0 && self.wire.taken() <= before_the_dot;
        let mut first = match written {
            Ok(Ok(())) => None,
            // A write that fails has taken nothing; of TLS that cannot be said.
            Ok(Err(error)) if is_kept && !self.encrypted => {
                return Ended::failed(self.early(LAST_WORDS, Some(Broken::Io(error))).await);
            }
            // A refusal that was on its way already is an answer.
            Ok(Err(_)) => match self.timer.within(LAST_WORDS, self.wire.reply()).await {
                Ok(Ok(reply)) => Some(reply),
                _ => return Ended::unknown(dot_lost()),
            },
            Err(_) if is_kept => return Ended::failed(late(Stage::Body)),
            Err(_) => return Ended::unknown(reply_late(Stage::Dot)),
        };
        if !self.lmtp {
            let reply = match first {
                Some(reply) => Ok(reply),
                None => self.last_reply(limit).await,
            };
            return self.settle(to, reply);
        }
        let mut ended = Ended::new(Verdict::Taken);
        for number in to {
            let reply = match first.take() {
                Some(reply) => Ok(reply),
                None => self.last_reply(limit).await,
            };
            match reply {
                Ok(reply) if reply.is_positive() => {
                    ended.accepted.push(*number);
                    ended.response = Some(reply.text());
                }
                Ok(reply) if reply.is_closing() => {
                    ended.refused.push((*number, reply));
                    return ended.cut_short(to);
                }
                Ok(reply) if reply.is_refusal() => ended.refused.push((*number, reply)),
                // Those that are left may have it.
                Ok(_) => return Ended { verdict: Verdict::Unknown(garbled()), ..ended },
                Err(failure) => return Ended { verdict: Verdict::Unknown(failure), ..ended },
            }
        }
        self.state = State::Clean;
        ended.by_recipient()
    }

    async fn last_reply(&mut self, limit: Duration) -> Result<Reply, Failure> {
        match self.timer.within(limit, self.wire.reply()).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(broken)) => Err(reply_lost(&broken)),
            Err(_) => Err(reply_late(Stage::Reply)),
        }
    }

    /// The one reply of SMTP, for all recipients.
    fn settle(&mut self, to: &[usize], reply: Result<Reply, Failure>) -> Ended {
        let reply = match reply {
            Ok(reply) => reply,
            Err(failure) => return Ended::unknown(failure),
        };
        let response = Some(reply.text());
        match reply.class() {
            2 => {
                self.state = State::Clean;
                Ended { accepted: to.to_vec(), response, ..Ended::new(Verdict::Taken) }
            }
            4 if self.relay_is_unknown && reply.enhanced().is_some_and(|enhanced| enhanced.subject == 4) => {
                Ended { response, ..Ended::unknown(relayed(&reply)) }
            }
            4 | 5 => {
                if !reply.is_closing() {
                    self.state = State::NeedsReset;
                }
                Ended::failed(refused(Stage::Reply, &reply))
            }
            _ => Ended { response, ..Ended::unknown(garbled()) },
        }
    }
}

impl Ended {
    /// The server said that it closes, to one recipient of LMTP: the others will hear nothing.
    fn cut_short(self, to: &[usize]) -> Self {
        if self.accepted.len() + self.refused.len() == to.len() {
            return self.by_recipient();
        }
        Self { verdict: Verdict::Unknown(reply_lost(&Broken::Ended)), ..self }
    }

    /// By what LMTP said of each.
    fn by_recipient(self) -> Self {
        if !self.accepted.is_empty() {
            return self;
        }
        let trouble = all_refused(Stage::Reply, &self.refused);
        Self { verdict: Verdict::Failed(trouble.failure), response: trouble.response, ..self }
    }
}
