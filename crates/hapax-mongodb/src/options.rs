//! Which database, and how to use it.

use crate::{error::config, parse};
use hapax_core::{BackendUrl, Clock, StoreResult, SystemClock, registry::ConnectOptions, url::UrlOption};
use mongodb::{
    error::ErrorKind,
    options::{Acknowledgment, ClientOptions, ReadPreference, SelectionCriteria, Tls},
};
use std::{fmt, sync::Arc, time::Duration};

/// Accepted, so that a URL may be shared with other programs.
const OVERRULED: &str = "Changes nothing: every write waits for the majority, every read is of the primary";

/// The options of a URL: ours, then the driver's.
pub(crate) const OPTIONS: &[UrlOption] = &[
    UrlOption::TIMEOUT,
    UrlOption::new(
        "collection",
        "TEXT",
        Some("idempotency"),
        "Where the records are; made where it is missing",
    ),
    UrlOption::new("appName", "TEXT", Some("hapax"), "What the server's administrator sees"),
    UrlOption::new("authMechanism", "TEXT", None, "How to log in, such as SCRAM-SHA-256 or MONGODB-X509"),
    UrlOption::new("authMechanismProperties", "TEXT", None, "What that way of logging in needs"),
    UrlOption::new("authSource", "TEXT", None, "The database that knows the user"),
    UrlOption::new(
        "directConnection",
        "true|false",
        None,
        "Talks to the named server alone, whatever set it belongs to",
    ),
    UrlOption::new("heartbeatFrequencyMS", "N", None, "How often each server is looked at, in milliseconds"),
    UrlOption::new("journal", "true|false", None, OVERRULED),
    UrlOption::new("loadBalanced", "true|false", None, "Whether a load balancer stands in front"),
    UrlOption::new(
        "localThresholdMS",
        "N",
        None,
        "How much slower than the nearest a server may be, in milliseconds",
    ),
    UrlOption::new(
        "maxIdleTimeMS",
        "N",
        None,
        "A connection that is idle for so long is closed, in milliseconds",
    ),
    UrlOption::new("maxPoolSize", "N", None, "At most so many connections to a server"),
    UrlOption::new("minPoolSize", "N", None, "At least so many connections to a server"),
    UrlOption::new("readConcernLevel", "TEXT", None, OVERRULED),
    UrlOption::new(
        "readPreference",
        "primary|primaryPreferred|secondary|secondaryPreferred|nearest",
        None,
        OVERRULED,
    ),
    UrlOption::new("replicaSet", "TEXT", None, "The name that the replica set must have"),
    UrlOption::new("retryReads", "true|false", None, OVERRULED),
    UrlOption::new("retryWrites", "true|false", None, OVERRULED),
    UrlOption::new("srvMaxHosts", "N", None, "With mongodb+srv: at most so many of the servers found"),
    UrlOption::new("srvServiceName", "TEXT", None, "With mongodb+srv: the service to look for"),
    UrlOption::new("ssl", "true|false", None, "The same as tls"),
    UrlOption::new("tls", "true|false", None, "Whether the connection is encrypted"),
    UrlOption::new(
        "tlsAllowInvalidCertificates",
        "true|false",
        None,
        "Takes any certificate of the server: for tests",
    ),
    UrlOption::new("tlsCAFile", "FILE", None, "Authorities to trust (PEM)"),
    UrlOption::new(
        "tlsCertificateKeyFile",
        "FILE",
        None,
        "The client's certificate and key in one file (PEM)",
    ),
    UrlOption::new("tlsInsecure", "true|false", None, "Takes any certificate of the server: for tests"),
    UrlOption::new("w", "TEXT", None, OVERRULED),
    UrlOption::new("wtimeoutMS", "N", None, OVERRULED),
];
/// So many are ours.
const OURS: usize = 2;
/// Finding a server, where the call itself may take longer.
const CONNECT: Duration = Duration::from_secs(5);

/// The database of a [`MongoStore`](crate::MongoStore), and how to use it. `Debug` shows no password.
#[derive(Clone)]
pub struct MongoOptions {
    connect: ClientOptions,
    pub(crate) database: String,
    pub(crate) collection: String,
    pub(crate) timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    /// What the URL asked for and does not get.
    pub(crate) overruled: Vec<&'static str>,
}

impl MongoOptions {
    /// The database, unless told otherwise.
    pub const DATABASE: &'static str = "hapax";
    /// The collection, unless told otherwise.
    pub const COLLECTION: &'static str = "idempotency";

