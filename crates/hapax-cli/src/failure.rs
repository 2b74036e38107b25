//! Why the command ends early: said to people on stderr, to programs on stdout.

use crate::{
    exit::Exit,
    output::{self, Output},
    text,
};
use hapax::{
    CodeInfo, Coded, ConnectError, IdempotencyError, InvalidKey, LimitError, LockError, StoreError,
    StoreErrorKind,
};
use serde_json::json;
use std::{error::Error, fmt::Write as _};

/// Codes of the command itself.
pub(crate) const CODES: &[CodeInfo] = &[
    CodeInfo::new(
        "command.usage",
        "validation",
        false,
        "the command line is wrong",
        "`hapax help COMMAND` shows what is right",
    ),
    CodeInfo::new(
        "command.config",
        "validation",
        false,
        "the environment or hapax.toml is wrong",
        "the message names the place",
    ),
    CodeInfo::new(
        "command.input",
        "validation",
        false,
        "an argument or a file that was given cannot be used",
        "the message names it",
    ),
    CodeInfo::new(
        "command.output",
        "command",
        false,
        "the output could not be written",
        "look at the disk, or at the pipe, that stdout goes to",
    ),
    CodeInfo::new(
        "command.not_found",
        "validation",
        false,
        "the command to run was not found; the key is free",
        "check its name and PATH",
    ),
    CodeInfo::new(
        "command.not_executable",
        "validation",
        false,
        "the command to run could not be executed; the key is free",
        "check its permissions",
    ),
    CodeInfo::new(
        "command.interrupted",
        "conflict",
        true,
        "a signal came before the command was started; the key is free",
        "run it again",
    ),
    CodeInfo::new(
        "command.timed_out",
        "conflict",
        true,
        "what was waited for has not ended within --timeout",
        "wait again, or longer",
    ),
    CodeInfo::new("command.internal", "internal", false, "a bug in hapax", "report it with the message"),
];

/// The end of a command that could not do its work.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) code: &'static str,
    message: String,
    causes: Vec<String>,
    help: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), causes: Vec::new(), help: None }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "command.usage", message)
    }

    /// The environment or the configuration file is wrong.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "command.config", message)
    }

    /// What was given cannot be used.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Exit::Invalid, "command.input", message)
    }

    /// Of an error with a code.
    pub(crate) fn of<E: Coded + Error>(error: &E) -> Self {
        Self::new(Exit::of(error.code(), error.category()), error.code(), error.to_string())
            .because(error.source())
    }

    /// What is wrong, without its code.
    #[cfg(unix)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// With the causes of an error.
    pub(crate) fn because(mut self, source: Option<&(dyn Error + 'static)>) -> Self {
        let mut next = source;
        while let Some(cause) = next {
            let text = cause.to_string();
            // Some errors repeat their cause, and others are repeated by it.
            let said = self.message.contains(&text)
                || self.causes.iter().any(|earlier| text.contains(earlier) || earlier.contains(&text));
            if !said {
                self.causes.push(text);
            }
            next = cause.source();
        }
        self
    }

    /// With the way out.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says so: on stderr, and with `--json` as an object on stdout, too.
    pub(crate) fn print(&self, output: &Output) {
        self.explain();
        if output.json {
            let error = json!({
                "code": self.code,
                "message": self.message,
                "causes": self.causes,
                "help": self.remedy(),
                "exit_code": self.exit.code(),
            });
            output.object(&json!({ "error": error }));
        }
    }

    /// On stderr alone.
    pub(crate) fn explain(&self) {
        // Paths and words of the system are in it as they came.
        let mut said = format!("error: {} ({})", text::shown(&self.message), self.code);
        for cause in &self.causes {
            let _ = write!(said, "\n  cause: {}", text::shown(cause));
        }
        if let Some(help) = self.remedy() {
            let _ = write!(said, "\n  help: {}", text::shown(&help));
        }
        output::say(&said);
    }

    /// A limit of this process looks like a disk that fails.
    #[cfg(unix)]
    fn of_limits(&self) -> Option<String> {
        let of_disk = matches!(self.code, "store.unavailable" | "idempotency.store_failed");
        of_disk.then(crate::limits::help_with_file_size).flatten()
    }

    #[cfg(not(unix))]
    fn of_limits(&self) -> Option<String> {
        None
    }

    fn remedy(&self) -> Option<String> {
        self.help.clone().or_else(|| self.of_limits()).or_else(|| {
            let codes = hapax::codes();
            let info = codes.iter().chain(CODES).find(|info| info.code == self.code);
            // Some only point back to the message.
            info.map(|info| info.remedy.to_owned()).filter(|remedy| !remedy.starts_with("the message names"))
        })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let mut failure = Self::of(&error);
        if error.kind() == StoreErrorKind::Auth {
            let help = match error.backend() {
                "sqlite" => "check the permissions of the file and of its folder",
                _ => "check the user, its password, and what it may do on the server",
            };
            failure = failure.help(help);
        }
        // What stands in the URL is usage; where it leads to is the store. Only stores with a place say the latter.
        let of_url = error.kind() == StoreErrorKind::Config
            && (error.op() == "read the store URL" || matches!(error.backend(), "hapax" | "memory"));
        if of_url { Self { exit: Exit::Usage, ..failure } } else { failure }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Store(error) => error.into(),
            ConnectError::Namespace(error) => error.into(),
            error => {
                Self::new(Exit::Unreachable, "store.unavailable", error.to_string()).because(error.source())
            }
        }
    }
}

