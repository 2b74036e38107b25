//! The codes of SMTP and LMTP.

use crate::{MailCategory, receipt::code};
use hapax_core::CodeInfo;

/// What [`Smtp`](super::Smtp) answers with, beside the codes of all transports.
pub const SMTP_CODES: &[CodeInfo] = &[
    code(
        "smtp.auth",
        MailCategory::Auth,
        "the server refused user and password, or asks for them",
        "check both; with many providers the password is one made for programs",
    ),
    code(
        "smtp.auth_plaintext",
        MailCategory::Configuration,
        "the connection is not encrypted, so user and password were not sent",
        "use `tls=required`, or `tls=none` where the network is trusted",
    ),
    code(
        "smtp.auth_temp",
        MailCategory::Service,
        "the server cannot check user and password now, or there is no token for it",
        "try again later",
    ),
    code(
        "smtp.auth_unsupported",
        MailCategory::Configuration,
        "the server offers no way to log in that can be used",
        "the detail names what it offers; `auth=` chooses another",
    ),
    code(
        "smtp.busy",
        MailCategory::Service,
        "the server says: not now",
        "try again later; the response has its words",
    ),
    code(
        "smtp.connect",
        MailCategory::Network,
        "the server cannot be reached",
        "check host and port; many networks block port 25",
    ),
    code(
        "smtp.connect_timeout",
        MailCategory::Timeout,
        "the server did not take the connection in time",
        "check host, port and firewalls",
    ),
    code(
        "smtp.connection_lost",
        MailCategory::Network,
        "the connection broke before the message could have been delivered",
        "try again",
    ),
    code(
        "smtp.dns",
        MailCategory::Network,
        "the name of the server could not be looked up",
        "try again later, or check the resolver",
    ),
    code(
        "smtp.dot_write",
        MailCategory::Network,
        "the connection broke while the end of the message was written",
        "the message may have gone: find out, then resolve the key",
    ),
    code(
        "smtp.eight_bit_required",
        MailCategory::Validation,
        "the raw message is not ASCII, and the server takes nothing else",
        "encode its parts, or choose a server with 8BITMIME",
    ),
    code(
        "smtp.greeting",
        MailCategory::Service,
        "the server did not greet, or would not work with us",
        "category and response say why",
    ),
    code(
        "smtp.greylisted",
        MailCategory::Service,
        "the server wants to be asked again after some minutes",
        "try again after `retry_after`",
    ),
    code(
        "smtp.maybe_relayed",
        MailCategory::Service,
        "the server lost its own connection to the next one",
        "with `on_4_4=unknown`: the message may have gone; find out, then resolve the key",
    ),
    code(
        "smtp.protocol",
        MailCategory::Network,
        "the server does not keep to the protocol",
        "check that an SMTP server listens there",
    ),
    code(
        "smtp.rejected",
        MailCategory::Rejected,
        "the server refused the message, its sender or all of its recipients for good",
        "the response says why",
    ),
    code(
        "smtp.reply_garbled",
        MailCategory::Unknown,
        "the server answered the message with something that is no answer",
        "the message may have gone: find out, then resolve the key",
    ),
    code(
        "smtp.reply_lost",
        MailCategory::Network,
        "the connection broke before the server had answered the message",
        "the message may have gone: find out, then resolve the key",
    ),
    code(
        "smtp.reply_timeout",
        MailCategory::Timeout,
        "the server did not answer the message in time",
        "the message may have gone: find out, then resolve the key; do not shorten `reply_timeout`",
    ),
    code(
        "smtp.size",
        MailCategory::Validation,
        "the message is larger than the server takes",
        "send less, or through another server",
    ),
    code(
        "smtp.starttls_injected",
        MailCategory::Configuration,
        "the server said something between STARTTLS and TLS, which somebody else may have put there",
        "do not use this way to the server; `smtps://` leaves no room for it",
    ),
    code(
        "smtp.starttls_missing",
        MailCategory::Configuration,
        "the server offers no TLS",
        "check the port; `tls=none` sends without where the network is trusted",
    ),
    code("smtp.starttls_temp", MailCategory::Service, "the server has no TLS now", "try again later"),
    code(
        "smtp.timeout",
        MailCategory::Timeout,
        "the server did not answer in time, and the message cannot have been delivered",
        "try again",
    ),
    code(
        "smtp.tls",
        MailCategory::Network,
        "the TLS handshake failed",
        "check that the port speaks TLS: `smtps://` at once, `smtp://` after STARTTLS",
    ),
    code(
        "smtp.tls_cert",
        MailCategory::Configuration,
        "the certificate of the server is not trusted, or is for another name",
        "use the name that it is for; `tls_ca=` names an authority of your own",
    ),
    code(
        "smtp.unknown_host",
        MailCategory::Configuration,
        "there is no server of that name",
        "check the name",
    ),
    code(
        "smtp.utf8_required",
        MailCategory::Validation,
        "an address is not ASCII, and the server takes no others",
        "choose a server with SMTPUTF8",
    ),
];
