//! Which server, and how to use it.

use crate::{
    address::{Address, Place},
    error::config,
};
use hapax_core::{
    BackendUrl, StoreResult,
    registry::ConnectOptions,
    url::{UrlOption, number},
};
use std::{fmt, path::PathBuf, time::Duration};

/// The largest receipt that can be asked for, in MiB: Redis itself takes 512, late result included.
const MOST_MIB: u32 = 128;

/// The options of a URL.
pub(crate) const OPTIONS: &[UrlOption] = &[
    UrlOption::TIMEOUT,
    UrlOption::new(
        "prefix",
        "TEXT",
        Some("hapax"),
        "What all keys begin with; the rights of a user can be given for it",
    ),
    UrlOption::new("max_receipt", "SIZE", Some("64KiB"), "The largest receipt that is kept, up to 128MiB"),
    UrlOption::new(
        "wait_replicas",
        "N",
        Some("0"),
        "A reservation or a result counts once so many replicas have it: narrows what a failover can lose",
    ),
    UrlOption::new("protocol", "2|3", Some("2"), "The version of the protocol: RESP2 or RESP3"),
    UrlOption::new(
        "commands",
        "6.2|7",
        Some("7"),
        "Uses only what Redis 6.2 knows; found out by itself, except behind proxies that hide the version",
    ),
    UrlOption::new("db", "N", Some("0"), "The number of the database, where it is not behind the host"),
    UrlOption::new("user", "TEXT", None, "Name of the user, instead of the one before the host"),
    UrlOption::new("password", "TEXT", None, "Its password, instead of the one before the host"),
    UrlOption::new("sentinel_user", "TEXT", None, "Name of the user at the Sentinels"),
    UrlOption::new("sentinel_password", "TEXT", None, "Its password"),
    UrlOption::new(
        "tls_ca",
        "FILE",
        None,
        "With rediss://: authorities to trust instead of the system's (PEM)",
    ),
    UrlOption::new(
        "tls_cert",
        "FILE",
        None,
        "With rediss://: the client's certificate (PEM), together with tls_key",
    ),
    UrlOption::new("tls_key", "FILE", None, "With rediss://: the key of tls_cert (PEM)"),
];

/// Name and password of a user of the server. `Debug` shows neither.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::default() { "Login(none)" } else { "Login(…)" })
    }
}

/// Whom to trust, and who to be, where the connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    /// Certificate and key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// The server of a [`RedisStore`](crate::RedisStore), and how to use it.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    pub(crate) place: Place,
    pub(crate) login: Login,
    pub(crate) sentinel_login: Login,
    pub(crate) db: i64,
    /// `None`: not encrypted.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) timeout: Duration,
    pub(crate) prefix: String,
    pub(crate) max_receipt: usize,
    pub(crate) wait_replicas: u32,
    pub(crate) resp3: bool,
    pub(crate) only_6_2: bool,
}

impl RedisOptions {
    /// The largest receipt that is kept, unless told otherwise: 64 KiB.
    pub const MAX_RECEIPT: usize = 64 * 1024;

    /// One server.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self::at(Place::One(Address::Tcp(host.into(), port)))
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            login: Login::default(),
            sentinel_login: Login::default(),
            db: 0,
            tls: None,
            timeout: ConnectOptions::TIMEOUT,
            prefix: "hapax".to_owned(),
            max_receipt: Self::MAX_RECEIPT,
            wait_replicas: 0,
            resp3: false,
            only_6_2: false,
        }
    }

    /// How long a call may take, reconnecting included: 1 ms to 1 h.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_hours(1));
        self
    }

    /// The largest receipt that is kept; a larger one is refused with `store.unsupported`.
    #[must_use]
    pub fn max_receipt(mut self, bytes: usize) -> Self {
        self.max_receipt = bytes.min(MOST_MIB as usize * 1024 * 1024);
        self
    }

    /// Uses only what Redis 6.2 knows. Found out by itself; for servers and proxies that hide what they are.
    #[must_use]
    pub fn only_6_2(mut self, only: bool) -> Self {
        self.only_6_2 = only;
        self
    }

    /// Speaks RESP3 instead of RESP2.
    #[must_use]
    pub fn resp3(mut self, resp3: bool) -> Self {
        self.resp3 = resp3;
        self
    }

    /// From a URL:
    ///
    /// | form | |
    /// |---|---|
    /// | `redis://[user[:password]@]host[:port][/db]` | one server; `rediss://` with TLS |
    /// | `redis+unix:PATH` | one server on this machine; `?db=`, `?user=` and `?password=` |
    /// | `redis+cluster://[…@]host[:port],host[:port]` | a Cluster, from any of its nodes; `rediss+cluster://` |
    /// | `redis+sentinel://[…@]host[:port],host[:port]/master[/db]` | the primary that Sentinel names; `rediss+sentinel://` |
    ///
    /// User and password are percent-encoded. Options:
    ///
    /// - `timeout=5s`: of each call, reconnecting included
    /// - `prefix=hapax`: what all keys begin with; the rights of a user can be given for it
    /// - `max_receipt=64KiB`: the largest receipt that is kept
    /// - `wait_replicas=1`: a reservation or a result counts once so many replicas have it. This narrows what a failover
    ///   can lose; it closes nothing
    /// - `protocol=2|3`; `commands=6.2|7`: what to speak
    /// - `tls_ca=FILE` in place of the system's authorities; `tls_cert=FILE` and `tls_key=FILE` for the client's own
    /// - `sentinel_user=`, `sentinel_password=`: for the Sentinels
    pub fn from_url(url: &BackendUrl, connect: &ConnectOptions) -> StoreResult<Self> {
        url.allow(OPTIONS)?;
        let found = crate::address::read(url)?;
        let mut options = Self::at(found.place).timeout(connect.timeout);
        options.login = Login {
            user: url.option("user").map(str::to_owned).or(found.user),
            password: url.option("password").map(str::to_owned).or(found.password),
        };
        options.sentinel_login = Login {
            user: url.option("sentinel_user").map(str::to_owned),
            password: url.option("sentinel_password").map(str::to_owned),
        };
        options.db = match (url.option("db"), found.db) {
            (Some(_), Some(_)) => return Err(config("the number of the database stands twice in the URL")),
            (Some(text), None) => number("db", text, 0..=i64::from(u32::MAX))?,
            (None, db) => db.unwrap_or(0),
        };
        if options.db != 0 && matches!(options.place, Place::Cluster(_)) {
            return Err(config("a Cluster has no databases but 0: leave its number out"));
        }
        options.tls = tls(url)?;
        options.timeout = url.duration("timeout")?.unwrap_or(options.timeout);
        if let Some(text) = url.option("prefix") {
            if text.is_empty() || text.len() > 64 || text.contains(['{', '}']) {
                return Err(config("`prefix` is 1 to 64 bytes without `{` and `}`"));
            }
            text.clone_into(&mut options.prefix);
        }
        options.max_receipt = url.bytes("max_receipt", MOST_MIB)?.unwrap_or(options.max_receipt);
        options.wait_replicas = url.number("wait_replicas", 0..=100)?.unwrap_or(0);
        options.resp3 = url.one_of("protocol", &[("2", false), ("3", true)])?.unwrap_or(false);
        options.only_6_2 = url.one_of("commands", &[("6.2", true), ("7", false)])?.unwrap_or(false);
        Ok(options)
    }
}