impl From<IdempotencyError> for Failure {
    fn from(error: IdempotencyError) -> Self {
        Self::of(&error)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            // Whatever it was asked for: it has none.
            LockError::StoreFailed { source, .. } if source.kind() == StoreErrorKind::Unsupported => {
                source.into()
            }
            error => Self::of(&error),
        }
    }
}

impl From<LimitError> for Failure {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::StoreFailed { source, .. } if source.kind() == StoreErrorKind::Unsupported => {
                source.into()
            }
            error => Self::of(&error),
        }
    }
}

impl From<InvalidKey> for Failure {
    fn from(error: InvalidKey) -> Self {
        Self::new(Exit::Invalid, "idempotency.invalid", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_urls_are_usage_and_wrong_places_are_the_store() {
        let error = |op| StoreError::new(StoreErrorKind::Config, "sqlite", op, "no");
        assert_eq!(Failure::from(error("read the store URL")).exit, Exit::Usage);
        assert_eq!(Failure::from(error("open the file")).exit, Exit::Unreachable);
        let unknown = StoreError::new(StoreErrorKind::Config, "hapax", "connect", "no such store");
        assert_eq!(Failure::from(unknown).exit, Exit::Usage);
    }

    #[test]
    fn causes_are_said_once() {
        let inner = StoreError::new(StoreErrorKind::Timeout, "sqlite", "open", "locked");
        let outer =
            StoreError::new(StoreErrorKind::Unavailable, "hapax", "connect", "no answer").with_source(inner);
        let failure = Failure::from(outer);
        assert_eq!(failure.causes, ["sqlite could not open: locked"]);
        assert_eq!(failure.code, "store.unavailable");
        let outer = std::io::Error::other("error returned from database: password authentication failed");
        let outer =
            StoreError::new(StoreErrorKind::Auth, "postgres", "open the store", "h refused the password")
                .with_source(Repeats(outer, std::io::Error::other("password authentication failed")));
        let failure = Failure::from(outer);
        assert_eq!(failure.causes, ["error returned from database: password authentication failed"]);
    }

    #[test]
    fn a_refused_login_is_not_about_a_file() {
        let help = |backend| {
            let error = StoreError::new(StoreErrorKind::Auth, backend, "open the store", "no");
            Failure::from(error).remedy().unwrap()
        };
        assert!(help("sqlite").contains("permissions of the file"));
        for server in ["redis", "postgres", "mongodb"] {
            assert!(help(server).contains("password") && !help(server).contains("file"));
        }
    }

    /// As some drivers do.
    #[derive(Debug)]
    struct Repeats(std::io::Error, std::io::Error);

    impl std::fmt::Display for Repeats {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }

    impl Error for Repeats {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }
}
