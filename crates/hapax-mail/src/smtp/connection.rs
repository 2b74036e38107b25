//! One connection, from its greeting to its end.

use super::{
    capabilities::Capabilities,
    failure::{Trouble, late, lost, out_of_turn, refused},
    reply::Reply,
    stage::{Stage, Timeouts},
    timer::Timer,
    wire::{Broken, Wire},
};
use crate::Failure;
use tokio::time::Instant;

/// Whether a connection can be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody knows what comes next over it. The state from the first byte of a transaction on, so that one which is
    /// dropped half-way is not used again.
    Poisoned,
    /// All replies were read, and a transaction is open or was refused: RSET comes first.
    NeedsReset,
    /// All replies were read.
    Clean,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) timer: Timer,
    pub(super) times: Timeouts,
    pub(super) capabilities: Capabilities,
    pub(super) lmtp: bool,
    pub(super) encrypted: bool,
    /// `4.4.x` to the dot may come from behind the server.
    pub(super) relay_is_unknown: bool,
    pub(super) state: State,
    pub(super) since: Instant,
    /// Transactions that were begun.
    pub(super) used: u32,
}

impl Connection {
    pub(super) fn new(wire: Wire, times: Timeouts, lmtp: bool, encrypted: bool) -> Self {
        Self {
            wire,
            timer: Timer::default(),
            times,
            capabilities: Capabilities::default(),
            lmtp,
            encrypted,
            relay_is_unknown: false,
            state: State::Poisoned,
            since: Instant::now(),
            used: 0,
        }
    }

    /// A command and its reply, whatever it is.
    pub(super) async fn ask(&mut self, stage: Stage, line: &str) -> Result<Reply, Failure> {
        // A reply that is here before its command belongs to no command of ours.
        if self.wire.has_input() {
            return Err(self.unasked(stage).await);
        }
        let asked = async {
            self.wire.write(format!("{line}\r\n").as_bytes()).await.map_err(Broken::Io)?;
            self.wire.reply().await
        };
        match self.timer.within(self.times.of(stage, 0), asked).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(broken)) => Err(lost(stage, &broken)),
            Err(_) => Err(late(stage)),
        }
    }

    /// The next reply, of a command that was sent before.
    pub(super) async fn reply(&mut self, stage: Stage) -> Result<Reply, Failure> {
        match self.timer.within(self.times.of(stage, 0), self.wire.reply()).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(broken)) => Err(lost(stage, &broken)),
            Err(_) => Err(late(stage)),
        }
    }

    /// The same, where only 2xx will do.
    pub(super) async fn agree(&mut self, stage: Stage, line: &str) -> Result<Reply, Trouble> {
        let reply = self.ask(stage, line).await?;
        if reply.is_positive() { Ok(reply) } else { Err(refused(stage, &reply)) }
    }

    /// What a reply that came unasked means: that the server closes, or that it does not keep to the protocol.
    async fn unasked(&mut self, stage: Stage) -> Failure {
        match self.reply(stage).await {
            Ok(reply) if reply.is_closing() => refused(stage, &reply).failure,
            Ok(_) => out_of_turn(stage),
            Err(failure) => failure,
        }
    }

    pub(super) fn is_reusable(&mut self) -> bool {
        self.state != State::Poisoned && self.wire.is_quiet()
    }
}
