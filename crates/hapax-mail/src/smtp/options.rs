//! Which server, and how to use it.

use super::{
    credentials::{Credentials, Secret},
    dial::Dial,
    pool::Limits,
    stage::Timeouts,
    tls::TlsFiles,
};
use crate::{dkim::Signer, transport::InvalidTransport};
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

/// Whether, and when, the connection is encrypted.
///
/// A certificate that is not trusted ends the attempt, whatever the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Security {
    /// By STARTTLS. A server that does not offer it gets nothing.
    Required,
    /// By STARTTLS where the server offers it. Whoever sits on the way can take the offer out; so user and password are
    /// never sent in the clear, and the message is.
    Opportunistic,
    /// Never, for networks that are trusted.
    None,
    /// From the first byte on.
    Implicit,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Host {
        name: String,
        port: u16,
    },
    #[cfg(unix)]
    Socket(PathBuf),
}

impl Place {
    pub(super) fn host_and_port(&self) -> (&str, u16) {
        match self {
            Self::Host { name, port } => (name, *port),
            #[cfg(unix)]
            Self::Socket(_) => ("localhost", 0),
        }
    }
}

/// The server of a [`Smtp`](super::Smtp), and how to use it. `Debug` shows no password.
#[derive(Clone, Debug)]
pub struct SmtpOptions {
    pub(super) id: String,
    pub(super) place: Place,
    pub(super) lmtp: bool,
    pub(super) security: Security,
    pub(super) tls: TlsFiles,
    pub(super) credentials: Option<Credentials>,
    pub(super) hello_name: Option<String>,
    pub(super) times: Timeouts,
    pub(super) limits: Limits,
    pub(super) pipelining: bool,
    pub(super) relay_is_unknown: bool,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) dial: Option<Arc<dyn Dial>>,
    pub(super) signers: Vec<Signer>,
}

impl SmtpOptions {
    /// Connections at a time, unless told otherwise.
    pub const CONNECTIONS: usize = 8;

    /// A server that takes mail from its users: port 587, STARTTLS required.
    pub fn new(host: impl Into<String>) -> Self {
        Self::at("smtp", Place::Host { name: host.into(), port: 587 })
    }

    /// The same with TLS from the first byte on: port 465.
    pub fn implicit_tls(host: impl Into<String>) -> Self {
        Self::at("smtp", Place::Host { name: host.into(), port: 465 }).security(Security::Implicit)
    }

    /// A server that delivers at once and answers for each recipient: LMTP, port 24. Without TLS on this machine, else
    /// STARTTLS required.
    pub fn lmtp(host: impl Into<String>) -> Self {
        let name = host.into();
        let security = if is_here(&name) { Security::None } else { Security::Required };
        let mut options = Self::at("lmtp", Place::Host { name, port: 24 }).security(security);
        options.lmtp = true;
        options
    }

    /// The same at a socket of this machine.
    #[cfg(unix)]
    pub fn lmtp_socket(path: impl Into<PathBuf>) -> Self {
        let mut options = Self::at("lmtp", Place::Socket(path.into())).security(Security::None);
        options.lmtp = true;
        options
    }

    fn at(id: &str, place: Place) -> Self {
        Self {
            id: id.to_owned(),
            place,
            lmtp: false,
            security: Security::Required,
            tls: TlsFiles::default(),
            credentials: None,
            hello_name: None,
            times: Timeouts::default(),
            limits: Limits {
                connections: Self::CONNECTIONS,
                idle: Duration::from_secs(30),
                lifetime: Duration::from_mins(5),
                messages: 100,
            },
            pipelining: true,
            relay_is_unknown: false,
            addresses: Vec::new(),
            dial: None,
            signers: Vec::new(),
        }
    }

    /// The port.
    #[must_use]
    pub fn port(mut self, number: u16) -> Self {
        if let Place::Host { port, .. } = &mut self.place {
            *port = number;
        }
        self
    }

