//! From nothing to a connection that takes messages.

use super::{
    auth::log_in,
    capabilities::Capabilities,
    connection::{Connection, State},
    dial::{Dialed, Way, is_unknown_name, ways},
    failure::{Trouble, at, late, refused},
    options::{Security, SmtpOptions},
    stage::Stage,
    tls::Tls,
    wire::Wire,
};
use crate::{Failure, MailCategory};
use std::{io, sync::Arc};
use tokio::time::timeout;

/// Tries each address of the server in turn, as long as it may be the address that is to blame.
pub(super) async fn open(options: &SmtpOptions, tls: &Tls) -> Result<Connection, Trouble> {
    let mut last = None;
    for way in find(options).await? {
        match open_one(options, tls, &way).await {
            Ok(connection) => return Ok(connection),
            Err((trouble, stage)) if stage <= Stage::Greeting && trouble.failure.retryable => {
                tracing::debug!(code = %trouble.failure.code, "an address of the server was tried in vain");
                last = Some(trouble);
            }
            Err((trouble, _)) => return Err(trouble),
        }
    }
    Err(last.unwrap_or_else(|| {
        at(Stage::Resolve, MailCategory::Configuration, "smtp.unknown_host", "the name has no address").into()
    }))
}

async fn find(options: &SmtpOptions) -> Result<Vec<Way>, Failure> {
    if let Some(dial) = &options.dial {
        return Ok(vec![Way::Own(Arc::clone(dial))]);
    }
    if !options.addresses.is_empty() {
        return Ok(options.addresses.iter().copied().map(Way::Tcp).collect());
    }
    match timeout(options.times.of(Stage::Resolve, 0), ways(&options.place)).await {
        Ok(Ok(ways)) => Ok(ways),
        Ok(Err(error)) if is_unknown_name(&error) => Err(at(
            Stage::Resolve,
            MailCategory::Configuration,
            "smtp.unknown_host",
            "there is no server of that name",
        )),
        Ok(Err(_)) => {
            Err(at(Stage::Resolve, MailCategory::Network, "smtp.dns", "the name could not be looked up"))
        }
        Err(_) => Err(late(Stage::Resolve)),
    }
}

async fn open_one(options: &SmtpOptions, tls: &Tls, way: &Way) -> Result<Connection, (Trouble, Stage)> {
    let Dialed { io, own_name } = match timeout(options.times.connect, way.open(&options.place)).await {
        Ok(Ok(dialed)) => dialed,
        Ok(Err(error)) => return Err((refused_to_connect(&error).into(), Stage::Connect)),
        Err(_) => return Err((late(Stage::Connect).into(), Stage::Connect)),
    };
    let own_name = options.hello_name.clone().unwrap_or(own_name);
    let (host, port) = options.place.host_and_port();
    let lmtp = options.lmtp;
    let (io, encrypted) = if options.security == Security::Implicit {
        (tls.wrap(host, io, &options.times).await.map_err(|trouble| (trouble, Stage::Tls))?, true)
    } else {
        (io, false)
    };
    let mut connection = Connection::new(Wire::new(io), options.times, lmtp, encrypted);
    greeting(&mut connection).await.map_err(|trouble| (trouble, Stage::Greeting))?;
    let rest = async {
        hello(&mut connection, options, &own_name).await?;
        let connection = encrypt(connection, options, tls, &own_name).await?;
        enter(connection, options, host, port).await
    };
    rest.await.map_err(|trouble| (trouble, Stage::Hello))
}

fn refused_to_connect(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::TimedOut {
        return late(Stage::Connect);
    }
    at(Stage::Connect, MailCategory::Network, "smtp.connect", "the server cannot be reached")
        .with_detail(format!("the server cannot be reached: {}", error.kind()))
}

async fn greeting(connection: &mut Connection) -> Result<(), Trouble> {
    let reply = connection.reply(Stage::Greeting).await?;
    if reply.code == 220 { Ok(()) } else { Err(refused(Stage::Greeting, &reply)) }
}

async fn hello(connection: &mut Connection, options: &SmtpOptions, name: &str) -> Result<(), Trouble> {
    let verb = if connection.lmtp { "LHLO" } else { "EHLO" };
    let reply = connection.ask(Stage::Hello, &format!("{verb} {name}")).await?;
    if reply.is_positive() {
        connection.capabilities = Capabilities::read(&reply);
        return Ok(());
    }
    // RFC 5321 §3.2: a server of old knows no EHLO. One that is to encrypt, or to know who we are, has to.
    let is_old = matches!(reply.code, 500 | 501 | 502 | 504 | 550);
    let needs_nothing = options.credentials.is_none() && options.security != Security::Required;
    if is_old && needs_nothing && !connection.lmtp {
        connection.agree(Stage::Hello, &format!("HELO {name}")).await?;
        return Ok(());
    }
    Err(refused(Stage::Hello, &reply))
}

/// STARTTLS, and EHLO again: what was said before is forgotten (RFC 3207 §4.2).
async fn encrypt(
    mut connection: Connection,
    options: &SmtpOptions,
    tls: &Tls,
    own_name: &str,
) -> Result<Connection, Trouble> {
    let required = match options.security {
        Security::Required => true,
        Security::Opportunistic => false,
        Security::None | Security::Implicit => return Ok(connection),
    };
    if !connection.capabilities.starttls {
        return if required { Err(no_starttls().into()) } else { Ok(connection) };
    }
    let reply = connection.ask(Stage::StartTls, "STARTTLS").await?;
    if reply.code != 220 {
        // Who insists is told; others go on as they are.
        return if required || !reply.is_refusal() || reply.is_closing() {
            Err(refused(Stage::StartTls, &reply))
        } else {
            Ok(connection)
        };
    }
    // Whoever sits on the way could have added replies for us to believe once the connection is encrypted.
    let Some(io) = connection.wire.into_io() else {
        return Err(at(
            Stage::StartTls,
            MailCategory::Configuration,
            "smtp.starttls_injected",
            "something was said between STARTTLS and TLS",
        )
        .into());
    };
    let (host, _) = options.place.host_and_port();
    let io = tls.wrap(host, io, &options.times).await?;
    let mut connection = Connection::new(Wire::new(io), options.times, connection.lmtp, true);
    hello(&mut connection, options, own_name).await?;
    Ok(connection)
}

fn no_starttls() -> Failure {
    at(Stage::StartTls, MailCategory::Configuration, "smtp.starttls_missing", "the server offers no TLS")
}

async fn enter(
    mut connection: Connection,
    options: &SmtpOptions,
    host: &str,
    port: u16,
) -> Result<Connection, Trouble> {
    if let Some(credentials) = &options.credentials {
        if !connection.encrypted && options.security != Security::None {
            return Err(at(
                Stage::Auth,
                MailCategory::Configuration,
                "smtp.auth_plaintext",
                "the connection is not encrypted, so user and password were not sent",
            )
            .into());
        }
        log_in(&mut connection, credentials, host, port).await?;
    }
    connection.relay_is_unknown = options.relay_is_unknown;
    connection.state = State::Clean;
    Ok(connection)
}
