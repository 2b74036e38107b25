//! What went wrong, as receipts say it: by the stage, the reply and its enhanced code.

use super::{
    reply::{Enhanced, Reply},
    stage::Stage,
    wire::Broken,
};
use crate::{Failure, FailureScope, MailCategory};
use std::time::Duration;

/// Greylisting servers want a first look repeated after minutes.
const GREYLISTED: Duration = Duration::from_mins(5);

/// A failure, and the words of the server where it had any.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) failure: Failure,
    pub(super) response: Option<String>,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self { failure, response: None }
    }
}

pub(super) fn at(stage: Stage, category: MailCategory, code: &'static str, detail: &'static str) -> Failure {
    Failure::new(category, code).with_stage(stage.as_str()).with_detail(detail)
}

/// The connection broke before the message could have been delivered.
pub(super) fn lost(stage: Stage, broken: &Broken) -> Failure {
    let code = match (stage, broken) {
        (_, Broken::Garbled) => {
            return at(stage, MailCategory::Network, "smtp.protocol", "what the server said is no SMTP");
        }
        (Stage::Greeting | Stage::Hello, _) => "smtp.greeting",
        _ => "smtp.connection_lost",
    };
    let failure = at(stage, MailCategory::Network, code, "the server closed the connection");
    match broken {
        Broken::Io(error) => failure.with_detail(format!("the connection broke: {}", error.kind())),
        _ => failure,
    }
}

/// The deadline of the stage passed before the message could have been delivered.
pub(super) fn late(stage: Stage) -> Failure {
    let code = match stage {
        Stage::Connect | Stage::Resolve => "smtp.connect_timeout",
        Stage::Greeting | Stage::Hello => "smtp.greeting",
        _ => "smtp.timeout",
    };
    at(stage, MailCategory::Timeout, code, "the server did not answer in time")
}

/// The server spoke out of turn.
pub(super) fn out_of_turn(stage: Stage) -> Failure {
    at(stage, MailCategory::Network, "smtp.protocol", "the server answered what it was not asked")
}

/// The server said something else than yes.
pub(super) fn refused(stage: Stage, reply: &Reply) -> Trouble {
    let enhanced = reply.enhanced();
    let mut failure = judge(stage, reply, enhanced).with_stage(stage.as_str());
    let shown = enhanced.map(|enhanced| enhanced.to_string());
    failure = failure.with_smtp_status(reply.code, shown.as_deref());
    if failure.detail.is_none() {
        failure = failure.with_detail(format!("the server answered {}", reply.code));
    }
    Trouble { failure, response: Some(reply.text()) }
}

fn judge(stage: Stage, reply: &Reply, enhanced: Option<Enhanced>) -> Failure {
    use MailCategory::{Auth, Configuration, Network, Rejected, Service};
    let new = Failure::new;
    match (stage, reply.class()) {
        (Stage::Greeting | Stage::Hello, 4) => new(Service, "smtp.greeting"),
        (Stage::Greeting | Stage::Hello, 5) => {
            new(Rejected, "smtp.greeting").with_scope(FailureScope::Provider)
        }
        (Stage::StartTls, 4) => new(Service, "smtp.starttls_temp"),
        (Stage::StartTls, 5) => new(Configuration, "smtp.starttls_missing"),
        (Stage::Auth, 4) => new(Service, "smtp.auth_temp"),
        (Stage::Auth, 3 | 5) => new(Auth, "smtp.auth").with_detail("the server refused user and password"),
        (_, 4) => transient(stage, reply, enhanced),
        (_, 5) => permanent(stage, reply, enhanced),
        _ => new(Network, "smtp.protocol").with_detail("the server gave an answer that does not fit"),
    }
}

fn transient(stage: Stage, reply: &Reply, enhanced: Option<Enhanced>) -> Failure {
    let service = |code| Failure::new(MailCategory::Service, code);
    let text = reply.text().to_ascii_lowercase();
    let is_grey = text.contains("greylist") || text.contains("graylist");
    let failure = if reply.code != 421 && (is_grey || enhanced.is_some_and(|e| e.subject == 7)) {
        service("smtp.greylisted").with_retry_after(GREYLISTED)
    } else {
        service("smtp.busy")
    };
    if concerns_recipient(stage, enhanced) { failure.with_scope(FailureScope::Recipient) } else { failure }
}

fn permanent(stage: Stage, reply: &Reply, enhanced: Option<Enhanced>) -> Failure {
    // 552 alone says of a recipient that the mailbox is full.
    let too_large = match enhanced {
        Some(enhanced) => enhanced.is(3, 4) || enhanced.is(2, 3),
        None => reply.code == 552 && stage != Stage::Rcpt,
    };
    if too_large {
        return size("the server refused the message for its size");
    }
    // Authentication required, or STARTTLS before.
    if reply.code == 530 {
        return Failure::new(MailCategory::Auth, "smtp.auth").with_detail("the server asks who we are");
    }
    let failure = Failure::new(MailCategory::Rejected, "smtp.rejected");
    if concerns_recipient(stage, enhanced) { failure.with_scope(FailureScope::Recipient) } else { failure }
}

/// What this server does not take, another one may.
pub(super) fn size(detail: &'static str) -> Failure {
    Failure::new(MailCategory::Validation, "smtp.size").with_scope(FailureScope::Provider).with_detail(detail)
}

