//! `--via` for mail servers.

use crate::failure::Failure;
use hapax::mail::{Smtp, SmtpOptions};

/// Where the password of a mail server's user comes from, if it is not in the URL.
const PASSWORD: &str = "HAPAX_SMTP_PASSWORD";

/// `smtp://user:password@host`: its form alone. Nothing is read, and nothing is connected.
pub(super) fn parse(url: &str) -> Result<SmtpOptions, Failure> {
    let options = SmtpOptions::parse(url).map_err(|error| {
        wrong(&error.reason).help("`hapax help transports` lists the forms of URLs and all options")
    })?;
    // A password may still come.
    let lacks = options.user_without_password().is_some();
    let whole = if lacks { options.clone().password("-") } else { options.clone() };
    whole.check().map_err(|error| wrong(&error.reason))?;
    Ok(options)
}

/// With the password, and the files that the URL names.
pub(super) fn open(mut options: SmtpOptions) -> Result<Smtp, Failure> {
    if options.user_without_password().is_some() {
        let Some(password) = password() else {
            return Err(wrong("the user of the mail server has no password").help(format!(
                "set {PASSWORD}, or name a file with `?password_file=FILE`; behind the user, `user:password@host`, \
                 everybody on this machine can read it"
            )));
        };
        options = options.password(password);
    }
    Smtp::with_options(options).map_err(|error| wrong(&error.reason))
}

/// What a rehearsal, which asks nobody, cannot know.
pub(super) fn unproven(options: &SmtpOptions) -> String {
    match options.user_without_password() {
        Some(_) if password().is_none() => format!("{PASSWORD} is not set: a run needs it"),
        _ => "the mail server was not asked".to_owned(),
    }
}

fn password() -> Option<String> {
    std::env::var(PASSWORD).ok().filter(|password| !password.is_empty())
}

fn wrong(reason: &str) -> Failure {
    Failure::usage(format!("--via: {reason}"))
}
