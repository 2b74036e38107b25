//! The command line of `hapax mail send`.

use super::{pass::Files, rate::Rate};
use crate::duration;
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// Send files of mails, each mail once
///
/// Every line is checked before the first is sent: a line that is not valid is reported with its number, and nothing is
/// sent. A mail with an idempotency key is sent once: run the same again after a kill, a crash or a failure, and only what
/// was not sent is sent. Two different mails under one key are not valid either, which the check finds for the first 100,000
/// keys of a run; beyond them the second one fails when it is its turn.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax mail send welcome.jsonl                           writes one .eml a message to the folder outbox
  hapax mail send - --via stub: < welcome.jsonl           accepts and forgets
  HAPAX_SMTP_PASSWORD=… hapax mail send welcome.jsonl --via smtp://app@mail.example.com
  RESEND_API_KEY=… hapax mail send welcome.jsonl --via resend: --via postmark:
  hapax mail send welcome.jsonl --key-template 'welcome:{to}'
  hapax mail send list.csv --template welcome.json --key-template 'welcome:{to}'
                                                          one message a row
  hapax mail send mails/*.eml --key-template '{message_id}'
  hapax mail send welcome.jsonl --json > report.jsonl     a receipt a line
  hapax mail send welcome.jsonl --only-failed report.jsonl

A line of a .jsonl file:
  {\"from\":\"Shop <shop@example.com>\",\"to\":[\"ada@example.com\"],\"subject\":\"Welcome\",\"text\":\"Welcome aboard.\",
   \"attachments\":[{\"path\":\"terms.pdf\"}],\"idempotency_key\":\"welcome:1\"}
(on one line). Also: sender, cc, bcc, reply_to, html, headers, in_reply_to, references, message_id, metadata, tags,
send_at (where the transport can schedule), tracking, unsubscribe; of an attachment also filename, content_type, base64, cid. Relative paths start at the
folder of FILE. A line has at most 32 MiB.

A --template for CSV is a JSON object like such a line, with {{ column }} in its texts, and
{{ row[\"First name\"] }} for names that are no words. Values are escaped in html. What comes out empty
is left out. subject, text and html may be {\"file\": \"body.html\"}, next to the template.
A --key-template is plain text and has one brace, {column}: nothing is computed in it.

Exit codes: 0 all sent, now or before; 1 some failed; 65 not valid, nothing sent; 75 some are in flight elsewhere, or
not in the report of --only-failed; 76 some may have been sent; 130, 143 stopped.")]
pub(crate) struct Send {
    #[command(flatten)]
    pub(super) files: Files,
    #[arg(
        long,
        value_name = "URL",
        default_value = "file:outbox",
        help = "Where mails go: smtp://HOST, resend: and others (`hapax help transports`), file:DIR writes one .eml a message, \
                stub: accepts and forgets. Given several times: the next one is tried where one fails for certain"
    )]
    pub(super) via: Vec<String>,
    /// Who gets no mail: an address a line, or @domain. The others of a message get it; one that nobody is left of has failed
    #[arg(long, value_name = "FILE")]
    pub(super) suppress: Option<PathBuf>,
    /// Sends what is valid, and counts the rest as failed
    #[arg(long)]
    pub(super) skip_invalid: bool,
    /// Says what would be sent and what would be replayed. Writes nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Only what failed in an earlier run and may fare better, or was in flight, by what it printed with --json
    #[arg(long, value_name = "REPORT")]
    pub(super) only_failed: Option<PathBuf>,
    /// With --only-failed: also what failed for good
    #[arg(long, requires = "only_failed")]
    pub(super) failed_too: bool,
    /// Sends in progress at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) concurrency: u16,
    /// At most so many sends start: 50/s, 600/m, 1000/h. Replays do not count
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    pub(super) rate: Option<Rate>,
    /// Attempts of one message, where a failure may pass
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) attempts: u32,
    /// For one message, all attempts together
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    pub(super) timeout: Option<Duration>,
    /// How long a key stays reserved if this run dies; renewed while it lives
    #[arg(long, value_name = "DUR", default_value = "60s", value_parser = duration::parse_lease)]
    pub(super) lease: Duration,
    /// How long receipts answer
    #[arg(long, value_name = "DUR", default_value = "24h", value_parser = duration::parse_positive)]
    pub(super) ttl: Duration,
    /// How long messages that another run holds are waited for at the end [default: the lease]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(super) wait: Option<Duration>,
    /// Keeps permanent refusals too, so that a later run answers with them instead of trying again
    #[arg(long)]
    pub(super) keep_rejected: bool,
}
