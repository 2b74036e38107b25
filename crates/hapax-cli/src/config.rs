//! Which store and which namespace: from the command line, the environment, `hapax.toml`, or the defaults, in this
//! order.

use crate::{args::Global, failure::Failure, output, text};
use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
};

/// Looked for in the working directory.
const FILE: &str = "hapax.toml";
/// Far more than the few lines that a configuration has.
const MAX_BYTES: u64 = 1 << 20;
const NAMES: &[&str] = &["store", "namespace"];
const STORE: &str = "HAPAX_STORE";

/// Where a setting comes from: what a message about it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment,
    File,
    Default,
}

/// The settings that all commands share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The store's URL, if one was chosen. May hold a password.
    pub(crate) store: Option<String>,
    pub(crate) store_from: Origin,
    pub(crate) namespace: String,
}

impl Settings {
    pub(crate) fn load(flags: &Global) -> Result<Self, Failure> {
        let file = read_file(flags)?;
        let (store, store_from) = first(flags.store.as_ref(), STORE, file.store)?;
        let (namespace, _) = first(flags.namespace.as_ref(), "HAPAX_NAMESPACE", file.namespace)?;
        if store.as_deref() == Some("") {
            return Err(
                Failure::usage("the store URL is empty").help("write --store sqlite:PATH, or leave it out")
            );
        }
        Ok(Self { store, store_from, namespace: namespace.unwrap_or_else(|| "default".into()) })
    }
}

fn first(
    flag: Option<&String>,
    variable: &str,
    file: Option<String>,
) -> Result<(Option<String>, Origin), Failure> {
    if let Some(flag) = flag {
        return Ok((Some(flag.clone()), Origin::Flag));
    }
    // One that a script left empty by mistake would lead to another store than the one that was meant.
    if variable == STORE && env::var_os(variable).is_some_and(|value| value.is_empty()) {
        return Err(Failure::config(format!("{variable} is empty"))
            .help(format!("set {variable} to sqlite:PATH, or unset it for the default store")));
    }
    if let Some(value) = of_environment(variable)? {
        return Ok((Some(value), Origin::Environment));
    }
    Ok(match file {
        Some(value) => (Some(value), Origin::File),
        None => (None, Origin::Default),
    })
}

/// A variable that is set and not empty.
fn of_environment(variable: &str) -> Result<Option<String>, Failure> {
    match env::var(variable) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::config(format!("{variable} is not UTF-8"))),
    }
}

/// What `hapax.toml` may hold.
#[derive(Debug, Default, PartialEq, Eq)]
struct File {
    store: Option<String>,
    namespace: Option<String>,
}

fn read_file(flags: &Global) -> Result<File, Failure> {
    let chosen = match &flags.config {
        Some(path) => Some(path.clone()),
        None => of_environment("HAPAX_CONFIG")?.map(PathBuf::from),
    };
    // A file that was chosen by name is used whoever owns it.
    let (path, text) = match chosen {
        Some(path) => {
            let text = fs::File::open(&path).and_then(|file| read(&file));
            let text =
                text.map_err(|error| Failure::config(format!("{} cannot be read: {error}", path.display())))?;
            (path, text)
        }
        None => match found(Path::new(FILE)) {
            Ok(None) => return Ok(File::default()),
            Ok(Some(text)) => (FILE.into(), text),
            Err(Unused::Distrusted(reason)) => {
                // Not a note: keys that go elsewhere than they were meant to can run again.
                output::warn(&format!("{FILE} is not used: {reason}"));
                return Ok(File::default());
            }
            Err(Unused::Unreadable(error)) => {
                let message = format!("{FILE} in this folder cannot be read: {error}");
                return Err(Failure::config(message).help("mend it, or name another with --config"));
            }
        },
    };
    let mut file = parse(&text)
        .map_err(|reason| Failure::config(format!("{} cannot be used: {reason}", path.display())))?;
    // As everything in a file of settings, a path counts from where the file is.
    if let (Some(url), Some(folder)) = (&file.store, path.parent()) {
        file.store = Some(anchored(url, folder));
    }
    Ok(file)
}

