//! The codes of receipts, those of messages and of the idempotency engine excepted.

use super::MailCategory;
use crate::{message::MESSAGE_CODES, smtp::SMTP_CODES};
use hapax_core::CodeInfo;

pub(crate) const fn code(
    code: &'static str,
    category: MailCategory,
    meaning: &'static str,
    remedy: &'static str,
) -> CodeInfo {
    CodeInfo::new(code, category.as_str(), category.passes(), meaning, remedy)
}

/// What the transports and decorators of this crate answer with, beside the codes of
/// [messages](crate::MESSAGE_CODES) and of [idempotency](hapax_engine::CODES).
pub const MAIL_CODES: &[CodeInfo] = &[
    code(
        "breaker.open",
        MailCategory::Service,
        "the transport kept failing and is left alone for a while; nothing was sent",
        "try again after `retry_after`, or via another transport",
    ),
    code(
        "file.disk_full",
        MailCategory::Service,
        "the disk or the quota of the folder is full; nothing was written",
        "make room, then send again",
    ),
    code(
        "file.io",
        MailCategory::Network,
        "the folder could not be read or written; nothing was written",
        "the detail says what the system answered",
    ),
    code(
        "file.name_taken",
        MailCategory::Configuration,
        "something that is no file has the name of the mail",
        "remove it from the folder",
    ),
    code(
        "file.not_a_folder",
        MailCategory::Configuration,
        "the folder, or a part of its path, is something else",
        "give a folder, or a path at which one can be made",
    ),
    code(
        "file.not_synced",
        MailCategory::Service,
        "the mail is in the folder, which could not be synced: it may be gone after a power cut",
        "look whether the file is there, then resolve the key",
    ),
    code(
        "file.unsupported",
        MailCategory::Configuration,
        "the file system of the folder has no hard links",
        "choose a folder on another file system",
    ),
    code(
        "file.unwritable",
        MailCategory::Configuration,
        "the folder may not be written",
        "check its permissions",
    ),
    code(
        "http.connect",
        MailCategory::Network,
        "the provider could not be reached; nothing was sent",
        "look at the network, or at the endpoint, then send again",
    ),
    code(
        "http.connect_timeout",
        MailCategory::Timeout,
        "the provider did not take the connection in time; nothing was sent",
        "look at the network, then send again",
    ),
    code(
        "http.dns",
        MailCategory::Network,
        "the name of the provider could not be looked up; nothing was sent",
        "look at the resolver, or at the endpoint, then send again",
    ),
    code(
        "http.reply_garbled",
        MailCategory::Unknown,
        "what came back is no HTTP answer: the mail may have gone",
        "find out, then resolve the key",
    ),
    code(
        "http.reply_lost",
        MailCategory::Network,
        "the connection ended after the request and before the whole answer: the mail may have gone",
        "find out, then resolve the key",
    ),
    code(
        "http.reply_timeout",
        MailCategory::Timeout,
        "the provider did not answer in time: the mail may have gone",
        "find out, then resolve the key",
    ),
    code(
        "http.request",
        MailCategory::Validation,
        "the request cannot be written, for a key or a value that no header holds",
        "look at the key of the provider",
    ),
    code(
        "http.tls",
        MailCategory::Network,
        "TLS with the provider failed; nothing was sent",
        "the detail says why",
    ),
    code(
        "http.tls_cert",
        MailCategory::Configuration,
        "the certificate of the provider is not valid, or the system has none to check it with; nothing was sent",
        "look at the endpoint, the clock, and the certificates of the system (`SSL_CERT_FILE`)",
    ),
    code(
        "http.write",
        MailCategory::Network,
        "the connection ended, or stalled, before the whole request had left; nothing was sent",
        "send again",
    ),
    code(
        "mail.cancelled",
        MailCategory::Cancelled,
        "the caller stopped before anything could be delivered",
        "nothing was sent: send again when you want it sent",
    ),
    code(
        "mail.invalid_transport",
        MailCategory::Configuration,
        "the mailer cannot be built as it was asked for",
        "the message names the part",
    ),
    code(
        "mail.no_receipt",
        MailCategory::Unknown,
        "the transport ended without a receipt for the message",
        "report it to the author of the transport",
    ),
    code(
        "mail.other",
        MailCategory::Unknown,
        "a code that this version does not know",
        "upgrade, or ask the author of the transport",
    ),
    code(
        "mail.panicked",
        MailCategory::Unknown,
        "the transport panicked before anything could be delivered",
        "report it to the author of the transport",
    ),
    code(
        "mail.suppressed",
        MailCategory::Rejected,
        "every recipient is on the suppression list; nothing was sent",
        "take the recipient off the list, if it is to be written to",
    ),
    code(
        "mail.timeout",
        MailCategory::Timeout,
        "the deadline of the message passed",
        "before anything could be delivered it is retryable; otherwise find out, then resolve the key",
    ),
    code(
        "pool.exhausted",
        MailCategory::Service,
        "no transport of the pool took the message; the attempts name the reason of each",
        "bring one of them back, then send again",
    ),
    code(
        "pool.no_match",
        MailCategory::Configuration,
        "no transport of the pool takes such a message",
        "add one that takes everything, or widen what the others take",
    ),
    code(
        "provider.answer",
        MailCategory::Unknown,
        "the answer has not the form of the provider's: the mail may have gone",
        "find out, then resolve the key",
    ),
    code(
        "provider.auth",
        MailCategory::Auth,
        "the provider refuses the key, or what it is used for",
        "look at the key and its rights",
    ),
    code(
        "provider.configuration",
        MailCategory::Configuration,
        "the sender, the domain or the endpoint is not set up at the provider",
        "the response names it",
    ),
    code(
        "provider.failed",
        MailCategory::Service,
        "the provider failed within: the mail may have gone",
        "find out, then resolve the key",
    ),
    code(
        "provider.in_flight",
        MailCategory::Unknown,
        "the provider works on a request under the same key",
        "send again under the same key, or find out",
    ),
    code(
        "provider.inactive_recipient",
        MailCategory::Rejected,
        "the provider sends nothing to a recipient that bounced or complained",
        "take the recipient out, or off the provider's list",
    ),
    code(
        "provider.key_reused",
        MailCategory::Validation,
        "the provider knows the key for another message",
        "use a key of its own for each message",
    ),
    code(
        "provider.no_id",
        MailCategory::Unknown,
        "the provider took a message and gave no id for it (warning)",
        "nothing: it was sent",
    ),
    code(
        "provider.quota",
        MailCategory::RateLimit,
        "the quota of the account is used up",
        "wait for the next day or month, or raise it",
    ),
    code(
        "provider.rate_limited",
        MailCategory::RateLimit,
        "the provider takes no more in this time",
        "try again after `retry_after`, or set a rate limit",
    ),
    code(
        "provider.redirected",
        MailCategory::Configuration,
        "the endpoint answers with a redirect, which is not followed",
        "give the endpoint that it leads to",
    ),
    code(
        "provider.rejected",
        MailCategory::Rejected,
        "the provider refuses the message, or its sender, for good",
        "the response says why",
    ),
    code("provider.suspended", MailCategory::Auth, "the account may not send", "ask the provider"),
    code(
        "provider.unavailable",
        MailCategory::Service,
        "the provider is not available, and took nothing",
        "try again after `retry_after`",
    ),
    code(
        "provider.validation",
        MailCategory::Validation,
        "the provider refuses the message as it is",
        "the response says why",
    ),
    code(
        "ratelimit.queue_full",
        MailCategory::RateLimit,
        "too many messages wait for the rate limit; nothing was sent",
        "send fewer at a time",
    ),
    code(
        "ratelimit.wait_exceeded",
        MailCategory::RateLimit,
        "the rate limit lets nothing more through in the time that the message may wait; nothing was sent",
        "try again after `retry_after`",
    ),
    code(
        "retry.deadline",
        MailCategory::Timeout,
        "no time is left for a further attempt; the detail names the code of the last one, which gives the category, too",
        "send again later, or give it more time",
    ),
];

