//! Which file, and how to use it.

use crate::error::config;
use hapax_core::{BackendUrl, StoreResult, registry::ConnectOptions, url::UrlOption};
use std::{path::PathBuf, time::Duration};

/// The options of a URL.
pub(crate) const OPTIONS: &[UrlOption] = &[
    UrlOption::new(
        "synchronous",
        "full|normal",
        Some("full"),
        "When a write is answered: once the disk has it, or once the system has it (the last ones may be gone after a loss of power)",
    ),
    UrlOption::TIMEOUT,
    UrlOption::new(
        "network",
        "allow|refuse",
        Some("refuse"),
        "A file on a network file system: safe only where one machine alone ever opens it",
    ),
    UrlOption::new(
        "inline",
        "yes|no",
        None,
        "Whether a lone call commits on its own thread; by default with synchronous=normal",
    ),
];

/// When an answer may be given for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Synchronous {
    /// Once the disk has it: it survives a loss of power.
    #[default]
    Full,
    /// Once the system has it: it survives the death of the process, but the last writes may be gone after a loss of
    /// power. The database stays sound.
    Normal,
}

/// The file of a [`SqliteStore`](crate::SqliteStore), and how to use it.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(crate) path: PathBuf,
    pub(crate) synchronous: Synchronous,
    pub(crate) timeout: Duration,
    pub(crate) allow_network: bool,
    inline: Option<bool>,
}

impl SqliteOptions {
    /// The file at `path`, made where it is missing, in a folder that is there; every answer survives a loss of power.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            synchronous: Synchronous::Full,
            timeout: ConnectOptions::TIMEOUT,
            allow_network: false,
            inline: None,
        }
    }

    /// When an answer may be given for a write.
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How long a call may take, waits for other processes included: 1 ms to 1 h.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_hours(1));
        self
    }

    /// Takes a file on a network file system too. Safe only as long as one machine alone ever opens it, and while that
    /// file system keeps locks.
    #[must_use]
    pub fn allow_network(mut self, allow: bool) -> Self {
        self.allow_network = allow;
        self
    }

    /// Whether a lone call commits on the thread that makes it, instead of on one for blocking work. By default it does
    /// with [`Synchronous::Normal`], where a commit takes less time than the way to another thread; with
    /// [`Synchronous::Full`] the caller's thread then waits for the disk.
    #[must_use]
    pub fn inline(mut self, inline: bool) -> Self {
        self.inline = Some(inline);
        self
    }

    /// `sqlite:rel.db`, `sqlite:/abs.db` or `sqlite:///abs.db`, with the options `synchronous=full|normal`,
    /// `timeout=5s`, `network=allow|refuse` and `inline=yes|no`. The path is taken as it stands: `%` means itself.
    pub fn from_url(url: &BackendUrl, connect: &ConnectOptions) -> StoreResult<Self> {
        url.allow(OPTIONS)?;
        let mut options = Self::new(path_of(url.rest())?).timeout(connect.timeout);
        let known = [("full", Synchronous::Full), ("normal", Synchronous::Normal)];
        options.synchronous = url.one_of("synchronous", &known)?.unwrap_or_default();
        options.timeout = url.duration("timeout")?.unwrap_or(options.timeout);
        options.allow_network =
            url.one_of("network", &[("allow", true), ("refuse", false)])?.unwrap_or(false);
        options.inline = url.one_of("inline", &[("yes", true), ("no", false)])?;
        Ok(options)
    }

    pub(crate) fn commits_inline(&self) -> bool {
        self.inline.unwrap_or(self.synchronous == Synchronous::Normal)
    }
}

fn path_of(rest: &str) -> StoreResult<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(path) => {
            let reason = format!(
                "`sqlite://{path}` names a host: write `sqlite:{path}` or, from the root, `sqlite:/{path}`"
            );
            return Err(config("read the store URL", reason));
        }
        None => rest,
    };
    match path {
        "" => Err(config("read the store URL", "`sqlite:` names no file: write `sqlite:PATH`")),
        ":memory:" => {
            let reason = "`sqlite::memory:` would be a database for each connection: write `memory:`";
            Err(config("read the store URL", reason))
        }
        path => Ok(PathBuf::from(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> StoreResult<SqliteOptions> {
        SqliteOptions::from_url(&BackendUrl::parse(url)?, &ConnectOptions::default())
    }

    fn refusal(url: &str) -> String {
        read(url).unwrap_err().to_string()
    }

    #[test]
    fn paths_are_relative_or_absolute() {
        for (url, path) in [
            ("sqlite:shop.db", "shop.db"),
            ("sqlite:a b/shop%20.db", "a b/shop%20.db"),
            ("sqlite:/var/shop.db", "/var/shop.db"),
            ("sqlite:///var/shop.db", "/var/shop.db"),
        ] {
            assert_eq!(read(url).unwrap().path, PathBuf::from(path));
        }
        assert!(refusal("sqlite:").contains("names no file"));
        assert!(refusal("sqlite://shop.db").contains("sqlite:shop.db"));
        assert!(refusal("sqlite::memory:").contains("`memory:`"));
    }

    #[test]
    fn options_of_the_url_count() {
        let plain = read("sqlite:x").unwrap();
        assert_eq!((plain.synchronous, plain.timeout), (Synchronous::Full, Duration::from_secs(5)));
        assert!(!plain.commits_inline() && !plain.allow_network);
        let set = read("sqlite:x?synchronous=normal&timeout=250ms&network=allow").unwrap();
        assert_eq!((set.synchronous, set.timeout), (Synchronous::Normal, Duration::from_millis(250)));
        assert!(set.commits_inline() && set.allow_network);
        assert!(!read("sqlite:x?synchronous=normal&inline=no").unwrap().commits_inline());
        assert!(read("sqlite:x?inline=yes").unwrap().commits_inline());
    }

    #[test]
    fn the_list_of_options_is_true() {
        let read = |url: &BackendUrl| {
            let options = SqliteOptions::from_url(url, &ConnectOptions::default())?;
            Ok(format!("{options:?}"))
        };
        assert_eq!(hapax_conformance::untrue_options("sqlite:x", OPTIONS, read), [""; 0]);
    }

    #[test]
    fn wrong_options_say_what_is_right() {
        assert!(refusal("sqlite:x?sync=full").contains("`synchronous`"));
        assert!(refusal("sqlite:x?synchronous=off").contains("`full` or `normal`"));
        assert!(refusal("sqlite:x?timeout=5").contains("write `5s`"));
    }
}