fn tls(url: &BackendUrl) -> StoreResult<Option<TlsFiles>> {
    let file = |name| url.option(name).map(PathBuf::from);
    let client = match (file("tls_cert"), file("tls_key")) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return Err(config("`tls_cert` and `tls_key` go together")),
    };
    let files = TlsFiles { ca: file("tls_ca"), client };
    if url.scheme().starts_with("rediss") {
        return Ok(Some(files));
    }
    if files == TlsFiles::default() {
        return Ok(None);
    }
    Err(config("`tls_…` options need an encrypted connection: write `rediss://`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> StoreResult<RedisOptions> {
        RedisOptions::from_url(&BackendUrl::parse(url)?, &ConnectOptions::default())
    }

    fn refusal(url: &str) -> String {
        read(url).unwrap_err().to_string()
    }

    #[test]
    fn options_of_the_url_count() {
        let plain = read("redis://h").unwrap();
        assert_eq!((plain.timeout, plain.max_receipt, plain.db), (Duration::from_secs(5), 65_536, 0));
        assert_eq!((plain.prefix.as_str(), plain.wait_replicas, plain.resp3), ("hapax", 0, false));
        let set = read(
            "redis://h/3?timeout=250ms&max_receipt=1MiB&prefix=shop&wait_replicas=2&protocol=3&commands=6.2",
        );
        let set = set.unwrap();
        assert_eq!((set.timeout, set.max_receipt, set.db), (Duration::from_millis(250), 1 << 20, 3));
        assert_eq!((set.prefix.as_str(), set.wait_replicas, set.resp3), ("shop", 2, true));
        assert!(set.only_6_2 && !plain.only_6_2);
        assert_eq!(read("redis+unix:/run/r.sock?db=2&password=x").unwrap().db, 2);
    }

    #[test]
    fn wrong_options_say_what_is_right() {
        assert!(refusal("redis://h?timeot=5s").contains("`timeout`"));
        assert!(refusal("redis://h?prefix={a}").contains("without `{`"));
        assert!(refusal("redis://h/1?db=1").contains("twice"));
        assert!(refusal("redis://h?db=x").contains("`db`"));
        assert!(refusal("redis+cluster://h?db=1").contains("databases"));
        assert!(refusal("redis://h?tls_ca=x").contains("rediss://"));
        assert!(refusal("rediss://h?tls_cert=x").contains("go together"));
        assert!(refusal("redis://h?protocol=4").contains("`2` or `3`"));
    }

    #[test]
    fn the_list_of_options_is_true() {
        let read = |url: &BackendUrl| {
            let options = RedisOptions::from_url(url, &ConnectOptions::default())?;
            Ok(format!("{options:?}"))
        };
        assert_eq!(hapax_conformance::untrue_options("redis://h", OPTIONS, read), [""; 0]);
    }

    #[test]
    fn debug_shows_no_password() {
        let shown = format!("{:?}", read("redis://ada:s3cret@h?sentinel_password=s3cret").unwrap());
        assert!(!shown.contains("s3cret") && !shown.contains("ada"), "{shown}");
    }
}
