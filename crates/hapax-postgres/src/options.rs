//! Which database, and how to use it.

use crate::{error::config, parse};
use hapax_core::{BackendUrl, StoreResult, registry::ConnectOptions, url::UrlOption};
use sqlx::{
    ConnectOptions as _,
    postgres::{PgConnectOptions, PgSslMode},
};
use std::{env, fmt, str::FromStr, time::Duration};

/// The options of a URL.
pub(crate) const OPTIONS: &[UrlOption] = &[
    UrlOption::TIMEOUT,
    UrlOption::new(
        "schema",
        "TEXT",
        Some("hapax"),
        "The schema that holds everything of hapax, made where it is missing",
    ),
    UrlOption::new(
        "prepared",
        "auto|on|off",
        Some("auto"),
        "Names statements, which is less work for the server, and breaks behind a transaction pooler; auto: where it is certain that there is none",
    ),
    UrlOption::new("connections", "N", Some("16"), "At most so many connections, up to 1000"),
    UrlOption::new(
        "listen_url",
        "URL",
        None,
        "Where to listen for new jobs past a pooler; without it, and without prepared=on, they are looked for every 250 ms",
    ),
    UrlOption::new("host", "TEXT", None, "The host, or with a / in front the folder of the server's socket"),
    UrlOption::new("user", "TEXT", None, "Name of the user; by default PGUSER, else the login name"),
    UrlOption::new(
        "password",
        "TEXT",
        None,
        "Its password; by default PGPASSWORD, else from the password file",
    ),
    UrlOption::new(
        "sslmode",
        "disable|allow|prefer|require|verify-ca|verify-full",
        None,
        "Whether the connection is encrypted and the server is checked; by default PGSSLMODE, else prefer",
    ),
    UrlOption::new("sslrootcert", "FILE", None, "Authorities to trust (PEM)"),
    UrlOption::new("sslcert", "FILE", None, "The client's certificate (PEM)"),
    UrlOption::new("sslkey", "FILE", None, "The key of sslcert (PEM)"),
    UrlOption::new("application_name", "TEXT", Some("hapax"), "What the server's administrator sees"),
];

/// Whether statements are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// Where it is certain that no pooler can come between.
    Auto,
    On,
    Off,
}

/// The database of a [`PostgresStore`](crate::PostgresStore), and how to use it. `Debug` shows no password.
#[derive(Clone)]
pub struct PostgresOptions {
    connect: PgConnectOptions,
    pub(crate) timeout: Duration,
    pub(crate) schema: String,
    pub(crate) prepared: Prepared,
    pub(crate) connections: usize,
    listen: Option<PgConnectOptions>,
}

impl PostgresOptions {
    /// How many connections there are at most, unless told otherwise.
    pub const CONNECTIONS: usize = 16;

    /// The database that these name.
    pub fn new(connect: PgConnectOptions) -> Self {
        Self {
            connect,
            timeout: ConnectOptions::TIMEOUT,
            schema: "hapax".to_owned(),
            prepared: Prepared::Auto,
            connections: Self::CONNECTIONS,
            listen: None,
        }
    }