fn read(file: &fs::File) -> std::io::Result<String> {
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Why a file that is there is not used.
enum Unused {
    /// Somebody else may have written it.
    Distrusted(String),
    /// Its owner's settings may be in it.
    Unreadable(std::io::Error),
}

/// The text of the file in the working directory, if it is there. Whoever may write into that directory could have put
/// it there: it counts only if nobody else can have written it.
fn found(path: &Path) -> Result<Option<String>, Unused> {
    // What the name itself is, without following it.
    let Ok(link) = fs::symlink_metadata(path) else { return Ok(None) };
    trusted(&link, true).map_err(Unused::Distrusted)?;
    // A pipe would block.
    if !fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return Err(Unused::Distrusted("it is no file".into()));
    }
    let file = fs::File::open(path).map_err(Unused::Unreadable)?;
    trusted(&file.metadata().map_err(Unused::Unreadable)?, false).map_err(Unused::Distrusted)?;
    read(&file).map(Some).map_err(Unused::Unreadable)
}

#[cfg(unix)]
fn trusted(file: &fs::Metadata, may_be_link: bool) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let owner = file.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user (--config hapax.toml uses it all the same)".into());
    }
    // The mode of a link means nothing.
    let is_link = may_be_link && file.file_type().is_symlink();
    if !is_link && file.mode() & 0o022 != 0 {
        return Err("others may write to it (chmod go-w hapax.toml)".into());
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the twin of the function above")]
fn trusted(_: &fs::Metadata, _: bool) -> Result<(), String> {
    Ok(())
}

fn parse(text: &str) -> Result<File, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        // Its own words quote the line, which may hold a password.
        let line =
            error.span().map_or(1, |span| text.get(..span.start).unwrap_or_default().lines().count().max(1));
        format!("line {line}: {}", error.message())
    })?;
    let mut file = File::default();
    for (name, value) in table {
        let place = match name.as_str() {
            "store" => &mut file.store,
            "namespace" => &mut file.namespace,
            _ => {
                let name = text::shown(&name);
                return Err(match text::nearest(&name, NAMES) {
                    Some(nearest) => format!("it has no setting `{name}`: did you mean `{nearest}`?"),
                    None => format!("it has no setting `{name}`: there are {}", NAMES.join(" and ")),
                });
            }
        };
        match value {
            toml::Value::String(value) if !value.is_empty() => *place = Some(value),
            toml::Value::String(_) => return Err(format!("`{name}` is empty")),
            _ => return Err(format!("`{name}` is text: write it in quotes")),
        }
    }
    Ok(file)
}

fn anchored(url: &str, folder: &Path) -> String {
    let relative = |path: &&str| !path.is_empty() && !path.starts_with(['/', ':', '?']);
    match (url.strip_prefix("sqlite:").filter(relative), folder.to_str()) {
        (Some(path), Some(folder)) if !folder.is_empty() => format!("sqlite:{folder}/{path}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let file = parse("store = 'sqlite:a.db'\nnamespace = 'shop'\n").unwrap();
        assert_eq!(file, File { store: Some("sqlite:a.db".into()), namespace: Some("shop".into()) });
        assert_eq!(parse("").unwrap(), File::default());
    }

    #[test]
    fn unknown_settings_name_the_nearest() {
        assert!(parse("stroe = 'x'").unwrap_err().contains("did you mean `store`?"));
        assert!(parse("token = 'x'").unwrap_err().contains("there are store and namespace"));
        assert!(parse("store = 1").unwrap_err().contains("in quotes"));
        assert!(parse("namespace = ''").unwrap_err().contains("empty"));
    }

    #[test]
    fn errors_name_the_line_and_hide_its_text() {
        let error = parse("namespace = 'x'\nstore = redis://:secret@h\n").unwrap_err();
        assert!(error.starts_with("line 2"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn paths_count_from_the_file() {
        let folder = Path::new("/etc/app");
        assert_eq!(anchored("sqlite:a.db?timeout=1s", folder), "sqlite:/etc/app/a.db?timeout=1s");
        assert_eq!(anchored("sqlite:/a.db", folder), "sqlite:/a.db");
        assert_eq!(anchored("memory:", folder), "memory:");
        assert_eq!(anchored("sqlite:a.db", Path::new("")), "sqlite:a.db");
    }
}
