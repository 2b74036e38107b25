//! `--via` for mail servers.

use crate::failure::Failure;
use hapax::mail::{Smtp, SmtpOptions};

/// Where the password of a mail server's user comes from, if it is not in the URL.
const PASSWORD: &str = "HAPAX_SMTP_PASSWORD";

/// `smtp://user:password@host`. Files that it names are read now, and nothing is connected.
pub(super) fn parse(url: &str) -> Result<Smtp, Failure> {
    let wrong = |reason: &str| Failure::usage(format!("--via: {reason}"));
    let mut options = SmtpOptions::parse(url).map_err(|error| {
        wrong(&error.reason).help("`hapax help transports` lists the forms of URLs and all options")
    })?;
    if options.user_without_password().is_some() {
        let password = std::env::var(PASSWORD).unwrap_or_default();
        if password.is_empty() {
            return Err(wrong("the user of the mail server has no password").help(format!(
                "set {PASSWORD}, or name a file with `?password_file=FILE`; behind the user, `user:password@host`, \
                 everybody on this machine can read it"
            )));
        }
        options = options.password(password);
    }
    Smtp::with_options(options).map_err(|error| wrong(&error.reason))
}
