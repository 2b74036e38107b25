//! `smtp://user:password@host:587?tls=required`.

use super::{
    credentials::{Credentials, Mechanism, Secret},
    options::{Security, SmtpOptions},
};
use crate::{dkim::Signer, transport::InvalidTransport};
use hapax_core::{
    BackendUrl, StoreError,
    url::{UrlHelp, UrlOption, number},
};
use percent_encoding::percent_decode_str;
use std::path::PathBuf;

/// The URLs of SMTP and LMTP servers, for people.
pub const URLS: UrlHelp = UrlHelp::new(
    &[
        (
            "smtp://USER:PASSWORD@HOST:587",
            "A server that takes mail from its users, encrypted by STARTTLS; 587 unless given",
        ),
        ("smtps://USER:PASSWORD@HOST:465", "The same, encrypted from the first byte on; 465 unless given"),
        ("lmtp://HOST:24", "A server that delivers at once, and answers for each recipient; 24 unless given"),
        ("lmtp+unix:PATH", "The same at a socket of this machine"),
    ],
    OPTIONS,
    "smtp://app:s%40fe@mail.example.com?tls_ca=/etc/app/ca.pem&connections=4",
);

const OPTIONS: &[UrlOption] = &[
    UrlOption::new(
        "tls",
        "required|opportunistic|none",
        Some("required"),
        "Whether STARTTLS has to be offered; with lmtp:// on this machine none unless given",
    ),
    UrlOption::new("tls_ca", "FILE", None, "Authorities to trust instead of the system's (PEM)"),
    UrlOption::new("tls_cert", "FILE", None, "The client's certificate (PEM), together with tls_key"),
    UrlOption::new("tls_key", "FILE", None, "The key of tls_cert (PEM)"),
    UrlOption::new(
        "auth",
        "plain|login|xoauth2|oauthbearer",
        None,
        "The way to log in, instead of the best that the server offers; the last two take a token as password",
    ),
    UrlOption::new(
        "password_file",
        "FILE",
        None,
        "Password or token, read for each connection, so that it may change",
    ),
    UrlOption::new("helo", "NAME", None, "The name said in EHLO, instead of this machine's address"),
    UrlOption::new("connections", "N", Some("8"), "The most connections at a time"),
    UrlOption::new("messages", "N", Some("100"), "So many messages go over one connection"),
    UrlOption::new("idle", "DURATION", Some("30s"), "A connection with nothing to do is closed after that"),
    UrlOption::new("lifetime", "DURATION", Some("5m"), "No connection is used for longer"),
    UrlOption::new("pipelining", "on|off", Some("on"), "Sends commands together where the server allows it"),
    UrlOption::new("connect_timeout", "DURATION", Some("30s"), "Limit of each address of the host"),
    UrlOption::new(
        "timeout",
        "DURATION",
        None,
        "Limit of each step up to the end of a message, instead of the 2 to 5 minutes of RFC 5321",
    ),
    UrlOption::new(
        "reply_timeout",
        "DURATION",
        Some("10m"),
        "Limit of the reply to a whole message; a short one is what makes outcomes unknown",
    ),
    UrlOption::new(
        "on_4_4",
        "failed|unknown",
        Some("failed"),
        "What a reply 4.4.x to a whole message means: gateways may answer so that had handed it on",
    ),
    UrlOption::new("dkim_key", "FILE", None, "Signs each message with this key, RSA or Ed25519 (PEM)"),
    UrlOption::new("dkim_selector", "NAME", None, "With dkim_key: the name of its public half in DNS"),
    UrlOption::new("dkim_domain", "DOMAIN", None, "With dkim_key: the domain that signs"),
];

impl SmtpOptions {
    /// From a URL: [`URLS`] lists forms and options. User and password are percent-encoded. Files that it names are read
    /// when the transport is made, the key of DKIM now.
    pub fn parse(text: &str) -> Result<Self, InvalidTransport> {
        let url = BackendUrl::parse(text).map_err(|error| invalid(&error))?;
        let mut options = place(&url)?;
        allow(text)?;
        options.security = security(&url, options.security)?;
        tls(&url, &mut options)?;
        login(&url, &mut options)?;
        times(&url, &mut options)?;
        limits(&url, &mut options)?;
        dkim(&url, &mut options)?;
        options.hello_name = url.option("helo").map(str::to_owned);
        options.checked_but_for_the_password()
    }

