//! The steps: which script, with what, and what its answer means.

use crate::{
    answer::Answer,
    clock::ServerClock,
    connect::Connector,
    keys::Keys,
    script::{self, Script},
    store::AROUND,
    value,
};
use hapax_core::{
    Name, Span, Timestamp, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, Kind, Receipt, Record, Reserve, Reserved, Resolution,
        Resolve, Resolved, Retake, Retaken, Write,
    },
};
use redis::Cmd;

/// One step on one key.
pub(crate) trait Step: Sync {
    /// What it answers.
    type Answer: Send;
    /// What it does, for messages.
    const OP: &'static str;
    /// Whether it may be sent again when nobody knows what became of it. A second release answers otherwise.
    const RESEND: bool = true;

    /// Whether it must not be forgotten by a failover, where replicas are waited for.
    const KEPT: bool = false;

    fn script(&self) -> &'static Script;
    /// Where it is taken.
    fn key(&self, keys: &Keys) -> String;
    /// What else it touches, in the same slot.
    fn more_keys(&self, keys: &Keys) -> Vec<String> {
        let _ = keys;
        Vec::new()
    }
    /// The receipt that it writes.
    fn receipt(&self) -> Option<&Receipt> {
        None
    }
    /// The clock is that of the server.
    fn args(&self, args: &mut Cmd, clock: &ServerClock);
    /// None where the answer is none to this step.
    fn read(&self, answer: Answer) -> Option<Self::Answer>;
}

/// A step as it is sent: owned, because it may leave with those of others.
pub(crate) struct Outgoing {
    pub(crate) key: String,
    pub(crate) more_keys: Vec<String>,
    /// Arguments alone, in one piece.
    pub(crate) args: Cmd,
    /// The bytes of its receipt.
    pub(crate) size: usize,
}

impl Outgoing {
    pub(crate) fn of<S: Step>(step: &S, connector: &Connector) -> Self {
        let size = step.receipt().map_or(0, |receipt| receipt.bytes.len() + receipt.codec.len());
        let mut args = Cmd::with_capacity(5, size + AROUND);
        step.args(&mut args, &connector.clock);
        let keys = &connector.keys;
        Self { key: step.key(keys), more_keys: step.more_keys(keys), args, size }
    }
}

/// Codec and bytes; the length of the codec was checked.
fn receipt(receipt: &Receipt) -> Vec<u8> {
    value::receipt(receipt).unwrap_or_default()
}

impl Step for Reserve {
    type Answer = Reserved;
    const OP: &'static str = "reserve a key";
    const KEPT: bool = true;

    fn script(&self) -> &'static Script {
        &script::RESERVE
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(&self.name)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.token.as_bytes()).arg(&value::print(&self.fingerprint)).arg(self.lease.as_millis());
    }
    fn read(&self, answer: Answer) -> Option<Reserved> {
        match answer.word.as_slice() {
            b"yours" => Some(Reserved::Yours { until: answer.instant(0)?, first_at: answer.instant(1)? }),
            b"held" => answer.record().map(Reserved::Held),
            _ => None,
        }
    }
}

impl Step for Complete {
    type Answer = Completed;
    const OP: &'static str = "keep a receipt";
    const KEPT: bool = true;

    fn script(&self) -> &'static Script {
        &script::COMPLETE
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(&self.name)
    }
    fn receipt(&self) -> Option<&Receipt> {
        Some(&self.receipt)
    }
    fn args(&self, args: &mut Cmd, clock: &ServerClock) {
        // The time of an unknown may come to be read by a script, so a script writes it.
        let told = if self.kind == Kind::Done { clock.fresh() } else { None };
        let now = Timestamp::from_millis(told.unwrap_or_default());
        match told {
            Some(_) => args.arg(&value::holder(&self.token, &self.fingerprint)),
            None => args.arg(&value::owner(self.kind, &self.token, &self.fingerprint)),
        };
        let result = value::timed(now.after(self.ttl.get()), now, &self.receipt);
        args.arg(self.ttl.as_millis()).arg(result.unwrap_or_default());
    }
    fn read(&self, answer: Answer) -> Option<Completed> {
        match answer.word.as_slice() {
            b"" | b"stored" => Some(Completed::Stored),
            b"already_done" => Some(Completed::AlreadyDone),
            b"stored_late" => Some(Completed::StoredLate),
            b"superseded" => answer.record().map(Completed::Superseded),
            _ => None,
        }
    }
}

impl Step for Retake {
    type Answer = Retaken;
    const OP: &'static str = "take a key of unknown outcome";
    const KEPT: bool = true;

