//! Making one connection.

use crate::{
    address::{Address, Place},
    clock::ServerClock,
    error::Failure,
    keys::Keys,
    layout,
    line::{Line, Routed},
    options::{Login, RedisOptions},
    sentinel,
    tls::Tls,
};
use hapax_core::{StoreErrorKind, StoreResult, stranger};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo,
    aio::MultiplexedConnection,
    cluster::{ClusterClientBuilder, TlsMode},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

/// So many requests may wait for the task that writes them, before their callers wait instead.
const QUEUE: usize = 1024;
/// The driver's own tries to follow a moving slot, all within one call's time.
const CLUSTER_RETRIES: u32 = 8;

/// How to connect.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) options: RedisOptions,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<ServerClock>,
    /// The place, for messages.
    pub(crate) place: String,
    /// Whether the server is known to be older than Redis 7.
    pub(crate) only_6_2: AtomicBool,
    /// Whether a Redis has answered there before: what fails later is not taken for another program.
    is_known: AtomicBool,
    tls: Option<Tls>,
}

impl Connector {
    pub(crate) fn new(options: RedisOptions) -> StoreResult<Self> {
        let tls = options.tls.as_ref().map(Tls::load).transpose()?;
        let (keys, place) = (Keys::new(&options.prefix), options.place.to_string());
        let only_6_2 = AtomicBool::new(options.only_6_2);
        let is_known = AtomicBool::new(false);
        Ok(Self { options, keys, clock: Arc::default(), place, only_6_2, is_known, tls })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.options.place, Place::Cluster(_))
    }

    pub(crate) fn is_sentinel(&self) -> bool {
        matches!(self.options.place, Place::Sentinel { .. })
    }

    /// A connection to a server that can be worked with.
    pub(crate) async fn open(&self, deadline: Instant) -> Result<Line, Failure> {
        // Whatever gets lost on the way to a node has a second try.
        self.open_with(deadline, self.options.timeout / 2).await
    }

    /// A connection on which somebody may wait for an answer for so long.
    pub(crate) async fn open_to_wait(&self, deadline: Instant, wait: Duration) -> Result<Line, Failure> {
        self.open_with(deadline, wait).await
    }

    async fn open_with(&self, deadline: Instant, patience: Duration) -> Result<Line, Failure> {
        let opened = async {
            let line = match &self.options.place {
                Place::One(address) => self.one(address, &self.options.login, self.options.db).await?,
                Place::Cluster(nodes) => self.cluster(nodes, patience).await?,
                Place::Sentinel { nodes, master } => {
                    let (host, port) = sentinel::primary(self, nodes, master).await?;
                    let address = Address::Tcp(host, port);
                    let line = self.one(&address, &self.options.login, self.options.db).await?;
                    sentinel::check(&line, &address).await?;
                    line
                }
            };
            self.greet(&line).await?;
            self.is_known.store(true, Ordering::Relaxed);
            Ok(line)
        };
        match tokio::time::timeout_at(deadline, opened).await {
            Ok(opened) => opened,
            Err(_) if self.tls.is_some() => Err(Failure::timeout_of_tls(&self.place, self.options.timeout)),
            Err(_) => Err(Failure::no_connection(&self.place, self.options.timeout)),
        }
    }

    /// One server, without questions.
    pub(crate) async fn one(&self, address: &Address, login: &Login, db: i64) -> Result<Line, Failure> {
        let place = address.to_string();
        let failed = |error: std::io::Error| Failure::of_connect(&place, error.into());
        match address {
            Address::Unix(path) => {
                #[cfg(unix)]
                let stream = tokio::net::UnixStream::connect(path).await.map_err(failed)?;
                #[cfg(not(unix))]
                return Err(Failure::new(
                    StoreErrorKind::Unsupported,
                    format!("`{}` is a socket of Unix", path.display()),
                ));
                #[cfg(unix)]
                self.log_in(&place, stream, login, db).await
            }
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                match &self.tls {
                    None => self.log_in(&place, stream, login, db).await,
                    Some(tls) => self.log_in(&place, tls.wrap(host, stream).await?, login, db).await,
                }
            }
        }
    }

    async fn log_in<S>(&self, place: &str, stream: S, login: &Login, db: i64) -> Result<Line, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default().set_db(db).set_skip_set_lib_name();
        if let Some(user) = &login.user {
            info = info.set_username(user);
        }
        if let Some(password) = &login.password {
            info = info.set_password(password);
        }
        if self.options.resp3 {
            info = info.set_protocol(ProtocolVersion::RESP3);
        }
        // Deadlines are the caller's.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(QUEUE);
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        match made {
            Ok((connection, driver)) => Ok(Line::one(connection, driver)),
            Err(error) => Err(self.diagnosed(Failure::of_connect(place, error)).await),
        }
    }

    async fn cluster(&self, nodes: &[(String, u16)], patience: Duration) -> Result<Line, Failure> {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let urls =
            nodes.iter().map(|(host, port)| format!("{scheme}://{}/", Address::Tcp(host.clone(), *port)));
        let limit = self.options.timeout;
        let mut builder = ClusterClientBuilder::new(urls)
            .retries(CLUSTER_RETRIES)
            .min_retry_wait(10)
            .max_retry_wait(500)
            .connection_timeout(limit.min(Duration::from_secs(5)))
            .response_timeout(patience);
        if let Some(user) = &self.options.login.user {
            builder = builder.username(user);
        }
        if let Some(password) = &self.options.login.password {
            builder = builder.password(password);
        }
        if self.options.resp3 {
            builder = builder.use_protocol(ProtocolVersion::RESP3);
        }
        if let Some(tls) = &self.tls {
            // The driver asks the process for a provider. Where there is one already, that one is used.
            let _ = rustls::crypto::ring::default_provider().install_default();
            builder = builder.tls(TlsMode::Secure).certs(tls.certificates.clone());
        }
        let failed = |error| Failure::of_connect(&self.place, error);
        let client = builder.build().map_err(failed)?;
        Ok(Line::cluster(client.get_async_connection().await.map_err(failed)?))
    }

    /// Whoever took the connection and gave no answer may be no Redis: asks what it says by itself.
    async fn diagnosed(&self, failure: Failure) -> Failure {
        let Place::One(Address::Tcp(host, port)) = &self.options.place else { return failure };
        let is_known = self.is_known.load(Ordering::Relaxed);
        if is_known || self.tls.is_some() || !(failure.passes || failure.is_foreign) {
            return failure;
        }
        match hear(host, *port, stranger::QUESTION).await {
            Ok(said) if said.is_empty() => match hear(host, *port, stranger::QUESTION_TO_POSTGRES).await {
                Ok(said) if stranger::is_postgres(&said) => Failure::foreign(&self.place, Some("PostgreSQL")),
                _ => Failure::silent(&self.place),
            },
            Ok(said) if matches!(said.as_slice(), [b'+' | b'-' | b'$' | b':', ..]) => failure,
            Ok(said) => Failure::foreign(&self.place, stranger::kind(&said)),
            Err(_) => failure,
        }
    }

    /// The first questions: what time it is, and who made the store.
    async fn greet(&self, line: &Line) -> Result<(), Failure> {
        let key = self.keys.meta("layout");
        let questions = vec![
            Routed::new(self.is_cluster(), &key, redis::cmd("TIME")),
            Routed::new(
                self.is_cluster(),
                &key,
                redis::cmd("SET").arg(&key).arg(layout::OURS).arg("NX").take(),
            ),
            Routed::new(self.is_cluster(), &key, redis::cmd("GET").arg(&key).take()),
            // No script has this digest: only whether the user may call one is of interest, before an effect runs whose
            // receipt could not be kept.
            Routed::new(
                self.is_cluster(),
                &key,
                redis::cmd("EVALSHA").arg("0".repeat(40)).arg(1).arg(&key).take(),
            ),
        ];
        let mut answers = line.send(questions).await.into_iter();
        let mut next = || match answers.next() {
            Some(Ok(redis::Value::ServerError(error))) => Err(Failure::of_reply(&self.place, error.into())),
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => Err(Failure::of_connect(&self.place, error)),
            None => Err(Failure::nonsense(&self.place)),
        };
        let time = match next() {
            Err(failure) => return Err(self.diagnosed(failure).await),
            Ok(answer) => answer,
        };
        let (made, found) = (next(), next()?);
        match made {
            // A server without room still tells what is there, and takes what ends it.
            Err(failure) if failure.kind == StoreErrorKind::Full && found != redis::Value::Nil => {}
            made => drop(made?),
        }
        if let Err(failure) = next()
            && failure.kind == StoreErrorKind::Auth
        {
            let reason = format!(
                "the user may not run scripts on {}, which the store needs: `ACL SETUSER <user> +evalsha +eval`",
                self.place
            );
            return Err(Failure::new(StoreErrorKind::Auth, reason));
        }
        let Some(ms) = millis(&time) else {
            let reason = format!("what listens at {} does not answer like Redis", self.place);
            return Err(Failure::new(StoreErrorKind::Config, reason));
        };
        self.clock.shows(ms);
        layout::check(&self.place, &found)
    }
}

/// The first that is said there, by itself or to a question; nothing where the connection is closed without a word.
async fn hear(host: &str, port: u16, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((host, port)).await?;
    stream.write_all(question).await?;
    let mut said = vec![0; 64];
    match stream.read(&mut said).await {
        Ok(count) => said.truncate(count),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => said.clear(),
        Err(error) => return Err(error),
    }
    Ok(said)
}

/// The answer to `TIME`.
pub(crate) fn millis(time: &redis::Value) -> Option<i64> {
    let (seconds, micros): (i64, i64) = redis::from_redis_value_ref(time).ok()?;
    Some(seconds.saturating_mul(1000).saturating_add(micros / 1000))
}

/// Shared by all that hold a store.
pub(crate) type SharedConnector = Arc<Connector>;