    /// How long a call may take, reconnecting included: 1 ms to 1 h.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_hours(1));
        self
    }

    /// The schema that holds everything of hapax, made where it is missing: small letters, digits and `_`.
    pub fn schema(mut self, schema: &str) -> StoreResult<Self> {
        schema.clone_into(&mut self.schema);
        parse::schema(schema).map(|()| self)
    }

    /// Whether statements are prepared and kept with their names, which spares the server some work. Not behind a pooler
    /// that gives each transaction another connection. Unless it is said, they are named once a connection has sent a few,
    /// where it is certain that nothing stands before the server.
    #[must_use]
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.prepared = if prepared { Prepared::On } else { Prepared::Off };
        self
    }

    /// How many connections there are at most, for each runtime that uses the store: 1 to 1000.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, 1000);
        self
    }

    /// Where to listen for new jobs: the database itself, not a pooler before it. Without it, and unless
    /// [`prepared`](Self::prepared) says that there is no pooler, workers look for jobs every 250 ms while they
    /// have none.
    #[must_use]
    pub fn listen(mut self, database: PgConnectOptions) -> Self {
        self.listen = Some(database);
        self
    }

    /// `postgres://[user[:password]@]host[:port][/database]`, user and password percent-encoded. What is not said comes
    /// from the variables `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE` and `PGSSLMODE`, and from the
    /// password file; the user is the login name of the process otherwise. Options:
    ///
    /// - `timeout=5s`: of each call, reconnecting included
    /// - `schema=hapax`: where everything of hapax is; made where it is missing
    /// - `prepared=auto|on|off`: whether statements are [prepared and named](Self::prepared). Off and auto work behind any pooler
    /// - `connections=16`: at most so many
    /// - `listen_url=postgres://user@host:5432/database`: where to [`listen`](Self::listen) for new jobs, past a pooler
    /// - `host=/FOLDER`: the folder of the server's socket; `user=`, `password=`
    /// - `sslmode=prefer|disable|allow|require|verify-ca|verify-full`, `sslrootcert=FILE`, `sslcert=FILE`, `sslkey=FILE`
    /// - `application_name=hapax`: what the server's administrator sees
    pub fn from_url(url: &BackendUrl, connect: &ConnectOptions) -> StoreResult<Self> {
        url.allow(OPTIONS)?;
        let plain = format!("postgres://{}", url.behind_slashes("host/database")?);
        let database = PgConnectOptions::from_str(&plain).map_err(|_| {
            // The cause may show what stands in the URL.
            config("the URL is none: write `postgres://user:password@host:5432/database`, percent-encoded")
        })?;
        let database = if names_user(url) { database } else { database.username(&login_name()?) };
        let mut options = Self::new(with_options(database, url)?).timeout(connect.timeout);
        options.timeout = url.duration("timeout")?.unwrap_or(options.timeout);
        if let Some(text) = url.option("schema") {
            options = options.schema(text)?;
        }
        let known = [("auto", Prepared::Auto), ("on", Prepared::On), ("off", Prepared::Off)];
        options.prepared = url.one_of("prepared", &known)?.unwrap_or(Prepared::Auto);
        options.connections = url.number("connections", 1..=1000)?.unwrap_or(options.connections);
        if let Some(text) = url.option("listen_url") {
            let database = PgConnectOptions::from_str(text).map_err(|_| {
                config("`listen_url` is no URL: write `postgres://user:password@host:5432/database`")
            })?;
            options = options.listen(database);
        }
        Ok(options)
    }

    /// A connection that stays with one session, where it is known that there is one.
    pub(crate) fn listener(&self) -> Option<PgConnectOptions> {
        let to = self.listen.as_ref().or_else(|| self.is_prepared().then_some(&self.connect))?;
        Some(to.clone().disable_statement_logging())
    }

    /// For the driver. Its log would show keys and receipts.
    pub(crate) fn driver(&self) -> PgConnectOptions {
        let options = self.connect.clone().disable_statement_logging();
        match self.prepared {
            Prepared::On => options.options(self.session()),
            // Poolers refuse settings of the session.
            Prepared::Auto => options.extra_float_digits(None),
            Prepared::Off => options.extra_float_digits(None).statement_cache_capacity(0),
        }
    }

    /// What a session says of its transactions, where statements say nothing.
    pub(crate) fn session(&self) -> [(&'static str, String); 3] {
        [
            ("default_transaction_isolation", "read committed".to_owned()),
            ("default_transaction_read_only", "off".to_owned()),
            ("statement_timeout", server_ms(self.timeout).to_string()),
        ]
    }

    /// Whether somebody has said that nothing stands before the server.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared == Prepared::On
    }

    /// Where the server listens, unless it is a socket of this machine.
    pub(crate) fn address(&self) -> Option<(&str, u16)> {
        let (host, port) = (self.connect.get_host(), self.connect.get_port());
        (self.connect.get_socket().is_none() && !host.starts_with('/')).then_some((host, port))
    }

    /// The server, for messages.
    pub(crate) fn place(&self) -> String {
        let database = self.connect.get_database().unwrap_or_else(|| self.connect.get_username());
        match self.connect.get_socket() {
            Some(folder) => format!("{} (database `{database}`)", folder.display()),
            None => {
                let (host, port) = (self.connect.get_host(), self.connect.get_port());
                format!("{host}:{port} (database `{database}`)")
            }
        }
    }
}

/// How long the server may work on a statement that has `left`: it gives up first, so that its answer is certain.
pub(crate) fn server_ms(left: Duration) -> u128 {
    (left.as_millis() * 9 / 10).max(1)
}

fn with_options(mut options: PgConnectOptions, url: &BackendUrl) -> StoreResult<PgConnectOptions> {
    if let Some(host) = url.option("host") {
        options = if host.starts_with('/') { options.socket(host) } else { options.host(host) };
    }
    if let Some(user) = url.option("user") {
        options = options.username(user);
    }
    if let Some(password) = url.option("password") {
        options = options.password(password);
    }
    let modes = [
        ("disable", PgSslMode::Disable),
        ("allow", PgSslMode::Allow),
        ("prefer", PgSslMode::Prefer),
        ("require", PgSslMode::Require),
        ("verify-ca", PgSslMode::VerifyCa),
        ("verify-full", PgSslMode::VerifyFull),
    ];
    if let Some(mode) = url.one_of("sslmode", &modes)? {
        options = options.ssl_mode(mode);
    }
    if let Some(file) = file(url, "sslrootcert")? {
        options = options.ssl_root_cert(file);
    }
    if let Some(file) = file(url, "sslcert")? {
        options = options.ssl_client_cert(file);
    }
    if let Some(file) = file(url, "sslkey")? {
        options = options.ssl_client_key(file);
    }
    Ok(options.application_name(url.option("application_name").unwrap_or("hapax")))
}