    /// A password may still come from elsewhere.
    fn checked_but_for_the_password(self) -> Result<Self, InvalidTransport> {
        if self.user_without_password().is_none() {
            return self.checked();
        }
        let Self { credentials, .. } = self.clone();
        Ok(Self { credentials, ..Self { credentials: None, ..self }.checked()? })
    }
}

fn wrong(reason: impl Into<String>) -> InvalidTransport {
    InvalidTransport::new(reason)
}

fn invalid(error: &StoreError) -> InvalidTransport {
    wrong(error.reason())
}

/// Options that are not known, with the nearest name that is.
fn allow(text: &str) -> Result<(), InvalidTransport> {
    let query = text.split_once('?').map_or("", |(_, query)| query);
    for name in query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name) {
        if OPTIONS.iter().any(|known| known.name == name) {
            continue;
        }
        let likeness = |option: &&UrlOption| strsim::normalized_damerau_levenshtein(name, option.name);
        let nearest = OPTIONS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let nearest = nearest.map_or("", |option| option.name);
        return Err(wrong(format!(
            "the URL of a mail server has no option `{name}`: did you mean `{nearest}`?"
        )));
    }
    Ok(())
}

fn place(url: &BackendUrl) -> Result<SmtpOptions, InvalidTransport> {
    if url.scheme() == "lmtp+unix" {
        let path = url.rest().strip_prefix("//").unwrap_or(url.rest());
        if path.is_empty() {
            return Err(wrong("`lmtp+unix:` names no socket: write `lmtp+unix:/run/dovecot/lmtp`"));
        }
        #[cfg(unix)]
        return Ok(SmtpOptions::lmtp_socket(path));
        #[cfg(not(unix))]
        return Err(wrong("there are no such sockets on this system: write `lmtp://`"));
    }
    let rest = url.behind_slashes("mail.example.com").map_err(|error| invalid(&error))?;
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains('/') {
        return Err(wrong("after the host of a mail server comes no path"));
    }
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    let (name, port) = host_and_port(host)?;
    let name = decoded(name)?;
    let mut options = match url.scheme() {
        "smtp" => SmtpOptions::new(name),
        "smtps" => SmtpOptions::implicit_tls(name),
        "lmtp" => SmtpOptions::lmtp(name),
        other => {
            return Err(wrong(format!(
                "`{other}:` is no mail server: write `smtp://`, `smtps://` or `lmtp://`"
            )));
        }
    };
    if let Some(port) = port {
        options = options.port(number("port", port, 1..=u16::MAX).map_err(|error| invalid(&error))?);
    }
    if let Some(login) = login {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        options.credentials = Some(Credentials::password(decoded(user)?, decoded(password)?));
    }
    Ok(options)
}

fn host_and_port(text: &str) -> Result<(&str, Option<&str>), InvalidTransport> {
    let no_host = || wrong("the host of the mail server is wrong: write `host`, `host:port` or `[::1]:port`");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(no_host)?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(no_host)?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() { Err(no_host()) } else { Ok((host, port)) }
}

fn decoded(text: &str) -> Result<String, InvalidTransport> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(std::borrow::Cow::into_owned)
        .map_err(|_| wrong("host, user or password is no UTF-8 once it is decoded"))
}

fn security(url: &BackendUrl, default: Security) -> Result<Security, InvalidTransport> {
    let words = [
        ("required", Security::Required),
        ("opportunistic", Security::Opportunistic),
        ("none", Security::None),
    ];
    let given = url.one_of("tls", &words).map_err(|error| invalid(&error))?;
    match given {
        Some(_) if default == Security::Implicit => {
            Err(wrong("`tls` is about STARTTLS, and `smtps://` is encrypted from the first byte on"))
        }
        Some(given) => Ok(given),
        None => Ok(default),
    }
}

