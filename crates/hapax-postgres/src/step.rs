//! The steps: which function of the server takes each, with what, and what its words mean.

use crate::{answer::Answer, named, value::Value};
use hapax_core::{
    Fingerprint, Name, Span, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, Kind, Receipt, Record, Reserve, Reserved, Resolution,
        Resolve, Resolved, Retake, Retaken, Write,
    },
};

/// One step, on the row of one key.
pub(crate) trait Step: Sync {
    /// What it answers.
    type Answer: Send;
    /// What it does, for messages.
    const OP: &'static str;
    /// Which function takes it.
    const FUNCTION: &'static str;
    /// Whether it may be sent once more when its reply was lost: it knows its own token.
    const RESEND: bool = true;
    /// Which function takes many of them at once, where there is one.
    const MANY: Option<&'static str> = None;
    /// The same, where all keys before were new.
    const NEW: Option<&'static str> = None;
    /// Which function answers in its place, with the same arguments, where the row stays locked.
    const BUSY: Option<&'static str> = None;

    /// Whose row it changes.
    fn name(&self) -> &Name;

    /// What the function is called with, beside the name.
    fn more(&self, values: &mut Vec<Value>);

    /// The receipt that it brings.
    fn receipt(&self) -> Option<&Receipt> {
        None
    }

    /// `None`: the answer makes no sense.
    fn read(&self, answer: Answer<'_>) -> Option<Self::Answer>;

    /// Everything that the function is called with.
    fn values(&self) -> Vec<Value> {
        let mut values = Vec::with_capacity(8);
        values.push(Value::Bytes(Some(named::joined(self.name()))));
        self.more(&mut values);
        values
    }
}

fn token(token: &Token) -> Value {
    Value::Token(*token.as_bytes())
}

fn fingerprint(fingerprint: &Fingerprint) -> [Value; 2] {
    let digest = (*fingerprint != Fingerprint::ANY).then(|| fingerprint.digest().to_vec());
    [Value::Int(i32::from(fingerprint.version())), Value::Bytes(digest)]
}

fn span(span: Span) -> Value {
    Value::Big(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

fn receipt(receipt: &Receipt) -> [Value; 2] {
    [Value::bytes(receipt.codec.as_bytes()), Value::bytes(&receipt.bytes)]
}

fn written(answer: &Answer<'_>) -> Option<Write> {
    match answer.said {
        "applied" => Some(Write::Applied),
        "fenced" => Some(Write::Fenced),
        _ => None,
    }
}

impl Step for Reserve {
    type Answer = Reserved;
    const OP: &'static str = "reserve a key";
    const FUNCTION: &'static str = "reserve";
    const MANY: Option<&'static str> = Some("reserve_many");
    const NEW: Option<&'static str> = Some("reserve_new");
    const BUSY: Option<&'static str> = Some("busy");

    fn name(&self) -> &Name {
        &self.name
    }
    fn more(&self, values: &mut Vec<Value>) {
        values.push(token(&self.token));
        values.extend(fingerprint(&self.fingerprint));
        values.push(span(self.lease));
    }
    fn read(&self, answer: Answer<'_>) -> Option<Reserved> {
        match answer.said {
            "yours" => answer.lease().map(|(until, first_at)| Reserved::Yours { until, first_at }),
            "held" => answer.record.map(Reserved::Held),
            _ => None,
        }
    }
}

impl Step for Complete {
    type Answer = Completed;
    const OP: &'static str = "keep a receipt";
    const FUNCTION: &'static str = "complete_named";
    const MANY: Option<&'static str> = Some("complete_many");

    fn name(&self) -> &Name {
        &self.name
    }
    fn more(&self, values: &mut Vec<Value>) {
        let kind = match self.kind {
            Kind::Done => 1,
            Kind::Unknown => 2,
        };
        values.push(token(&self.token));
        values.extend(fingerprint(&self.fingerprint));
        values.push(Value::Small(Some(kind)));
        values.extend(receipt(&self.receipt));
        values.push(span(self.ttl));
    }
    fn receipt(&self) -> Option<&Receipt> {
        Some(&self.receipt)
    }
    fn read(&self, answer: Answer<'_>) -> Option<Completed> {
        match answer.said {
            "stored" => Some(Completed::Stored),
            "already_done" => Some(Completed::AlreadyDone),
            "stored_late" => Some(Completed::StoredLate),
            "superseded" => answer.record.map(Completed::Superseded),
            _ => None,
        }
    }
}

/// Frees the key of a token.
pub(crate) struct Release<'a>(pub(crate) &'a Name, pub(crate) Token);

impl Step for Release<'_> {
    type Answer = Write;
    const OP: &'static str = "release a key";
    const FUNCTION: &'static str = "release_named";
    // Sent again, it would say that the token was fenced.
    const RESEND: bool = false;

    fn name(&self) -> &Name {
        self.0
    }
    fn more(&self, values: &mut Vec<Value>) {
        values.push(token(&self.1));
    }
    fn read(&self, answer: Answer<'_>) -> Option<Write> {
        written(&answer)
    }
}

/// Ends a reservation whoever holds it.
pub(crate) struct ForceRelease<'a>(pub(crate) &'a Name);