    /// The servers that these name, and their default database. Write concern and read preference are not theirs to
    /// say: every write waits for the majority, and every read is of the primary.
    pub fn new(connect: ClientOptions) -> StoreResult<Self> {
        let database = connect.default_database.clone().unwrap_or_else(|| Self::DATABASE.to_owned());
        parse::database(&database)?;
        let overruled = overruled(&connect);
        Ok(Self {
            connect,
            database,
            collection: Self::COLLECTION.to_owned(),
            timeout: ConnectOptions::TIMEOUT,
            clock: Arc::new(SystemClock),
            overruled,
        })
    }

    /// How long a call may take, reconnecting included: 1 ms to 1 h.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_hours(1));
        self
    }

    /// The collection of records, made where it is missing; beside it lie those with `_meta` added, for what the store knows
    /// of itself, with `_lock` and with `_limit`.
    pub fn collection(mut self, collection: &str) -> StoreResult<Self> {
        parse::collection(collection)?;
        collection.clone_into(&mut self.collection);
        Ok(self)
    }

    /// Another clock, for tests. Of its readings only the boot time counts: it carries on what the server showed.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// `mongodb://[user[:password]@]host[:port][,host…][/database]`, or `mongodb+srv://host[/database]`, user and
    /// password percent-encoded. The database is `hapax` unless named. Options:
    ///
    /// - `timeout=5s`: of each call, reconnecting included
    /// - `collection=idempotency`: where the records are; made where it is missing
    /// - `replicaSet=`, `directConnection=`, `authSource=`, `authMechanism=`, `tls=true`, `tlsCAFile=FILE`,
    ///   `tlsCertificateKeyFile=FILE`, `maxPoolSize=`, `appName=` and others, as the driver knows them
    ///
    /// `w`, `journal`, `wtimeoutMS`, `readPreference`, `readConcernLevel`, `retryWrites` and `retryReads` are accepted,
    /// so that a URL may be shared with other programs, and change nothing. `doctor` says where they ask for less.
    pub async fn from_url(url: &BackendUrl, connect: &ConnectOptions) -> StoreResult<Self> {
        url.allow(OPTIONS)?;
        let scheme = url.scheme();
        let authority = url.behind_slashes("host/database")?;
        let given: Vec<_> = OPTIONS
            .iter()
            .skip(OURS)
            .filter_map(|UrlOption { name, .. }| url.option(name).map(|value| format!("{name}={value}")))
            .collect();
        let path = if authority.contains('/') { "" } else { "/" };
        let plain = format!("{scheme}://{authority}{path}?{}", given.join("&"));
        let parsed = tokio::time::timeout(connect.timeout, ClientOptions::parse(plain)).await;
        let Ok(parsed) = parsed else {
            return Err(config(
                "the name in the URL was not resolved in time: does the network's DNS answer?",
            ));
        };
        // The cause may show what stands in the URL.
        let parsed = parsed.map_err(|error| match *error.kind {
            ErrorKind::DnsResolve { .. } => {
                config("the name in the URL has no servers of MongoDB in the DNS: is it right?")
            }
            _ => config(
                "the URL is none: write `mongodb://user:password@host:27017/database`, percent-encoded, and each option \
                 as the driver documents it",
            ),
        })?;
        let mut options = Self::new(parsed)?.timeout(connect.timeout);
        options.timeout = url.duration("timeout")?.unwrap_or(options.timeout);
        if let Some(text) = url.option("collection") {
            options = options.collection(text)?;
        }
        Ok(options)
    }

    /// For the driver. What it would do by itself is said with each command, or done by the store: a step that is sent
    /// again finds its own token.
    pub(crate) fn driver(&self) -> ClientOptions {
        let mut options = self.connect.clone();
        let connect = self.timeout.min(CONNECT);
        options.connect_timeout = Some(connect);
        // Sooner than the call gives up: it is then certain that nothing was sent.
        options.server_selection_timeout = Some(self.timeout * 9 / 10);
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        (options.retry_reads, options.retry_writes) = (Some(false), Some(false));
        (options.write_concern, options.read_concern) = (None, None);
        options.app_name.get_or_insert_with(|| "hapax".to_owned());
        options
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.connect.tls, Some(Tls::Enabled(_)))
    }

    /// How many servers the URL names.
    pub(crate) fn hosts(&self) -> usize {
        self.connect.hosts.len()
    }

    /// The servers, for messages.
    pub(crate) fn place(&self) -> String {
        let hosts: Vec<_> = self.connect.hosts.iter().map(ToString::to_string).collect();
        format!("{} (database `{}`)", hosts.join(","), self.database)
    }
}