fn tls(url: &BackendUrl, options: &mut SmtpOptions) -> Result<(), InvalidTransport> {
    let file = |name| url.option(name).map(PathBuf::from);
    options.tls.ca = file("tls_ca");
    options.tls.client = match (file("tls_cert"), file("tls_key")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(wrong("`tls_cert` and `tls_key` go together")),
    };
    let given = options.tls.ca.is_some() || options.tls.client.is_some();
    if given && options.security == Security::None {
        return Err(wrong("`tls_…` options need an encrypted connection, and there is none"));
    }
    Ok(())
}

fn login(url: &BackendUrl, options: &mut SmtpOptions) -> Result<(), InvalidTransport> {
    let words = [
        ("plain", Mechanism::Plain),
        ("login", Mechanism::Login),
        ("xoauth2", Mechanism::XOAuth2),
        ("oauthbearer", Mechanism::OAuthBearer),
    ];
    let mechanism = url.one_of("auth", &words).map_err(|error| invalid(&error))?;
    let file = url.option("password_file").map(PathBuf::from);
    match &mut options.credentials {
        Some(credentials) => {
            credentials.mechanism = mechanism;
            if let Some(file) = file {
                if !matches!(&credentials.secret, Secret::Password(password) if password.is_empty()) {
                    return Err(wrong("there is a password before the host, and a `password_file`"));
                }
                credentials.secret = Secret::File(file);
            }
            Ok(())
        }
        None if mechanism.is_some() || file.is_some() => {
            Err(wrong("`auth` and `password_file` need a user: write it before the host, `user@host`"))
        }
        None => Ok(()),
    }
}

fn times(url: &BackendUrl, options: &mut SmtpOptions) -> Result<(), InvalidTransport> {
    let time = |name| url.duration(name).map_err(|error| invalid(&error));
    if let Some(limit) = time("timeout")? {
        options.times = options.times.capped(limit);
    }
    if let Some(limit) = time("connect_timeout")? {
        options.times.connect = limit;
    }
    if let Some(limit) = time("reply_timeout")? {
        options.times.end = limit;
    }
    Ok(())
}

fn limits(url: &BackendUrl, options: &mut SmtpOptions) -> Result<(), InvalidTransport> {
    let limits = &mut options.limits;
    let read = |error: StoreError| invalid(&error);
    limits.connections = url.number("connections", 1..=1024).map_err(read)?.unwrap_or(limits.connections);
    limits.messages = url.number("messages", 1..=1_000_000).map_err(read)?.unwrap_or(limits.messages);
    limits.idle = url.duration("idle").map_err(read)?.unwrap_or(limits.idle);
    limits.lifetime = url.duration("lifetime").map_err(read)?.unwrap_or(limits.lifetime);
    let switch = [("on", true), ("off", false)];
    options.pipelining = url.one_of("pipelining", &switch).map_err(read)?.unwrap_or(options.pipelining);
    let relay = [("unknown", true), ("failed", false)];
    options.relay_is_unknown = url.one_of("on_4_4", &relay).map_err(read)?.unwrap_or(false);
    Ok(())
}

