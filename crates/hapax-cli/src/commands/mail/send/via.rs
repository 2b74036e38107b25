//! `--via`: where mails go, and the scope that their keys have there.

use crate::{exit::Exit, failure::Failure, output, text};
use hapax::{
    core::Fingerprint,
    mail::{MailCategory, Outbox, Smtp, SmtpOptions, Stub, Transport},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The scope of everything that is delivered, whoever delivers it.
pub(crate) const DELIVERED: &str = "mail";

/// A transport, and the scope of its keys.
#[derive(Clone, Debug)]
pub(crate) struct Via {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) scope: String,
}

/// Where the password of a mail server's user comes from, if it is not in the URL.
const PASSWORD: &str = "HAPAX_SMTP_PASSWORD";

/// What `--via` names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A folder.
    File(PathBuf),
    /// Nowhere.
    Stub,
    /// A mail server.
    Server(Smtp),
}

/// Schemes of other builds, and what they are.
const PLANNED: &[&str] = &["ses", "resend", "postmark", "sendgrid", "mailgun", "brevo"];

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        const HELP: &str = "this build has `smtp://`, `smtps://` and `lmtp://` for mail servers, `file:DIR`, which writes \
                            one .eml a message into a folder, and `stub:`, which accepts and forgets";
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(Failure::usage(format!(
                "--via {}: a transport is written as a URL",
                text::shown(url)
            ))
            .help(HELP));
        };
        match (scheme.to_ascii_lowercase().as_str(), rest) {
            ("file", "") => Err(Failure::usage("--via file: needs a folder").help("write --via file:outbox")),
            ("file", rest) => Ok(Self::File(folder(rest))),
            ("stub", "") => Ok(Self::Stub),
            ("stub", _) => Err(Failure::usage("--via stub: takes nothing after the colon")),
            ("smtp" | "smtps" | "lmtp" | "lmtp+unix", _) => server(url),
            // What follows may be a password.
            (scheme, _) if PLANNED.contains(&scheme) => {
                Err(Failure::usage(format!("this build of hapax cannot send via `{scheme}:`")).help(HELP))
            }
            (scheme, _) => {
                let shown = text::shown(scheme);
                Err(Failure::usage(format!("--via: `{shown}:` is no transport")).help(HELP))
            }
        }
    }

    /// The scope of its keys: one for all that is delivered. Rehearsals share nothing with it, nor with each other.
    pub(crate) fn scope(&self) -> String {
        let target = match self {
            Self::File(folder) => [b"file:", resolved(folder).as_os_str().as_encoded_bytes()].concat(),
            Self::Stub => b"stub:".to_vec(),
            Self::Server(_) => return DELIVERED.to_owned(),
        };
        let digest = Fingerprint::of_bytes(&target);
        format!("mail-rehearsal:{}", hex::encode(digest.digest().get(..8).unwrap_or_default()))
    }

    /// Its name. Each of them sends at once, and none can be told to do so later.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::File(_) => "file:",
            Self::Stub => "stub:",
            Self::Server(server) if server.id() == "lmtp" => "lmtp:",
            Self::Server(_) => "smtp:",
        }
    }

    /// What a rehearsal, which writes nothing, cannot know: whether the folder can be made.
    pub(crate) fn unproven(&self) -> Option<String> {
        match self {
            Self::File(folder) if !folder.is_dir() => {
                let folder = text::shown(&folder.display().to_string());
                Some(format!(
                    "the folder {folder} is not there: a run makes it, if it can; that was not tried"
                ))
            }
            Self::Server(_) => Some("the mail server was not asked".to_owned()),
            _ => None,
        }
    }

    /// Whether it can be delivered to at all, for who takes jobs: not each of them is to find that out.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        let Self::File(folder) = self else { return Ok(()) };
        let shown = text::shown(&folder.display().to_string());
        match Outbox::new(folder).check().await {
            Ok(()) => Ok(()),
            Err(fault) if fault.category == MailCategory::Configuration => {
                let detail = fault.detail.unwrap_or_default();
                let message = format!("no mail can be written to {shown}: {detail} ({})", fault.code);
                Err(Failure::new(Exit::Unreachable, "mail.invalid_transport", message)
                    .help("give a folder that can be made and written; no job was taken"))
            }
            // It may pass: mails are tried again.
            Err(fault) => {
                output::warn(&format!("no mail can be written to {shown} yet: {fault}"));
                Ok(())
            }
        }
    }

    pub(crate) fn open(&self) -> Via {
        let transport: Arc<dyn Transport> = match self {
            Self::File(folder) => Arc::new(Outbox::new(folder)),
            Self::Stub => Arc::new(Stub::forgetful()),
            Self::Server(server) => Arc::new(server.clone()),
        };
        Via { transport, scope: self.scope() }
    }
}

/// `smtp://user:password@host`. Files that it names are read now, and nothing is connected.
fn server(url: &str) -> Result<Target, Failure> {
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
    Smtp::with_options(options).map(Target::Server).map_err(|error| wrong(&error.reason))
}

/// `file:DIR`, `file:/DIR` and `file:///DIR`.
fn folder(rest: &str) -> PathBuf {
    match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => PathBuf::from(path),
        _ => PathBuf::from(rest),
    }
}

/// The absolute path without links, of a folder that may not be there yet: the answer is the same before and after it
/// is made.
fn resolved(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut missing: Vec<OsString> = Vec::new();
    let mut there = absolute.as_path();
    loop {
        if let Ok(mut path) = there.canonicalize() {
            path.extend(missing.iter().rev());
            return path;
        }
        match (there.parent(), there.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                there = parent;
            }
            _ => return absolute,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_targets() {
        let folder = |url: &str| match Target::parse(url).unwrap() {
            Target::File(folder) => folder,
            other => panic!("{other:?}"),
        };
        assert_eq!(folder("file:out/box"), Path::new("out/box"));
        assert_eq!(folder("file:///tmp/x"), Path::new("/tmp/x"));
        assert_eq!(folder("FILE:/tmp/x"), Path::new("/tmp/x"));
        assert!(matches!(Target::parse("stub:").unwrap(), Target::Stub));
        for url in ["smtp://u:p@h", "smtps://h", "lmtp://h", "lmtp+unix:/run/lmtp", "SMTP://h:25?tls=none"] {
            assert_eq!(Target::parse(url).unwrap().scope(), DELIVERED, "{url}");
        }
    }

    #[test]
    fn other_transports_are_refused_without_their_secrets() {
        for url in ["resend:secret", "fax:secret", "secret", "file:", "stub:x", "smtp://user:secret@h?tsl=x"]
        {
            let failure = Target::parse(url).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{url}");
            let shown = format!("{failure:?}").replace("--via secret", "");
            assert!(!shown.contains("secret"), "{url}: {shown}");
        }
    }

    #[test]
    fn the_scope_of_a_folder_does_not_depend_on_how_it_is_written_or_whether_it_is_there() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("outbox");
        let before = Target::File(folder.clone()).scope();
        assert_eq!(Target::File(root.path().join("./x/../outbox")).scope().len(), before.len());
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(Target::File(folder.clone()).scope(), before);
        assert_eq!(Target::File(root.path().join(".").join("outbox")).scope(), before);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&folder, root.path().join("link")).unwrap();
            assert_eq!(Target::File(root.path().join("link")).scope(), before);
        }
        assert_ne!(Target::File(root.path().join("other")).scope(), before);
        assert_ne!(Target::Stub.scope(), before);
        assert!(before.starts_with("mail-rehearsal:"));
    }
}