/// Those of each part.
const PARTS: [&[CodeInfo]; 3] = [MESSAGE_CODES, MAIL_CODES, SMTP_CODES];

const CODE_COUNT: usize = MESSAGE_CODES.len() + MAIL_CODES.len() + SMTP_CODES.len();

#[expect(clippy::indexing_slicing, reason = "checked when compiled")]
const ALL: [CodeInfo; CODE_COUNT] = {
    let mut all = [MESSAGE_CODES[0]; CODE_COUNT];
    let (mut part, mut at) = (0, 0);
    while part < PARTS.len() {
        let mut i = 0;
        while i < PARTS[part].len() {
            all[at] = PARTS[part][i];
            (i, at) = (i + 1, at + 1);
        }
        part += 1;
    }
    all
};

/// Every code of this crate.
pub const CODES: &[CodeInfo] = &ALL;

/// The stable text of a code that was read from a store.
pub(crate) fn known(code: &str) -> Option<&'static str> {
    let mut all = CODES.iter().chain(hapax_engine::CODES).chain(hapax_engine::limit::CODES);
    all.find(|info| info.code == code).map(|info| info.code)
}

/// Whether a decorator says so by itself: that tells nothing about the provider.
pub(crate) fn of_a_layer(code: &str) -> bool {
    const AREAS: [&str; 7] = ["breaker", "idempotency", "limit", "mail", "pool", "ratelimit", "retry"];
    code.split_once('.').is_some_and(|(area, _)| AREAS.contains(&area))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_and_of_the_form_area_dot_reason() {
        let codes: BTreeSet<_> = CODES.iter().map(|info| info.code).collect();
        assert_eq!(codes.len(), CODES.len());
        assert!(codes.iter().all(|code| code.split_once('.').is_some_and(|(area, reason)| {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            let word = |text: &str| !text.is_empty() && text.bytes().all(fits);
            word(area) && word(reason)
        })));
        assert!(CODES.iter().all(|info| !info.meaning.is_empty() && !info.remedy.is_empty()));
    }

    #[test]
    fn no_code_is_the_engines_too() {
        assert!(hapax_engine::CODES.iter().all(|info| CODES.iter().all(|ours| ours.code != info.code)));
    }

    #[test]
    fn every_code_of_both_parts_is_there() {
        assert!(CODES.iter().any(|info| info.code == "message.no_recipient"));
        assert!(CODES.iter().any(|info| info.code == "mail.cancelled"));
        assert_eq!(known("idempotency.in_flight"), Some("idempotency.in_flight"));
        assert!(CODES.iter().any(|info| info.code == "smtp.reply_lost"));
        assert_eq!(known("smtp.of_a_newer_version"), None);
    }
}