impl Step for ForceRelease<'_> {
    type Answer = Write;
    const OP: &'static str = "end a reservation";
    const FUNCTION: &'static str = "force_release";
    // Sent again, it might end another's.
    const RESEND: bool = false;

    fn name(&self) -> &Name {
        self.0
    }
    fn more(&self, _: &mut Vec<Value>) {}
    fn read(&self, answer: Answer<'_>) -> Option<Write> {
        written(&answer)
    }
}

/// Moves the end of a live lease.
pub(crate) struct Extend<'a>(pub(crate) &'a Name, pub(crate) Token, pub(crate) Span);

impl Step for Extend<'_> {
    type Answer = Extended;
    const OP: &'static str = "extend a lease";
    const FUNCTION: &'static str = "extend";

    fn name(&self) -> &Name {
        self.0
    }
    fn more(&self, values: &mut Vec<Value>) {
        values.push(token(&self.1));
        values.push(span(self.2));
    }
    fn read(&self, answer: Answer<'_>) -> Option<Extended> {
        match answer.said {
            "until" => answer.until.map(Extended::Until),
            "fenced" => Some(Extended::Fenced),
            _ => None,
        }
    }
}

impl Step for Retake {
    type Answer = Retaken;
    const OP: &'static str = "take a key of unknown outcome";
    const FUNCTION: &'static str = "retake_unknown";

    fn name(&self) -> &Name {
        &self.name
    }
    fn more(&self, values: &mut Vec<Value>) {
        values.push(token(&self.token));
        values.extend(fingerprint(&self.fingerprint));
        values.push(span(self.lease));
    }
    fn read(&self, answer: Answer<'_>) -> Option<Retaken> {
        match answer.said {
            "yours" => answer.lease().map(|(until, first_at)| Retaken::Yours { until, first_at }),
            "changed" => Some(Retaken::Changed(answer.record)),
            _ => None,
        }
    }
}

/// Forgets the unknown result beside a reservation.
pub(crate) struct DropUnknown<'a>(pub(crate) &'a Name, pub(crate) Token);

impl Step for DropUnknown<'_> {
    type Answer = Dropped;
    const OP: &'static str = "drop an unknown outcome";
    const FUNCTION: &'static str = "drop_unknown";

    fn name(&self) -> &Name {
        self.0
    }
    fn more(&self, values: &mut Vec<Value>) {
        values.push(token(&self.1));
    }
    fn read(&self, answer: Answer<'_>) -> Option<Dropped> {
        match answer.said {
            "dropped" => Some(Dropped::Dropped),
            "refused" => Some(Dropped::Refused),
            "fenced" => Some(Dropped::Fenced),
            _ => None,
        }
    }
}

impl Step for Resolve {
    type Answer = Resolved;
    const OP: &'static str = "resolve a key";
    const FUNCTION: &'static str = "resolve";

    fn name(&self) -> &Name {
        &self.name
    }
    fn more(&self, values: &mut Vec<Value>) {
        values.push(token(&self.token));
        // As text it is the sixteen digits of its eight bytes.
        let version = self.version.map(|version| hex::decode(version.to_string()).unwrap_or_default());
        values.push(Value::Bytes(version));
        match &self.resolution {
            Resolution::Happened { receipt: happened, ttl } => {
                values.extend(receipt(happened));
                values.push(span(*ttl));
            }
            Resolution::DidNot | Resolution::Forget => {
                values.extend([Value::Bytes(None), Value::Bytes(None), Value::Big(0)]);
            }
        }
        // No flag has a type here, and a number takes less than another kind of value would.
        values.push(Value::Small(Some(i16::from(matches!(self.resolution, Resolution::Forget)))));
    }
    fn receipt(&self) -> Option<&Receipt> {
        match &self.resolution {
            Resolution::Happened { receipt, .. } => Some(receipt),
            Resolution::DidNot | Resolution::Forget => None,
        }
    }
    fn read(&self, answer: Answer<'_>) -> Option<Resolved> {
        match answer.said {
            "applied" => Some(Resolved::Applied),
            "changed" => Some(Resolved::Changed(answer.record)),
            _ => None,
        }
    }
}

/// What is under a key.
pub(crate) struct Read<'a>(pub(crate) &'a Name);

impl Step for Read<'_> {
    type Answer = Option<Record>;
    const OP: &'static str = "read a key";
    const FUNCTION: &'static str = "read";

    fn name(&self) -> &Name {
        self.0
    }
    fn more(&self, _: &mut Vec<Value>) {}
    fn read(&self, answer: Answer<'_>) -> Option<Option<Record>> {
        (answer.said == "record").then_some(answer.record)
    }
}
