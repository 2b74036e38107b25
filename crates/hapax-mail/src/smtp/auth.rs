//! AUTH.

use super::{
    connection::Connection,
    credentials::{Credentials, Mechanism},
    failure::{Trouble, at, refused},
    reply::Reply,
    stage::Stage,
};
use crate::MailCategory;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

/// A command line has at most 512 bytes (RFC 4954 §4); what is longer goes on a line of its own.
const MAX_INITIAL: usize = 480;

/// Says who we are. `host` and `port` are what OAUTHBEARER is about.
pub(super) async fn log_in(
    connection: &mut Connection,
    credentials: &Credentials,
    host: &str,
    port: u16,
) -> Result<(), Trouble> {
    let offered = &connection.capabilities.auth;
    let chosen = credentials.mechanisms().into_iter().find(|known| offered.contains(known));
    let Some(mechanism) = chosen else { return Err(unsupported(connection).into()) };
    for refused_before in [false, true] {
        let secret = credentials.secret(refused_before).await.map_err(|_| {
            at(
                Stage::Auth,
                MailCategory::Service,
                "smtp.auth_temp",
                "there is no password or token to be had",
            )
        })?;
        let words = Words { mechanism, user: &credentials.user, secret: &secret, host, port };
        let reply = words.exchange(connection).await?;
        if reply.is_positive() {
            return Ok(());
        }
        let is_stale = reply.class() == 5 && mechanism.takes_token() && credentials.can_change();
        if !is_stale || refused_before {
            return Err(refused(Stage::Auth, &reply));
        }
    }
    Ok(())
}

fn unsupported(connection: &Connection) -> crate::Failure {
    let offered = &connection.capabilities;
    let detail = if offered.auth.is_empty() && !offered.asks_auth {
        "the server offers no way to log in".to_owned()
    } else {
        let names: Vec<_> = offered.auth.iter().map(|known| known.as_str()).collect();
        format!("of the ways to log in that are known here, the server offers: {}", names.join(", "))
    };
    at(Stage::Auth, MailCategory::Configuration, "smtp.auth_unsupported", "").with_detail(detail)
}

struct Words<'a> {
    mechanism: Mechanism,
    user: &'a str,
    secret: &'a str,
    host: &'a str,
    port: u16,
}

impl Words<'_> {
    /// To the last reply: 235, or a refusal.
    async fn exchange(&self, connection: &mut Connection) -> Result<Reply, Trouble> {
        let name = self.mechanism.as_str();
        let mut steps = self.steps().into_iter();
        let mut reply = match steps.as_slice().first() {
            Some(first) if self.mechanism != Mechanism::Login && first.len() <= MAX_INITIAL => {
                let line = format!("AUTH {name} {first}");
                steps.next();
                connection.ask(Stage::Auth, &line).await?
            }
            _ => connection.ask(Stage::Auth, &format!("AUTH {name}")).await?,
        };
        // A server that goes on asking would be asked to stop: RFC 4954 §4.
        for _ in 0..4 {
            if reply.code != 334 {
                return Ok(reply);
            }
            let step = steps.next().unwrap_or_else(|| self.end().to_owned());
            reply = connection.ask(Stage::Auth, &step).await?;
        }
        Ok(reply)
    }

    /// What is said, in order, in base64.
    fn steps(&self) -> Vec<String> {
        let (user, secret) = (self.user, self.secret);
        let texts = match self.mechanism {
            Mechanism::Plain => vec![format!("\0{user}\0{secret}")],
            Mechanism::Login => vec![user.to_owned(), secret.to_owned()],
            Mechanism::XOAuth2 => vec![format!("user={user}\x01auth=Bearer {secret}\x01\x01")],
            Mechanism::OAuthBearer => {
                // RFC 5801 §4: a comma or an equals sign would end the name.
                let user = user.replace('=', "=3D").replace(',', "=2C");
                let (host, port) = (self.host, self.port);
                vec![format!("n,a={user},\x01host={host}\x01port={port}\x01auth=Bearer {secret}\x01\x01")]
            }
        };
        texts.into_iter().map(|text| BASE64.encode(text)).collect()
    }

    /// The answer to one question too many: those about tokens come with the reason of a refusal, and want a word before
    /// they refuse.
    fn end(&self) -> &'static str {
        match self.mechanism {
            Mechanism::XOAuth2 => "",
            Mechanism::OAuthBearer => "AQ==",
            Mechanism::Plain | Mechanism::Login => "*",
        }
    }
}