fn concerns_recipient(stage: Stage, enhanced: Option<Enhanced>) -> bool {
    match enhanced {
        // 5.1.7 and 5.1.8 are about the sender.
        Some(enhanced) => {
            (enhanced.subject == 1 && !matches!(enhanced.detail, 7 | 8)) || matches!(enhanced.subject, 2)
        }
        None => stage == Stage::Rcpt,
    }
}

/// The server has had enough recipients for one message, and takes the rest with the next.
pub(super) fn is_too_many(reply: &Reply) -> bool {
    reply.is_transient() && reply.enhanced().map_or(reply.code == 452, |enhanced| enhanced.is(5, 3))
}

/// The last bytes may have gone.
pub(super) fn dot_lost() -> Failure {
    at(
        Stage::Dot,
        MailCategory::Network,
        "smtp.dot_write",
        "the connection broke while the end of the message was written",
    )
}

/// The reply to the dot did not come.
pub(super) fn reply_lost(broken: &Broken) -> Failure {
    match broken {
        Broken::Garbled => garbled(),
        Broken::Ended | Broken::Io(_) => at(
            Stage::Reply,
            MailCategory::Network,
            "smtp.reply_lost",
            "the connection broke before the server had answered the message",
        ),
    }
}

pub(super) fn garbled() -> Failure {
    at(
        Stage::Reply,
        MailCategory::Unknown,
        "smtp.reply_garbled",
        "what the server answered the message is no answer",
    )
}

pub(super) fn reply_late(stage: Stage) -> Failure {
    at(stage, MailCategory::Timeout, "smtp.reply_timeout", "the server did not answer the message in time")
}

/// A gateway that lost its own next hop after it had handed the message on answers so, too.
pub(super) fn relayed(reply: &Reply) -> Failure {
    let mut trouble = refused(Stage::Reply, reply);
    trouble.failure.code = "smtp.maybe_relayed".into();
    trouble.failure.with_detail("the server lost its connection to the next one, which may have the message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stage: Stage, code: u16, text: &str) -> Failure {
        refused(stage, &Reply { code, words: text.to_owned() }).failure
    }

    #[test]
    fn replies_are_judged_by_stage_and_code() {
        use FailureScope::{Message, Provider, Recipient};
        use MailCategory::{Auth, Configuration, Network, Rejected, Service, Validation};
        for (stage, code, text, category, name, retryable, scope) in [
            (Stage::Greeting, 421, "busy", Service, "smtp.greeting", true, Provider),
            (Stage::Greeting, 554, "no", Rejected, "smtp.greeting", false, Provider),
            (Stage::Hello, 550, "no", Rejected, "smtp.greeting", false, Provider),
            (Stage::StartTls, 454, "later", Service, "smtp.starttls_temp", true, Provider),
            (Stage::StartTls, 502, "no", Configuration, "smtp.starttls_missing", false, Provider),
            (Stage::Auth, 535, "5.7.8 no", Auth, "smtp.auth", false, Provider),
            (Stage::Auth, 454, "4.7.0 later", Service, "smtp.auth_temp", true, Provider),
            (Stage::Mail, 451, "later", Service, "smtp.busy", true, Provider),
            (Stage::Mail, 550, "5.7.1 no", Rejected, "smtp.rejected", false, Message),
            (Stage::Mail, 530, "5.7.0 log in", Auth, "smtp.auth", false, Provider),
            (Stage::Mail, 552, "too large", Validation, "smtp.size", false, Provider),
            (Stage::Mail, 553, "5.1.8 sender", Rejected, "smtp.rejected", false, Message),
            (Stage::Rcpt, 550, "5.1.1 no such user", Rejected, "smtp.rejected", false, Recipient),
            (Stage::Rcpt, 552, "full", Rejected, "smtp.rejected", false, Recipient),
            (Stage::Rcpt, 452, "4.2.2 full", Service, "smtp.busy", true, Recipient),
            (Stage::Rcpt, 450, "4.7.1 later", Service, "smtp.greylisted", true, Provider),
            (Stage::Rcpt, 451, "Greylisted, come again", Service, "smtp.greylisted", true, Recipient),
            (Stage::Data, 554, "no", Rejected, "smtp.rejected", false, Message),
            (Stage::Data, 250, "ok", Network, "smtp.protocol", true, Provider),
            (Stage::Reply, 552, "5.3.4 too large", Validation, "smtp.size", false, Provider),
            (Stage::Reply, 550, "5.7.26 dmarc", Rejected, "smtp.rejected", false, Message),
            (Stage::Reply, 421, "4.7.0 closing", Service, "smtp.busy", true, Provider),
        ] {
            let failure = of(stage, code, text);
            let found = (failure.category, &*failure.code, failure.retryable, failure.scope);
            assert_eq!(found, (category, name, retryable, scope), "{stage:?} {code} {text}");
            assert_eq!((failure.stage.as_deref(), failure.smtp_status), (Some(stage.as_str()), Some(code)));
        }
    }

    #[test]
    fn greylisting_says_when_to_come_again() {
        assert_eq!(of(Stage::Rcpt, 450, "4.7.1 x").retry_after, Some(GREYLISTED));
        assert_eq!(of(Stage::Rcpt, 450, "busy").retry_after, None);
    }

    #[test]
    fn a_limit_of_recipients_is_told_from_a_full_disk() {
        let reply = |code, text: &str| Reply { code, words: text.to_owned() };
        assert!(is_too_many(&reply(452, "too many")) && is_too_many(&reply(451, "4.5.3 too many")));
        assert!(!is_too_many(&reply(452, "4.2.2 full")) && !is_too_many(&reply(550, "5.5.3 x")));
    }
}
