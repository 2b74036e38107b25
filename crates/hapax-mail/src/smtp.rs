//! SMTP and LMTP.
//!
//! A client of our own, because what decides over a second delivery has to be seen: the *commitment point*. An SMTP server
//! may deliver a message from the moment on at which the line with the final dot can have left this process, and must not
//! deliver it before (RFC 5321 §4.1.1.4, §3.8). The client calls [`SendContext::commit`](crate::SendContext::commit)
//! immediately before the write that holds the first byte of that line, and every receipt names the [`Stage`] at which the send ended:
//!
//! | the send ended | the receipt says |
//! |---|---|
//! | before the dot: refused, cut off, or too late | failed: certainly not sent |
//! | at the dot, or behind it without a whole reply | unknown: it may have gone |
//! | by the reply to the dot | what the reply says |
//!
//! Message bytes are written while replies are read, so that a refusal in the middle of a long message is seen and not
//! lost behind a broken connection. A connection is used again only after a transaction whose replies were all read.
//!
//! Sources: RFC 5321 (SMTP), 2033 (LMTP), 1870 (SIZE), 2034 and 3463 (enhanced codes), 2920 (pipelining), 3207 (STARTTLS),
//! 4954 (AUTH), 4616 (PLAIN), 7628 (OAUTHBEARER), 6152 (8BITMIME), 6531 (SMTPUTF8).

mod address;
mod auth;
mod body;
mod capabilities;
mod codes;
mod connect;
mod connection;
mod credentials;
mod dial;
mod failure;
mod options;
mod pool;
mod reply;
mod stage;
mod timer;
mod tls;
mod transaction;
mod transport;
mod url;
mod wire;

pub use codes::SMTP_CODES;
pub use credentials::{Credentials, Mechanism};
pub use dial::{Dial, Io};
pub use options::{Security, SmtpOptions};
pub use stage::{Stage, Timeouts};
pub use transport::Smtp;
pub use url::URLS;

#[cfg(any(test, fuzzing))]
pub(crate) use reply::check as check_reply;