/// Whether somebody says who connects.
fn names_user(url: &BackendUrl) -> bool {
    let authority = url.rest().trim_start_matches('/').split('/').next().unwrap_or_default();
    let in_front =
        authority.rsplit_once('@').is_some_and(|(login, _)| !login.is_empty() && !login.starts_with(':'));
    in_front || url.option("user").is_some() || env::var_os("PGUSER").is_some()
}

/// Of the user that this process runs as, as other clients of PostgreSQL have it; the driver does not ask the system.
#[cfg(unix)]
fn login_name() -> StoreResult<String> {
    use nix::unistd::{Uid, User};
    match User::from_uid(Uid::effective()) {
        Ok(Some(user)) => Ok(user.name),
        _ => Err(config("the user of this process has no name: write `postgres://USER@HOST/DATABASE`")),
    }
}

#[cfg(not(unix))]
fn login_name() -> StoreResult<String> {
    env::var("USERNAME").map_err(|_| config("write the user into the URL: `postgres://USER@HOST/DATABASE`"))
}

/// A file that the driver reads when it connects; its error would name no file.
fn file<'a>(url: &'a BackendUrl, name: &str) -> StoreResult<Option<&'a str>> {
    let Some(path) = url.option(name) else { return Ok(None) };
    match std::fs::File::open(path) {
        Ok(_) => Ok(Some(path)),
        Err(error) => Err(config(format!("`{name}={path}` cannot be read: {error}"))),
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("place", &self.place())
            .field("timeout", &self.timeout)
            .field("schema", &self.schema)
            .field("prepared", &self.prepared)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> StoreResult<PostgresOptions> {
        PostgresOptions::from_url(&BackendUrl::parse(url)?, &ConnectOptions::default())
    }

    #[test]
    fn options_of_the_url_count() {
        let plain = read("postgres://h/shop").unwrap();
        assert_eq!((plain.timeout, &*plain.schema), (Duration::from_secs(5), "hapax"));
        assert_eq!(plain.prepared, Prepared::Auto);
        let set = read("postgresql://h/shop?timeout=250ms&schema=keys_2&prepared=on&connections=3").unwrap();
        assert_eq!((set.timeout, &*set.schema), (Duration::from_millis(250), "keys_2"));
        assert!(set.is_prepared() && set.connections == 3);
        assert_eq!(set.place(), "h:5432 (database `shop`)");
        let socket = read("postgres:///shop?host=/run/pg&user=ada").unwrap();
        assert_eq!(socket.place(), "/run/pg (database `shop`)");
    }

    #[test]
    fn the_list_of_options_is_true() {
        let read = |url: &BackendUrl| {
            let options = PostgresOptions::from_url(url, &ConnectOptions::default())?;
            Ok(format!("{options:?} {:?}", options.connect.get_application_name()))
        };
        assert_eq!(hapax_conformance::untrue_options("postgres://h/d", OPTIONS, read), [""; 0]);
    }

    #[test]
    fn wrong_options_say_what_is_right() {
        for (url, right) in [
            ("postgres:h", "postgres://host/database"),
            ("postgres://h:x/d", "percent-encoded"),
            ("postgres://h/d?schemas=x", "`schema`"),
            ("postgres://h/d?schema=Hapax", "small letters"),
            ("postgres://h/d?schema=pg_x", "small letters"),
            ("postgres://h/d?prepared=yes", "`auto` or `on` or `off`"),
            ("postgres://h/d?timeout=5", "`5s`"),
            ("postgres://h/d?connections=0", "1 to 1000"),
            ("postgres://h/d?sslmode=no", "`verify-full`"),
        ] {
            let text = read(url).unwrap_err().to_string();
            assert!(text.contains(right), "{url}: {text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_user_is_the_login_name_unless_it_is_said() {
        let user = |url: &str| read(url).unwrap().connect.get_username().to_owned();
        for said in [
            "postgres://ada@h/d",
            "postgres://ada:x@h/d",
            "postgres:///d?user=ada",
            "postgres://h/d?user=ada",
        ] {
            assert_eq!(user(said), "ada", "{said}");
        }
        let id = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
        let name = env::var("PGUSER").unwrap_or_else(|_| String::from_utf8(id).unwrap().trim().to_owned());
        for left_out in ["postgres://h/d", "postgres:///d?host=/run/pg", "postgres://:secret@h/d"] {
            assert_eq!(user(left_out), name, "{left_out}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let options = read("postgres://ada:s3cr3t@h/d").unwrap();
        assert!(!format!("{options:?}").contains("s3cr3t"));
        assert!(!read("postgres://ada:s3cr3t@h:x/d").unwrap_err().to_string().contains("s3cr3t"));
    }
}
