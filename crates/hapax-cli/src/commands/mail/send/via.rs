//! `--via`: where mails go, and the scope that their keys have there.

use super::{provider::Provider, server};
use crate::{exit::Exit, failure::Failure, output, text};
use hapax::{
    core::Fingerprint,
    mail::{MailCategory, Outbox, SmtpOptions, Stub, Transport},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The scope of everything that is delivered, whoever delivers it.
pub(crate) const DELIVERED: &str = "mail";

/// What `--via` names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A folder.
    File(PathBuf),
    /// Nowhere.
    Stub,
    /// A mail server.
    Server(Box<SmtpOptions>),
    /// A provider over HTTP.
    Provider(Provider),
}

/// Schemes of other builds, which have the feature of that name.
const LEFT_OUT: &[&str] = if cfg!(feature = "ses") { &[] } else { &["ses"] };

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        const HELP: &str = "this build has `smtp://`, `smtps://` and `lmtp://` for mail servers, `resend:`, `postmark:`, \
                            `sendgrid:`, `mailgun:DOMAIN` and `brevo:` for providers, `file:DIR`, which writes one .eml a \
                            message into a folder, and `stub:`, which accepts and forgets";
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
            ("smtp" | "smtps" | "lmtp" | "lmtp+unix", _) => {
                server::parse(url).map(|options| Self::Server(Box::new(options)))
            }
            (scheme, rest) if Provider::is_known(scheme) => Provider::parse(scheme, rest).map(Self::Provider),
            // What follows may be a password.
            (scheme, _) if LEFT_OUT.contains(&scheme) => {
                let message = format!("this build of hapax cannot send via `{scheme}:`");
                let help = format!("build it with `--features {scheme}`, or with `--features full`; {HELP}");
                Err(Failure::usage(message).help(help))
            }
            (scheme, _) => {
                let shown = text::shown(scheme);
                Err(Failure::usage(format!("--via: `{shown}:` is no transport")).help(HELP))
            }
        }
    }

    /// What it is, for people.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::File(_) => "a folder",
            Self::Stub => "what forgets everything",
            Self::Server(_) => "a mail server",
            Self::Provider(_) => "a provider",
        }
    }

    /// Whether it only rehearses, and what names the place then.
    fn rehearsal(&self) -> Option<Vec<u8>> {
        match self {
            Self::File(folder) => Some([b"file:", resolved(folder).as_os_str().as_encoded_bytes()].concat()),
            Self::Stub => Some(b"stub:".to_vec()),
            Self::Server(_) | Self::Provider(_) => None,
        }
    }

    /// Its name, if it sends at once and cannot be told to do so later.
    fn sends_at_once(&self) -> Option<&'static str> {
        match self {
            Self::File(_) => Some("file:"),
            Self::Stub => Some("stub:"),
            Self::Server(server) if server.is_lmtp() => Some("lmtp:"),
            Self::Server(_) => Some("smtp:"),
            Self::Provider(provider) => provider.sends_at_once(),
        }
    }

    /// What a rehearsal, which writes nothing, cannot know: whether the folder can be made, or the key is right.
    fn unproven(&self) -> Option<String> {
        match self {
            Self::File(folder) if !folder.is_dir() => {
                let folder = text::shown(&folder.display().to_string());
                Some(format!(
                    "the folder {folder} is not there: a run makes it, if it can; that was not tried"
                ))
            }
            Self::Server(options) => Some(server::unproven(options)),
            Self::Provider(provider) => provider.unproven(),
            _ => None,
        }
    }

    /// Whether it can be delivered to at all.
    async fn check(&self) -> Result<(), Failure> {
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

    fn open(&self) -> Result<Arc<dyn Transport>, Failure> {
        Ok(match self {
            Self::File(folder) => Arc::new(Outbox::new(folder)),
            Self::Stub => Arc::new(Stub::forgetful()),
            Self::Server(options) => Arc::new(server::open(SmtpOptions::clone(options))?),
            Self::Provider(provider) => provider.open()?,
        })
    }
}

