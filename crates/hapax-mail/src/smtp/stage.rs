//! How far a send has come, and how long each step of it may take.

use std::time::Duration;

/// How far a send has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// The name of the server is looked up.
    Resolve,
    /// The connection is opened.
    Connect,
    /// The TLS handshake, whether at once or after STARTTLS.
    Tls,
    /// The server's first line.
    Greeting,
    /// EHLO, or LHLO.
    Hello,
    /// The question for TLS.
    StartTls,
    /// Who we are.
    Auth,
    /// What the server can do is compared with what the message needs.
    Preflight,
    /// The sender.
    Mail,
    /// The recipients.
    Rcpt,
    /// The question whether the message may come.
    Data,
    /// The message.
    Body,
    /// The line with the dot: from its first byte on the message may be delivered.
    Dot,
    /// The reply to the dot.
    Reply,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 14] = [
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Greeting,
        Self::Hello,
        Self::StartTls,
        Self::Auth,
        Self::Preflight,
        Self::Mail,
        Self::Rcpt,
        Self::Data,
        Self::Body,
        Self::Dot,
        Self::Reply,
    ];

    /// The word in [`Failure::stage`](crate::Failure::stage).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Greeting => "greeting",
            Self::Hello => "ehlo",
            Self::StartTls => "starttls",
            Self::Auth => "auth",
            Self::Preflight => "preflight",
            Self::Mail => "mail",
            Self::Rcpt => "rcpt",
            Self::Data => "data",
            Self::Body => "body",
            Self::Dot => "dot",
            Self::Reply => "reply",
        }
    }

    /// Whether what is cut off here may have been delivered.
    pub const fn is_committed(self) -> bool {
        matches!(self, Self::Dot | Self::Reply)
    }
}

/// How long each step may take.
///
/// The defaults are the least that RFC 5321 §4.5.3.2 asks of a client. They look long. A shorter [`end`](Self::end) is the
/// classic cause of second deliveries: servers that scan a message answer minutes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// One address, and the look-up of the name (30 s; the RFC is silent).
    pub connect: Duration,
    /// The TLS handshake (30 s; the RFC is silent).
    pub tls: Duration,
    /// The server's first line (5 min).
    pub greeting: Duration,
    /// EHLO, STARTTLS and each step of AUTH (5 min).
    pub hello: Duration,
    /// MAIL (5 min).
    pub mail: Duration,
    /// Each RCPT (5 min).
    pub rcpt: Duration,
    /// DATA (2 min).
    pub data: Duration,
    /// Each 64 KiB of the message (3 min).
    pub block: Duration,
    /// The reply to the dot (10 min).
    pub end: Duration,
    /// And so much more for each MiB of the message (10 s).
    pub end_per_mib: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            tls: Duration::from_secs(30),
            greeting: Duration::from_mins(5),
            hello: Duration::from_mins(5),
            mail: Duration::from_mins(5),
            rcpt: Duration::from_mins(5),
            data: Duration::from_mins(2),
            block: Duration::from_mins(3),
            end: Duration::from_mins(10),
            end_per_mib: Duration::from_secs(10),
        }
    }
}

impl Timeouts {
    /// None longer than that, up to the dot. The reply to the dot keeps its own.
    #[must_use]
    pub fn capped(mut self, limit: Duration) -> Self {
        let before_the_dot = [
            &mut self.connect,
            &mut self.tls,
            &mut self.greeting,
            &mut self.hello,
            &mut self.mail,
            &mut self.rcpt,
            &mut self.data,
            &mut self.block,
        ];
        for time in before_the_dot {
            *time = (*time).min(limit);
        }
        self
    }

    pub(super) fn of(&self, stage: Stage, bytes: usize) -> Duration {
        match stage {
            Stage::Resolve | Stage::Connect => self.connect,
            Stage::Tls => self.tls,
            Stage::Greeting => self.greeting,
            Stage::Hello | Stage::StartTls | Stage::Auth | Stage::Preflight => self.hello,
            Stage::Mail => self.mail,
            Stage::Rcpt => self.rcpt,
            Stage::Data => self.data,
            Stage::Body => self.block,
            Stage::Dot | Stage::Reply => {
                let mib = u32::try_from(bytes / (1024 * 1024)).unwrap_or(u32::MAX);
                self.end.saturating_add(self.end_per_mib.saturating_mul(mib))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_least_that_the_rfc_asks_for() {
        let minutes = |stage| Timeouts::default().of(stage, 0).as_secs() / 60;
        let of = [Stage::Greeting, Stage::Mail, Stage::Rcpt, Stage::Data, Stage::Body, Stage::Reply];
        assert_eq!(of.map(minutes), [5, 5, 5, 2, 3, 10]);
    }

    #[test]
    fn large_messages_get_more_time_for_their_reply() {
        let times = Timeouts::default();
        assert_eq!(times.of(Stage::Reply, 30 * 1024 * 1024), Duration::from_mins(15));
        assert_eq!(times.of(Stage::Body, 30 * 1024 * 1024), Duration::from_mins(3));
    }

    #[test]
    fn a_cap_leaves_the_last_reply_alone() {
        let times = Timeouts::default().capped(Duration::from_secs(1));
        assert_eq!((times.mail, times.block), (Duration::from_secs(1), Duration::from_secs(1)));
        assert_eq!(times.end, Duration::from_mins(10));
    }

    #[test]
    fn only_the_dot_and_what_follows_may_have_been_delivered() {
        let committed: Vec<_> =
            Stage::ALL.into_iter().filter(|stage| stage.is_committed()).map(Stage::as_str).collect();
        assert_eq!(committed, ["dot", "reply"]);
    }
}