fn dkim(url: &BackendUrl, options: &mut SmtpOptions) -> Result<(), InvalidTransport> {
    let [key, selector, domain] = ["dkim_key", "dkim_selector", "dkim_domain"].map(|name| url.option(name));
    match (key, selector, domain) {
        (Some(key), Some(selector), Some(domain)) => {
            options.signers.push(Signer::from_file(domain, selector, key)?);
            Ok(())
        }
        (None, None, None) => Ok(()),
        _ => Err(wrong("`dkim_key`, `dkim_selector` and `dkim_domain` go together")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn parse(text: &str) -> SmtpOptions {
        SmtpOptions::parse(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        SmtpOptions::parse(text).unwrap_err().reason
    }

    #[test]
    fn forms_have_their_ports_and_their_encryption() {
        let seen = |text: &str| {
            let options = parse(text);
            let (host, port) = options.place.host_and_port();
            (host.to_owned(), port, options.security, options.lmtp)
        };
        assert_eq!(seen("smtp://mail.example"), ("mail.example".into(), 587, Security::Required, false));
        assert_eq!(seen("smtp://h:25?tls=none"), ("h".into(), 25, Security::None, false));
        assert_eq!(
            seen("smtp://[::1]:2525/?tls=opportunistic"),
            ("::1".into(), 2525, Security::Opportunistic, false)
        );
        assert_eq!(seen("smtps://h"), ("h".into(), 465, Security::Implicit, false));
        assert_eq!(seen("lmtp://localhost"), ("localhost".into(), 24, Security::None, true));
        assert_eq!(
            seen("SMTP://bücher.example"),
            ("xn--bcher-kva.example".into(), 587, Security::Required, false)
        );
        #[cfg(unix)]
        assert_eq!(seen("lmtp+unix:/run/lmtp"), ("localhost".into(), 0, Security::None, true));
    }

    #[test]
    fn user_and_password_are_decoded() {
        let options = parse("smtp://ada%40example.com:p%3Aw%2F@h?auth=login");
        let credentials = options.credentials.unwrap();
        assert_eq!(
            (credentials.user.as_str(), credentials.mechanism),
            ("ada@example.com", Some(Mechanism::Login))
        );
        assert!(matches!(&credentials.secret, Secret::Password(password) if password == "p:w/"));
        assert_eq!(parse("smtp://ada@h").user_without_password(), Some("ada"));
        assert_eq!(parse("smtp://ada@h?password_file=x").user_without_password(), None);
        assert_eq!(parse("smtp://ada@h").password("x").user_without_password(), None);
    }

    #[test]
    fn every_option_is_read() {
        let options = parse(
            "smtp://u:p@h?timeout=2s&connect_timeout=1s&reply_timeout=20m&connections=3&messages=7&idle=5s&lifetime=1m\
             &pipelining=off&on_4_4=unknown&helo=me.example",
        );
        assert_eq!(
            (options.times.mail, options.times.connect),
            (Duration::from_secs(2), Duration::from_secs(1))
        );
        assert_eq!(options.times.end, Duration::from_mins(20));
        assert_eq!((options.limits.connections, options.limits.messages), (3, 7));
        assert_eq!(
            (options.limits.idle, options.limits.lifetime),
            (Duration::from_secs(5), Duration::from_mins(1))
        );
        assert!(!options.pipelining && options.relay_is_unknown);
        assert_eq!(options.hello_name.as_deref(), Some("me.example"));
    }

    #[test]
    fn mistakes_are_named_with_the_way_out() {
        for (text, word) in [
            ("smtp:h", "two slashes"),
            ("smtp://", "host"),
            ("smtp://h/inbox", "no path"),
            ("smtp://h:0", "port"),
            ("smtp://h:x", "port"),
            ("smtp://h?tsl=none", "`tls`"),
            ("smtp://h?tls=maybe", "`opportunistic`"),
            ("smtps://h?tls=none", "STARTTLS"),
            ("smtp://h?tls=none&tls_ca=x", "encrypted"),
            ("smtp://h?tls_cert=x", "go together"),
            ("smtp://h?auth=plain", "user"),
            ("smtp://u:p@h?password_file=x", "password_file"),
            ("smtp://h?timeout=5", "5s"),
            ("smtp://h?connections=0", "connections"),
            ("smtp://h?helo=a b", "EHLO"),
            ("smtp://h?dkim_key=x", "go together"),
            ("smtp://%ff@h", "UTF-8"),
            ("imap://h", "no mail server"),
            ("lmtp+unix:", "socket"),
        ] {
            let reason = refusal(text);
            assert!(reason.contains(word), "{text}: {reason}");
        }
    }

    #[test]
    fn no_password_is_in_a_refusal() {
        for text in
            ["smtp://u:s3cret@h?tsl=x", "smtp://u:s3cret@h:0", "smtp://u:s3cret@h/x", "smtp://u:s3cret@"]
        {
            assert!(!refusal(text).contains("s3cret"), "{text}");
        }
    }
}