/// All that `--via` names, in the order in which they are tried.
#[derive(Clone, Debug)]
pub(in super::super) struct Targets(Vec<Target>);

impl Targets {
    pub(in super::super) fn parse(urls: &[String]) -> Result<Self, Failure> {
        let targets = urls.iter().map(|url| Target::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let rehearsals = targets.iter().filter(|target| target.rehearsal().is_some()).count();
        if targets.is_empty() || (rehearsals > 0 && rehearsals < targets.len()) {
            let message =
                "--via: `file:` and `stub:` deliver nothing, so they take no part in a pool that does";
            return Err(
                Failure::usage(message).help("give transports that deliver, or only such that do not")
            );
        }
        Ok(Self(targets))
    }

    /// The scope of the keys: rehearsals share nothing with what is delivered, nor with each other.
    pub(in super::super) fn scope(&self) -> String {
        let places: Option<Vec<_>> = self.0.iter().map(Target::rehearsal).collect();
        let Some(places) = places else { return DELIVERED.to_owned() };
        let digest = Fingerprint::of_bytes(&places.join(&b"\0"[..]));
        format!("mail-rehearsal:{}", hex::encode(digest.digest().get(..8).unwrap_or_default()))
    }

    /// The first that sends at once and cannot be told to do so later.
    pub(super) fn sends_at_once(&self) -> Option<&'static str> {
        self.0.iter().find_map(Target::sends_at_once)
    }

    pub(super) fn unproven(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(Target::unproven)
    }

    /// Whether each of them can be delivered to at all, for who takes jobs: not each of those is to find that out.
    pub(in super::super) async fn check(&self) -> Result<(), Failure> {
        for target in &self.0 {
            target.check().await?;
        }
        Ok(())
    }

    /// The transports; keys of providers come from the environment.
    pub(in super::super) fn open(&self) -> Result<Vec<Arc<dyn Transport>>, Failure> {
        self.0.iter().map(Target::open).collect()
    }
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
            assert_eq!(scope(&[Target::parse(url).unwrap()]), DELIVERED, "{url}");
        }
    }

    fn scope(targets: &[Target]) -> String {
        Targets(targets.to_vec()).scope()
    }

    #[test]
    fn a_pool_delivers_or_rehearses() {
        let parse =
            |urls: &[&str]| Targets::parse(&urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&["resend:", "postmark:"]).unwrap().scope(), DELIVERED);
        assert_eq!(parse(&["mailgun:mg.example.com"]).unwrap().scope(), DELIVERED);
        let pool = parse(&["file:a", "file:b"]).unwrap().scope();
        assert_ne!(pool, parse(&["file:a"]).unwrap().scope());
        assert_ne!(pool, parse(&["file:b", "file:a"]).unwrap().scope());
        assert_eq!(parse(&["smtp://a", "smtps://b"]).unwrap().scope(), DELIVERED);
        assert!(parse(&["file:a", "resend:"]).is_err());
        assert_eq!(parse(&["resend:"]).unwrap().sends_at_once(), None);
        assert_eq!(parse(&["resend:", "postmark:"]).unwrap().sends_at_once(), Some("postmark:"));
    }

    #[test]
    fn other_transports_are_refused_without_their_secrets() {
        for url in [
            "smtp://user:secret@h?tsl=x",
            "fax:secret",
            "secret",
            "file:",
            "stub:x",
            "resend:secret",
            "mailgun:",
        ] {
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
        let before = scope(&[Target::File(folder.clone())]);
        assert_eq!(scope(&[Target::File(root.path().join("./x/../outbox"))]).len(), before.len());
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(scope(&[Target::File(folder.clone())]), before);
        assert_eq!(scope(&[Target::File(root.path().join(".").join("outbox"))]), before);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&folder, root.path().join("link")).unwrap();
            assert_eq!(scope(&[Target::File(root.path().join("link"))]), before);
        }
        assert_ne!(scope(&[Target::File(root.path().join("other"))]), before);
        assert_ne!(scope(&[Target::Stub]), before);
        assert!(before.starts_with("mail-rehearsal:"));
    }
}