/// What would take a promise away, and is not done.
fn overruled(connect: &ClientOptions) -> Vec<&'static str> {
    let mut found = Vec::new();
    let is_primary = match &connect.selection_criteria {
        None => true,
        Some(SelectionCriteria::ReadPreference(preference)) => *preference == ReadPreference::Primary,
        Some(_) => false,
    };
    if !is_primary {
        found.push("readPreference");
    }
    if let Some(concern) = &connect.write_concern {
        if concern.w.as_ref().is_some_and(|w| *w != Acknowledgment::Majority) {
            found.push("w");
        }
        if concern.journal == Some(false) {
            found.push("journal");
        }
    }
    found
}

impl fmt::Debug for MongoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoOptions")
            .field("place", &self.place())
            .field("collection", &self.collection)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(url: &str) -> StoreResult<MongoOptions> {
        MongoOptions::from_url(&BackendUrl::parse(url)?, &ConnectOptions::default()).await
    }

    #[tokio::test]
    async fn options_of_the_url_count() {
        let plain = read("mongodb://h").await.unwrap();
        assert_eq!((plain.timeout, &*plain.collection), (Duration::from_secs(5), "idempotency"));
        assert_eq!(plain.place(), "h:27017 (database `hapax`)");
        let set =
            read("mongodb://a,b:7/shop?timeout=250ms&collection=keys&replicaSet=rs&tls=true").await.unwrap();
        assert_eq!((set.timeout, &*set.collection), (Duration::from_millis(250), "keys"));
        assert_eq!(set.place(), "a:27017,b:7 (database `shop`)");
        assert!(set.is_tls() && set.hosts() == 2);
        assert_eq!(set.driver().repl_set_name.as_deref(), Some("rs"));
    }

    #[tokio::test]
    async fn a_url_that_asks_for_less_does_not_get_it() {
        let url = "mongodb://h/?readPreference=secondary&w=1&journal=false&retryWrites=true&readConcernLevel=available";
        let options = read(url).await.unwrap();
        assert_eq!(options.overruled, ["readPreference", "w", "journal"]);
        let driver = options.driver();
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        assert_eq!(driver.selection_criteria, Some(primary));
        assert!(driver.write_concern.is_none() && driver.read_concern.is_none());
        assert_eq!(driver.retry_writes, Some(false));
        let enough = read("mongodb://h/?readPreference=primary&w=majority").await.unwrap();
        assert!(enough.overruled.is_empty());
    }

    #[test]
    fn the_list_of_options_is_true() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let read = |url: &BackendUrl| {
            let options = runtime.block_on(MongoOptions::from_url(url, &ConnectOptions::default()))?;
            Ok(format!("{options:?} {:?}", options.driver().app_name))
        };
        // The driver knows these with a name of the DNS alone.
        let of_srv = |option: &&UrlOption| option.name.starts_with("srv");
        let (srv, others): (Vec<_>, Vec<_>) = OPTIONS.iter().partition(of_srv);
        let others: Vec<_> = others.into_iter().copied().collect();
        assert_eq!(srv.len(), 2);
        assert_eq!(hapax_conformance::untrue_options("mongodb://h/", &others, read), [""; 0]);
        assert!(OPTIONS.iter().take(OURS).all(|option| option.default.is_some()));
    }

    #[tokio::test]
    async fn wrong_options_say_what_is_right() {
        for (url, right) in [
            ("mongodb:h", "mongodb://host/database"),
            ("mongodb://h:x/d", "percent-encoded"),
            ("mongodb://h/d?colection=x", "`collection`"),
            ("mongodb://h/d?collection=$x", "letters"),
            ("mongodb://h/admin", "`admin`"),
            ("mongodb://h/d?timeout=5", "`5s`"),
            ("mongodb://h/d?directConnection=perhaps", "as the driver documents it"),
        ] {
            let text = read(url).await.unwrap_err().to_string();
            assert!(text.contains(right), "{url}: {text}");
        }
    }

    #[tokio::test]
    async fn passwords_are_not_shown() {
        let options = read("mongodb://ada:s3cr3t@h/d").await.unwrap();
        assert!(!format!("{options:?}").contains("s3cr3t"));
        for wrong in ["mongodb://ada:s3cr3t@h:x/d", "mongodb://ada:s3cr3t@h/d?w=s3cr3t&w2=s3cr3t"] {
            let error = read(wrong).await.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cr3t"));
        }
    }
}
