//! Which drivers are there: an explicit value, no global.

use crate::{Backend, BackendUrl, BoxFuture, StoreError, StoreErrorKind, StoreResult, memory, url::UrlHelp};
use std::{fmt, time::Duration};

/// How to connect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Deadline of each call to the store.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// The default deadline of a call.
    pub const TIMEOUT: Duration = Duration::from_secs(5);
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { timeout: Self::TIMEOUT }
    }
}

/// Connects to one kind of store.
#[derive(Clone, Copy)]
pub struct Driver {
    /// `sqlite`, `redis`, …
    pub name: &'static str,
    /// The schemes of its URLs.
    pub schemes: &'static [&'static str],
    /// What its URLs look like.
    pub url: UrlHelp,
    /// Connects.
    pub connect: for<'a> fn(&'a BackendUrl, &'a ConnectOptions) -> BoxFuture<'a, StoreResult<Backend>>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("name", &self.name)
            .field("schemes", &self.schemes)
            .finish_non_exhaustive()
    }
}

/// Schemes that some build of hapax serves, and the feature that brings each.
const KNOWN: &[(&str, &str)] = &[
    ("sqlite", "sqlite"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("mongodb", "mongodb"),
    ("mongodb+srv", "mongodb"),
    ("redis", "redis"),
    ("rediss", "redis"),
    ("redis+unix", "redis"),
    ("redis+cluster", "redis"),
    ("rediss+cluster", "redis"),
    ("redis+sentinel", "redis"),
    ("rediss+sentinel", "redis"),
];

/// The drivers of this program.
#[derive(Clone, Debug)]
pub struct Registry {
    drivers: Vec<Driver>,
}

impl Registry {
    /// With the memory store alone.
    pub fn new() -> Self {
        Self { drivers: vec![memory::DRIVER] }
    }

    /// With one more driver.
    #[must_use]
    pub fn with(mut self, driver: Driver) -> Self {
        self.drivers.push(driver);
        self
    }

    /// All of them, the memory store first.
    pub fn drivers(&self) -> &[Driver] {
        &self.drivers
    }

    /// Connects to whatever the URL names.
    pub async fn connect(&self, url: &BackendUrl, options: &ConnectOptions) -> StoreResult<Backend> {
        let driver = self.drivers.iter().find(|driver| driver.schemes.contains(&url.scheme()));
        match driver {
            Some(driver) => (driver.connect)(url, options).await,
            None => Err(self.unknown(url.scheme())),
        }
    }

    fn unknown(&self, scheme: &str) -> StoreError {
        let reason = match KNOWN.iter().find(|(known, _)| *known == scheme) {
            Some((_, feature)) => {
                format!("`{scheme}:` is not in this build: build it with the feature `{feature}`")
            }
            None => {
                let schemes: Vec<_> =
                    self.drivers.iter().flat_map(|d| d.schemes).map(|s| format!("{s}:")).collect();
                format!("`{scheme}:` is no store of this build, which has {}", schemes.join(", "))
            }
        };
        StoreError::new(StoreErrorKind::Config, "hapax", "connect", reason)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unknown_schemes_say_what_there_is() {
        let ask = async |url: &str| {
            let url = BackendUrl::parse(url).unwrap();
            Registry::new().connect(&url, &ConnectOptions::default()).await
        };
        assert!(ask("memory:").await.is_ok());
        assert!(ask("sqlite:x.db").await.unwrap_err().to_string().contains("feature `sqlite`"));
        assert!(ask("redis+cluster://h").await.unwrap_err().to_string().contains("feature `redis`"));
        assert!(ask("mongodb+srv://h").await.unwrap_err().to_string().contains("feature `mongodb`"));
        assert!(ask("mysql://h").await.unwrap_err().to_string().contains("memory:"));
    }
}
