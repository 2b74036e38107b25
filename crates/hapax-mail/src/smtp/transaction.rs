//! One message over one connection.

use super::{
    body::blocks,
    connection::{Connection, State},
    failure::{
        Trouble, at, dot_lost, garbled, is_too_many, late, lost, out_of_turn, refused, relayed, reply_late,
        reply_lost, size,
    },
    reply::Reply,
    stage::Stage,
    wire::{Broken, Written},
};
use crate::{Failure, FailureScope, MailCategory, SendContext};
use bytes::Bytes;
use std::{fmt::Write as _, time::Duration};
use tokio::time::timeout;

/// Commands that leave together; their replies fit into what both sides buffer.
const GROUP: usize = 100;
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

/// What the server said to MAIL, RCPT and DATA.
#[derive(Default)]
struct Opened {
    accepted: Vec<usize>,
    refused: Vec<(usize, Reply)>,
    put_off: Vec<(usize, Reply)>,
    data: Option<Reply>,
}

#[derive(Clone, Copy)]
enum Command {
    Mail,
    Rcpt(usize),
    Data,
}

impl Command {
    fn stage(self) -> Stage {
        match self {
            Self::Mail => Stage::Mail,
            Self::Rcpt(_) => Stage::Rcpt,
            Self::Data => Stage::Data,
        }
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
            Ok(()) => self.finish(mail, &opened.accepted, context).await,
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

    fn line(&self, mail: &Mail, command: Command) -> String {
        match command {
            Command::Mail => {
                let known = &self.capabilities;
                let mut line = format!("MAIL FROM:{}", mail.from);
                if known.says_size {
                    let _ = write!(line, " SIZE={}", mail.bytes.len());
                }
                if mail.utf8 {
                    line.push_str(" SMTPUTF8");
                }
                if known.eight_bit && !mail.bytes.is_ascii() {
                    line.push_str(" BODY=8BITMIME");
                }
                line + "\r\n"
            }
            Command::Rcpt(number) => {
                format!("RCPT TO:{}\r\n", mail.to.get(number).map_or("", String::as_str))
            }
            Command::Data => "DATA\r\n".to_owned(),
        }
    }

    /// MAIL, RCPT and DATA, up to 354.
    async fn open(
        &mut self,
        mail: &Mail,
        to: &[usize],
        pipelining: bool,
        is_reused: bool,
    ) -> Result<Opened, Box<Ended>> {
        let commands: Vec<Command> = std::iter::once(Command::Mail)
            .chain(to.iter().copied().map(Command::Rcpt))
            .chain([Command::Data])
            .collect();
        let together = if pipelining && self.capabilities.pipelining { GROUP } else { 1 };
        let mut opened = Opened::default();
        for group in commands.chunks(together) {
            if matches!(group, [Command::Data]) && opened.accepted.is_empty() {
                break;
            }
            let first = group.first().map_or(Stage::Mail, |command| command.stage());
            if let Err(failure) = self.say(mail, group, first).await {
                return Err(broken(failure, first, is_reused));
            }
            let mut no_sender = None;
            for command in group {
                let stage = command.stage();
                let reply = match (self.reply(stage).await, no_sender.take()) {
                    (Ok(reply), refusal) => {
                        no_sender = refusal;
                        reply
                    }
                    // What was said before counts.
                    (Err(_), Some(refusal)) => return Err(Box::new(Ended::failed(refusal))),
                    (Err(_), None)
                        if matches!(command, Command::Data)
                            && opened.accepted.is_empty()
                            && !opened.refused.is_empty() =>
                    {
                        let trouble = all_refused(Stage::Rcpt, &opened.refused);
                        return Err(Box::new(Ended { refused: opened.refused, ..Ended::failed(trouble) }));
                    }
                    (Err(failure), None) => return Err(broken(failure, stage, is_reused)),
                };
                if no_sender.is_some() {
                    if matches!(command, Command::Data) {
                        opened.data = Some(reply);
                    }
                    continue;
                }
                if reply.is_closing() {
                    let trouble = refused(stage, &reply);
                    return Err(if stage == Stage::Mail && is_reused {
                        Box::new(Ended::new(Verdict::Stale(trouble.failure)))
                    } else {
                        Box::new(Ended::failed(trouble))
                    });
                }
                match command {
                    Command::Mail if reply.is_positive() => {}
                    Command::Mail => no_sender = Some(refused(stage, &reply)),
                    Command::Rcpt(number) if reply.is_positive() => opened.accepted.push(*number),
                    Command::Rcpt(number) if !opened.accepted.is_empty() && is_too_many(&reply) => {
                        opened.put_off.push((*number, reply));
                    }
                    Command::Rcpt(number) if reply.is_refusal() => opened.refused.push((*number, reply)),
                    Command::Rcpt(_) => return Err(Box::new(Ended::failed(refused(stage, &reply)))),
                    Command::Data => opened.data = Some(reply),
                }
            }
            if let Some(trouble) = no_sender {
                self.let_go(opened.data.as_ref());
                return Err(Box::new(Ended::failed(trouble)));
            }
        }
        self.judge(opened)
    }

    async fn say(&mut self, mail: &Mail, group: &[Command], stage: Stage) -> Result<(), Failure> {
        if self.wire.has_input() {
            return Err(match self.reply(stage).await {
                Ok(reply) if reply.is_closing() => refused(stage, &reply).failure,
                Ok(_) => out_of_turn(stage),
                Err(failure) => failure,
            });
        }
        let lines: String = group.iter().map(|command| self.line(mail, *command)).collect();
        match timeout(self.times.of(stage, 0), self.wire.write(lines.as_bytes())).await {
            Ok(Ok(())) => Ok(()),
            // The server may have said why it closes.
            Ok(Err(error)) => match timeout(LAST_WORDS, self.wire.reply()).await {
                Ok(Ok(reply)) if reply.is_refusal() => Err(refused(stage, &reply).failure),
                _ => Err(lost(stage, &Broken::Io(error))),
            },
            Err(_) => Err(late(stage)),
        }
    }

    /// The replies were all read. A server that waits for a message that will not come is left alone.
    fn let_go(&mut self, data: Option<&Reply>) {
        if data.is_none_or(Reply::is_refusal) {
            self.state = State::NeedsReset;
        }
    }

    fn judge(&mut self, opened: Opened) -> Result<Opened, Box<Ended>> {
        let trouble = match &opened.data {
            Some(data) if data.code == 354 && !opened.accepted.is_empty() => return Ok(opened),
            Some(data) if !opened.accepted.is_empty() => refused(Stage::Data, data),
            _ => all_refused(Stage::Rcpt, &opened.refused),
        };
        self.let_go(opened.data.as_ref());
        Err(Box::new(Ended { refused: opened.refused, ..Ended::failed(trouble) }))
    }

    /// The message, to the line before the dot.
    async fn body(&mut self, mail: &Mail) -> Result<(), Trouble> {
        for block in blocks(&mail.bytes) {
            let limit = self.times.of(Stage::Body, 0);
            match timeout(limit, self.wire.write_watching(&block)).await {
                Ok(Written::All) => {}
                Ok(Written::Interrupted) => return Err(self.early(limit, None).await),
                Ok(Written::Failed(error)) => {
                    return Err(self.early(LAST_WORDS, Some(Broken::Io(error))).await);
                }
                Err(_) => return Err(late(Stage::Body).into()),
            }
        }
        if self.wire.is_quiet() { Ok(()) } else { Err(self.early(LAST_WORDS, None).await) }
    }

    /// The server answered before it had the message, or broke off. Without the dot it must not deliver.
    async fn early(&mut self, limit: Duration, write: Option<Broken>) -> Trouble {
        match timeout(limit, self.wire.reply()).await {
            Ok(Ok(reply)) if reply.is_refusal() => refused(Stage::Body, &reply),
            Ok(Ok(_)) => out_of_turn(Stage::Body).into(),
            Ok(Err(broken)) => lost(Stage::Body, write.as_ref().unwrap_or(&broken)).into(),
            Err(_) => write.map_or_else(|| late(Stage::Body), |broken| lost(Stage::Body, &broken)).into(),
        }
    }

    /// The dot, and what the server says to it.
    async fn finish(&mut self, mail: &Mail, to: &[usize], context: &SendContext) -> Ended {
        let limit = self.times.of(Stage::Reply, mail.bytes.len());
        // From here on the message may be delivered.
        context.commit();
        let mut first = match timeout(limit, self.wire.write(b".\r\n")).await {
            Ok(Ok(())) => None,
            // A refusal that was on its way already is an answer.
            Ok(Err(_)) => match timeout(LAST_WORDS, self.wire.reply()).await {
                Ok(Ok(reply)) => Some(reply),
                _ => return Ended::unknown(dot_lost()),
            },
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
        match timeout(limit, self.wire.reply()).await {
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

/// Nobody is left to deliver to. One who may be taken later is worth another try.
fn all_refused(stage: Stage, refusals: &[(usize, Reply)]) -> Trouble {
    let passing = refusals.iter().find(|(_, reply)| reply.is_transient());
    match passing.or_else(|| refusals.first()) {
        Some((_, reply)) => refused(stage, reply),
        None => out_of_turn(stage).into(),
    }
}

/// The connection broke. One that had been idle was broken before.
fn broken(failure: Failure, stage: Stage, is_reused: bool) -> Box<Ended> {
    let is_closed =
        failure.category == MailCategory::Network || matches!(failure.smtp_status, Some(421 | 221));
    let is_stale = is_reused && stage == Stage::Mail && is_closed;
    Box::new(if is_stale { Ended::new(Verdict::Stale(failure)) } else { Ended::failed(failure) })
}