    /// Names it in receipts, and by default the scope of its keys: `smtp` or `lmtp` unless given.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Whether, and when, the connection is encrypted.
    #[must_use]
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Authorities to trust in place of the system's: a file of PEM.
    #[must_use]
    pub fn tls_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(path.into());
        self
    }

    /// The client's own certificate and its key: files of PEM.
    #[must_use]
    pub fn tls_client(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls.client = Some((certificate.into(), key.into()));
        self
    }

    /// Who we are.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// The user of the URL where it came without a password: one that can still be given by
    /// [`credentials`](Self::credentials).
    pub fn user_without_password(&self) -> Option<&str> {
        let credentials = self.credentials.as_ref()?;
        let lacks = matches!(&credentials.secret, Secret::Password(password) if password.is_empty());
        lacks.then_some(credentials.user.as_str())
    }

    /// Gives that user a password.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        if let Some(credentials) = &mut self.credentials {
            credentials.secret = Secret::Password(password.into());
        }
        self
    }

    /// The name said in EHLO: the address of this machine, `[192.0.2.1]`, unless given.
    #[must_use]
    pub fn hello_name(mut self, name: impl Into<String>) -> Self {
        self.hello_name = Some(name.into());
        self
    }

    /// How long each step may take.
    #[must_use]
    pub fn timeouts(mut self, times: Timeouts) -> Self {
        self.times = times;
        self
    }

    /// The most connections at a time, idle ones among them (8). Sends beyond wait for their turn.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.limits.connections = most.clamp(1, 1024);
        self
    }

    /// How long a connection is kept that has nothing to do (30 s).
    #[must_use]
    pub fn idle(mut self, time: Duration) -> Self {
        self.limits.idle = time;
        self
    }

    /// How long a connection is used (5 min).
    #[must_use]
    pub fn lifetime(mut self, time: Duration) -> Self {
        self.limits.lifetime = time;
        self
    }

    /// How many messages go over one connection (100).
    #[must_use]
    pub fn messages_per_connection(mut self, most: u32) -> Self {
        self.limits.messages = most.max(1);
        self
    }

    /// Whether commands leave together where the server allows it (RFC 2920). On unless told otherwise.
    #[must_use]
    pub fn pipelining(mut self, on: bool) -> Self {
        self.pipelining = on;
        self
    }

    /// Takes a reply `4.4.x` to a whole message for an unknown delivery. Some gateways answer so when they lost the next
    /// server after it had the message; others when they never had it.
    #[must_use]
    pub fn unknown_when_relay_is_lost(mut self, on: bool) -> Self {
        self.relay_is_unknown = on;
        self
    }

    /// Addresses to use in place of those that the name has, in this order.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Opens connections in a way of your own.
    #[must_use]
    pub fn dial(mut self, dial: impl Dial + 'static) -> Self {
        self.dial = Some(Arc::new(dial));
        self
    }

    /// Signs each message; called twice, with both.
    #[must_use]
    pub fn dkim(mut self, signer: Signer) -> Self {
        self.signers.push(signer);
        self
    }

    /// Whether a transport can be made of them. Files that they name are not read.
    pub fn check(&self) -> Result<(), InvalidTransport> {
        self.clone().checked().map(drop)
    }

    /// Whether they are for LMTP.
    pub fn is_lmtp(&self) -> bool {
        self.lmtp
    }

    /// Makes host and names such as can be sent, and says what is wrong.
    pub(super) fn checked(mut self) -> Result<Self, InvalidTransport> {
        if let Place::Host { name, port } = &mut self.place {
            *name = checked_host(name)?;
            if *port == 0 {
                return Err(InvalidTransport::new("the port is 0"));
            }
        }
        if let Some(name) = &self.hello_name
            && !is_hello_name(name)
        {
            return Err(InvalidTransport::new(
                "the name for EHLO is no host name: write `mail.example.com` or `[192.0.2.1]`",
            ));
        }
        if let Some(fault) = self.credentials.as_ref().and_then(Credentials::fault) {
            return Err(InvalidTransport::new(fault));
        }
        Ok(self)
    }
}

/// A host name, an international one too, or an address.
fn checked_host(name: &str) -> Result<String, InvalidTransport> {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Ok(name.to_owned());
    }
    let ascii = idna::domain_to_ascii(name).ok().filter(|ascii| is_hello_name(ascii));
    ascii.ok_or_else(|| InvalidTransport::new("the host is no name of a server: write `mail.example.com`"))
}

fn is_hello_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':' | b'[' | b']');
    (1..=255).contains(&name.len()) && name.bytes().all(fits)
}

/// Whether what is sent there never leaves the machine.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_made_such_as_dns_knows_them() {
        let host = |name: &str| checked_host(name);
        assert_eq!(host("mail.Bücher.example").unwrap(), "mail.xn--bcher-kva.example");
        assert_eq!(host("::1").unwrap(), "::1");
        for name in ["", "a b", "a\r\nQUIT", "a/b"] {
            assert!(host(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn what_could_not_be_said_is_refused_when_it_is_built() {
        let fault = |options: SmtpOptions| options.checked().unwrap_err().reason;
        assert!(fault(SmtpOptions::new("h").hello_name("a\r\nb")).contains("EHLO"));
        assert!(fault(SmtpOptions::new("h").port(0)).contains("port"));
        assert!(fault(SmtpOptions::new("h").credentials(Credentials::password("", "x"))).contains("user"));
        assert!(
            fault(SmtpOptions::new("h").credentials(Credentials::password("u", ""))).contains("password")
        );
        assert!(
            fault(SmtpOptions::new("h").credentials(Credentials::password("u", "a\0b"))).contains("control")
        );
    }

    #[test]
    fn lmtp_is_encrypted_unless_it_stays_on_the_machine() {
        for (host, security) in
            [("localhost", Security::None), ("::1", Security::None), ("mx.example", Security::Required)]
        {
            assert_eq!(SmtpOptions::lmtp(host).security, security);
        }
        assert_eq!(SmtpOptions::new("localhost").security, Security::Required);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let options = SmtpOptions::new("h").credentials(Credentials::password("ada", "s3cret"));
        let shown = format!("{options:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("ada"), "{shown}");
    }
}
