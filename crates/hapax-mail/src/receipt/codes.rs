//! The codes of receipts, those of messages and of the idempotency engine excepted.

use super::MailCategory;
use crate::{message::MESSAGE_CODES, smtp::SMTP_CODES};
use hapax_core::CodeInfo;

const fn code(
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
        "mail.timeout",
        MailCategory::Timeout,
        "the deadline of the message passed",
        "before anything could be delivered it is retryable; otherwise find out, then resolve the key",
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
    let mut all = CODES.iter().chain(hapax_engine::CODES);
    all.find(|info| info.code == code).map(|info| info.code)
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
