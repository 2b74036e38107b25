//! MAIL, RCPT and DATA: everything before the message.

use super::{Ended, LAST_WORDS, Mail, Verdict, all_refused};
use crate::{
    Failure, MailCategory,
    smtp::{
        connection::{Connection, State},
        failure::{is_too_many, late, lost, out_of_turn, refused},
        reply::Reply,
        stage::Stage,
        wire::Broken,
    },
};
use std::fmt::Write as _;

/// Commands that leave together; their replies fit into what both sides buffer.
const GROUP: usize = 100;

/// What the server said to MAIL, RCPT and DATA.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) accepted: Vec<usize>,
    pub(super) refused: Vec<(usize, Reply)>,
    pub(super) put_off: Vec<(usize, Reply)>,
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
    fn write_line(&self, mail: &Mail, command: Command, out: &mut String) {
        match command {
            Command::Mail => {
                let known = &self.capabilities;
                out.extend(["MAIL FROM:", &mail.from]);
                if known.says_size {
                    let _ = write!(out, " SIZE={}", mail.bytes.len());
                }
                if mail.utf8 {
                    out.push_str(" SMTPUTF8");
                }
                if known.eight_bit && !mail.bytes.is_ascii() {
                    out.push_str(" BODY=8BITMIME");
                }
            }
            Command::Rcpt(number) => {
                out.extend(["RCPT TO:", mail.to.get(number).map_or("", String::as_str)]);
            }
            Command::Data => out.push_str("DATA"),
        }
        out.push_str("\r\n");
    }

    /// MAIL, RCPT and DATA, up to 354.
    pub(super) async fn open(
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
        let mut lines = String::with_capacity(64 * group.len());
        for command in group {
            self.write_line(mail, *command, &mut lines);
        }
        match self.timer.within(self.times.of(stage, 0), self.wire.write(lines.as_bytes())).await {
            Ok(Ok(())) => Ok(()),
            // The server may have said why it closes.
            Ok(Err(error)) => match self.timer.within(LAST_WORDS, self.wire.reply()).await {
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
}

/// The connection broke. One that had been idle was broken before.
fn broken(failure: Failure, stage: Stage, is_reused: bool) -> Box<Ended> {
    let is_closed =
        failure.category == MailCategory::Network || matches!(failure.smtp_status, Some(421 | 221));
    let is_stale = is_reused && stage == Stage::Mail && is_closed;
    Box::new(if is_stale { Ended::new(Verdict::Stale(failure)) } else { Ended::failed(failure) })
}
