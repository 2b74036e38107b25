//! Opening the store that the settings name.

use crate::{
    config::{Origin, Settings},
    failure::Failure,
    text,
};
use hapax::{BackendUrl, Hapax, core::registry::ConnectOptions, sqlite::SqliteOptions};
use std::{
    env,
    fmt::Write as _,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Whether another run has to find what this one keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It has to: a store that ends with the process is refused.
    Needed,
    /// It need not.
    Unneeded,
}

/// The store, opened, under the namespace of the settings.
pub(crate) async fn open(settings: &Settings, sharing: Sharing) -> Result<Hapax, Failure> {
    let url = url(settings)?;
    if sharing == Sharing::Needed && BackendUrl::parse(&url)?.scheme() == "memory" {
        let reason = "`memory:` ends with this process, so no later run would find what this one keeps";
        return Err(Failure::usage(reason).help("use --store sqlite:PATH, or leave --store out"));
    }
    Ok(hapax::connect(url).namespace(settings.namespace.clone()).await?)
}

/// As [`open`], for a command of a few steps: where the store is a file, the thread that asks for a step commits it. The way to
/// a thread for blocking work and back takes longer than most commits, and on a busy machine that thread waits for its turn.
pub(crate) async fn open_inline(settings: &Settings, sharing: Sharing) -> Result<Hapax, Failure> {
    let store = Some(inline(url(settings)?)?);
    open(&Settings { store, ..settings.clone() }, sharing).await
}

/// The URL, with `inline=yes` where it is one of SQLite that does not say otherwise.
pub(crate) fn inline(mut url: String) -> Result<String, Failure> {
    let parsed = BackendUrl::parse(&url)?;
    if parsed.scheme() == "sqlite" && parsed.option("inline").is_none() {
        url.push_str(if url.contains('?') { "&inline=yes" } else { "?inline=yes" });
    }
    Ok(url)
}

/// The URL of the settings, or of the default store, whose folder is made where it is missing.
pub(crate) fn url(settings: &Settings) -> Result<String, Failure> {
    if let Some(url) = &settings.store {
        return Ok(url.clone());
    }
    let folder = data_folder()?.join("hapax");
    if let Err(error) = make(&folder) {
        let message = format!("the folder of the store, {}, cannot be made: {error}", folder.display());
        return Err(Failure::new(crate::exit::Exit::Unreachable, "store.unavailable", message)
            .help("set XDG_DATA_HOME, or choose another place with --store sqlite:PATH"));
    }
    let path = folder.join("hapax.db");
    // `?` would start the options of the URL.
    match path.to_str().filter(|path| !path.contains('?')) {
        Some(path) => Ok(format!("sqlite:{path}")),
        None => Err(Failure::config("the path of the default store cannot be written as a URL")
            .help("choose another place with --store sqlite:PATH")),
    }
}

/// What to say where the store is a file that is not there yet: nothing is kept then, and opening it would make it. Where
/// not even the folder of a file that was named is there, opening it tells.
pub(crate) fn missing(settings: &Settings) -> Result<Option<String>, Failure> {
    let is_there =
        |path: &Path| fs::metadata(path).map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true);
    let path = match &settings.store {
        None => data_folder()?.join("hapax").join("hapax.db"),
        Some(url) => match BackendUrl::parse(url)? {
            url if url.scheme() == "sqlite" => {
                // What is wrong in it is wrong whether or not the file is there.
                SqliteOptions::from_url(&url, &ConnectOptions::default())?;
                let rest = url.rest();
                let path = PathBuf::from(
                    rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest),
                );
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                if folder.is_some_and(|folder| !is_there(folder)) {
                    return Ok(None);
                }
                path
            }
            _ => return Ok(None),
        },
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    // Whatever else may be wrong there, opening it tells.
    Ok((!is_there(&path)).then(|| {
        let shown = text::shown(&path.display().to_string());
        format!("the store {shown} is not there yet: nothing is kept, and the first command that keeps something makes it")
    }))
}

/// The flags that lead another command to the same store and namespace, for messages.
pub(crate) fn flags(settings: &Settings) -> String {
    let mut flags = String::new();
    if let (Some(url), Origin::Flag) = (&settings.store, settings.store_from) {
        // Shown as it is only if nothing in it had to be hidden.
        let shown = BackendUrl::parse(url).map(|url| url.to_string()).unwrap_or_default();
        let _ = write!(flags, " --store {}", if shown == *url { text::quoted(url) } else { "URL".into() });
    }
    if settings.namespace != "default" {
        let _ = write!(flags, " --namespace {}", text::quoted(&settings.namespace));
    }
    flags
}

fn data_folder() -> Result<PathBuf, Failure> {
    // A relative path is to be ignored, says the specification of that variable.
    let absolute = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share"))).ok_or_else(
        || {
            Failure::config(
                "there is no place for the store: neither XDG_DATA_HOME nor HOME is an absolute path",
            )
            .help("choose a place with --store sqlite:PATH")
        },
    )
}

fn make(folder: &PathBuf) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(store: &str, namespace: &str) -> Settings {
        Settings { store: Some(store.into()), store_from: Origin::Flag, namespace: namespace.into() }
    }

    #[tokio::test]
    async fn memory_is_refused_where_runs_have_to_share_it() {
        let settings = settings("memory:", "default");
        assert_eq!(open(&settings, Sharing::Needed).await.unwrap_err().exit, crate::exit::Exit::Usage);
        assert!(open(&settings, Sharing::Unneeded).await.is_ok());
    }

    #[test]
    fn flags_in_messages_hide_passwords_and_options() {
        assert_eq!(flags(&settings("sqlite:a b.db", "default")), " --store 'sqlite:a b.db'");
        assert_eq!(flags(&settings("redis://:secret@h", "shop")), " --store URL --namespace shop");
        assert_eq!(flags(&settings("sqlite:a.db?timeout=1s", "default")), " --store URL");
    }
}