    fn script(&self) -> &'static Script {
        &script::RETAKE_UNKNOWN
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(&self.name)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.token.as_bytes()).arg(&value::print(&self.fingerprint)).arg(self.lease.as_millis());
    }
    fn read(&self, answer: Answer) -> Option<Retaken> {
        match answer.word.as_slice() {
            b"yours" => Some(Retaken::Yours { until: answer.instant(0)?, first_at: answer.instant(1)? }),
            b"changed" => Some(Retaken::Changed(answer.record())),
            _ => None,
        }
    }
}

/// A verdict, and what tells the script which record it is about.
pub(crate) struct Verdict<'a>(pub(crate) &'a Resolve, pub(crate) Option<Vec<u8>>);

impl Step for Verdict<'_> {
    type Answer = Resolved;
    const OP: &'static str = "resolve a key";
    const KEPT: bool = true;

    fn script(&self) -> &'static Script {
        &script::RESOLVE
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(&self.0.name)
    }
    fn receipt(&self) -> Option<&Receipt> {
        match &self.0.resolution {
            Resolution::Happened { receipt, .. } => Some(receipt),
            Resolution::DidNot | Resolution::Forget => None,
        }
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.0.token.as_bytes()).arg(self.1.as_deref().unwrap_or_default());
        match &self.0.resolution {
            Resolution::Happened { receipt: given, ttl } => {
                args.arg("happened").arg(ttl.as_millis()).arg(receipt(given));
            }
            Resolution::DidNot => {
                args.arg("did_not").arg(0).arg("");
            }
            Resolution::Forget => {
                args.arg("forget").arg(0).arg("");
            }
        }
    }
    fn read(&self, answer: Answer) -> Option<Resolved> {
        match answer.word.as_slice() {
            b"applied" => Some(Resolved::Applied),
            b"changed" => Some(Resolved::Changed(answer.record())),
            _ => None,
        }
    }
}

fn write(answer: &Answer) -> Option<Write> {
    match answer.word.as_slice() {
        b"applied" => Some(Write::Applied),
        b"fenced" => Some(Write::Fenced),
        _ => None,
    }
}

pub(crate) struct Release<'a>(pub(crate) &'a Name, pub(crate) &'a Token);

impl Step for Release<'_> {
    type Answer = Write;
    const OP: &'static str = "release a key";
    const RESEND: bool = false;

    fn script(&self) -> &'static Script {
        &script::RELEASE
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(self.0)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.1.as_bytes());
    }
    fn read(&self, answer: Answer) -> Option<Write> {
        write(&answer)
    }
}

pub(crate) struct ForceRelease<'a>(pub(crate) &'a Name);

impl Step for ForceRelease<'_> {
    type Answer = Write;
    const OP: &'static str = "release a key by force";
    const RESEND: bool = false;

    fn script(&self) -> &'static Script {
        &script::FORCE_RELEASE
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(self.0)
    }
    fn args(&self, _: &mut Cmd, _: &ServerClock) {}
    fn read(&self, answer: Answer) -> Option<Write> {
        write(&answer)
    }
}

pub(crate) struct Extend<'a>(pub(crate) &'a Name, pub(crate) &'a Token, pub(crate) Span);

impl Step for Extend<'_> {
    type Answer = Extended;
    const OP: &'static str = "extend a lease";

    fn script(&self) -> &'static Script {
        &script::EXTEND
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(self.0)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.1.as_bytes()).arg(self.2.as_millis());
    }
    fn read(&self, answer: Answer) -> Option<Extended> {
        match answer.word.as_slice() {
            b"until" => answer.instant(0).map(Extended::Until),
            b"fenced" => Some(Extended::Fenced),
            _ => None,
        }
    }
}

pub(crate) struct DropUnknown<'a>(pub(crate) &'a Name, pub(crate) &'a Token);

impl Step for DropUnknown<'_> {
    type Answer = Dropped;
    const OP: &'static str = "drop an unknown result";

    fn script(&self) -> &'static Script {
        &script::DROP_UNKNOWN
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(self.0)
    }
    fn args(&self, args: &mut Cmd, _: &ServerClock) {
        args.arg(self.1.as_bytes());
    }
    fn read(&self, answer: Answer) -> Option<Dropped> {
        match answer.word.as_slice() {
            b"dropped" => Some(Dropped::Dropped),
            b"refused" => Some(Dropped::Refused),
            b"fenced" => Some(Dropped::Fenced),
            _ => None,
        }
    }
}

/// Looks, and writes nothing.
pub(crate) struct Read<'a>(pub(crate) &'a Name);

impl Step for Read<'_> {
    type Answer = Option<Record>;
    const OP: &'static str = "read a key";

    fn script(&self) -> &'static Script {
        &script::READ
    }
    fn key(&self, keys: &Keys) -> String {
        keys.record(self.0)
    }
    fn args(&self, _: &mut Cmd, _: &ServerClock) {}
    fn read(&self, answer: Answer) -> Option<Option<Record>> {
        (answer.word == b"found").then(|| answer.record())
    }
}
