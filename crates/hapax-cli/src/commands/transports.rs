//! `hapax transports`: what `--via` takes. `hapax help transports` says the same.
#![expect(clippy::doc_markdown, reason = "help texts are read without markup")]

use super::{Context, stores};
use crate::{exit::Exit, failure::Failure};
use clap::Args;
use hapax::{
    core::url::{UrlHelp, UrlOption},
    mail::smtp,
};

/// List the ways to send mail: the forms of the URLs that --via takes, and all options
///
/// A URL has its options behind a question mark: smtp://app@mail.example.com?connections=4. User and password are
/// percent-encoded; a password that is not in the URL comes from HAPAX_SMTP_PASSWORD. An option that is not known is refused.
#[derive(Debug, Args)]
#[command(after_help = after_help(), after_long_help = format!("{}\n\n{}", after_help(), text()))]
pub(crate) struct Transports {}

fn after_help() -> &'static str {
    "\
EXAMPLES:
  hapax help transports
  hapax transports --json | jq '.options[].name'"
}

const PROVIDERS: UrlHelp = UrlHelp::new(
    &[
        ("resend:", "Resend; its key comes from RESEND_API_KEY"),
        ("postmark:[STREAM]", "Postmark; its key comes from POSTMARK_SERVER_TOKEN"),
        ("sendgrid:", "SendGrid; its key comes from SENDGRID_API_KEY"),
        ("mailgun:DOMAIN", "Mailgun; its key comes from MAILGUN_API_KEY"),
        ("brevo:", "Brevo; its key comes from BREVO_API_KEY"),
        #[cfg(feature = "ses")]
        ("ses:REGION", "Amazon SES; its key comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ],
    PROVIDER_OPTIONS,
    "mailgun:mg.example.com?region=eu",
);
const PROVIDER_OPTIONS: &[UrlOption] = &[
    UrlOption::new("region", "eu", None, "SendGrid's and Mailgun's servers in the European Union"),
    UrlOption::new("endpoint", "URL", None, "Another server that speaks the same, for tests"),
    #[cfg(feature = "ses")]
    UrlOption::new(
        "configuration_set",
        "NAME",
        None,
        "SES: the configuration set whose events tell what became of a mail",
    ),
];
const LOCAL: UrlHelp = UrlHelp::new(
    &[
        ("file:DIR", "One .eml a message in a folder, which is made if it is not there"),
        ("stub:", "Accepts and forgets"),
    ],
    NONE,
    "file:outbox",
);
const NONE: &[UrlOption] = &[];

/// Each kind, and its URLs.
const KINDS: &[(&str, &UrlHelp)] =
    &[("mail servers", &smtp::URLS), ("providers", &PROVIDERS), ("this machine", &LOCAL)];

impl Transports {
    pub(crate) fn run(self, Context { output, .. }: &Context) -> Result<Exit, Failure> {
        let Self {} = self;
        if output.json {
            for (kind, urls) in KINDS {
                let mut object = stores::urls(urls);
                object.insert("transport".to_owned(), (*kind).into());
                output.object(&object);
            }
        } else {
            output.line(&text());
        }
        output.end()?;
        Ok(Exit::Done)
    }
}

/// For people.
fn text() -> String {
    let texts: Vec<_> = KINDS.iter().map(|(kind, urls)| stores::text_of(kind, urls)).collect();
    texts.join("\n")
}
