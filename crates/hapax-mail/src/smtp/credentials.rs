//! Who we are.

use hapax_core::{BoxError, BoxFuture};
use std::{fmt, path::PathBuf, sync::Arc};

/// A way to say who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// Never standardised, and common.
    Login,
    /// Google's and Microsoft's.
    XOAuth2,
    /// RFC 7628.
    OAuthBearer,
}

impl Mechanism {
    /// The word in EHLO, AUTH and URLs, there in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
            Self::XOAuth2 => "XOAUTH2",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Plain, Self::Login, Self::XOAuth2, Self::OAuthBearer];
        all.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(word))
    }

    /// It takes a token in place of a password.
    pub(super) const fn takes_token(self) -> bool {
        matches!(self, Self::XOAuth2 | Self::OAuthBearer)
    }
}

type Ask = dyn Fn(bool) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync;

/// A user and what proves it. `Debug` shows neither.
#[derive(Clone)]
pub struct Credentials {
    pub(super) user: String,
    pub(super) secret: Secret,
    /// The best that the server offers, where it is not set.
    pub(super) mechanism: Option<Mechanism>,
}

#[derive(Clone)]
pub(super) enum Secret {
    Password(String),
    /// Read for each connection, so that what renews it needs not know of us.
    File(PathBuf),
    Token(Arc<Ask>),
}

impl Credentials {
    /// A password: PLAIN, or LOGIN where the server has nothing else.
    pub fn password(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), secret: Secret::Password(password.into()), mechanism: None }
    }

    /// A password, or a token, in a file that is read for each connection. Space around it is not part of it.
    pub fn file(user: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { user: user.into(), secret: Secret::File(path.into()), mechanism: None }
    }

    /// A token of OAuth 2.0, asked for with each connection: OAUTHBEARER, or XOAUTH2 where the server has nothing else. The
    /// question comes with `true` when the server refused the one before: then it is to be a new one.
    pub fn token<F, R>(user: impl Into<String>, ask: F) -> Self
    where
        F: Fn(bool) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        let ask = move |refused| -> BoxFuture<'static, _> { Box::pin(ask(refused)) };
        Self { user: user.into(), secret: Secret::Token(Arc::new(ask)), mechanism: None }
    }

    /// By this mechanism and no other.
    #[must_use]
    pub fn by(mut self, mechanism: Mechanism) -> Self {
        self.mechanism = Some(mechanism);
        self
    }

    /// Those that can be used, the best first.
    pub(super) fn mechanisms(&self) -> Vec<Mechanism> {
        match (self.mechanism, &self.secret) {
            (Some(mechanism), _) => vec![mechanism],
            (None, Secret::Token(_)) => vec![Mechanism::OAuthBearer, Mechanism::XOAuth2],
            (None, _) => vec![Mechanism::Plain, Mechanism::Login],
        }
    }

    /// Why they cannot be used.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let password = if let Secret::Password(password) = &self.secret { password.as_str() } else { "x" };
        if self.user.is_empty() {
            return Some("there is a password, and no user that it is of");
        }
        if password.is_empty() {
            return Some("the user has no password");
        }
        if [self.user.as_str(), password].iter().any(|text| text.contains(['\0', '\r', '\n', '\u{1}'])) {
            return Some("user and password hold no line breaks and control characters");
        }
        None
    }

    /// The password or the token.
    pub(super) async fn secret(&self, refused: bool) -> Result<String, BoxError> {
        let secret = match &self.secret {
            Secret::Password(password) => return Ok(password.clone()),
            Secret::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await??;
                read.trim().to_owned()
            }
            Secret::Token(ask) => ask(refused).await?,
        };
        if secret.is_empty() || secret.contains(['\0', '\r', '\n', '\u{1}']) {
            return Err("what was given as password or token is empty, or has several lines".into());
        }
        Ok(secret)
    }

    /// Whether another question may have another answer.
    pub(super) fn can_change(&self) -> bool {
        !matches!(self.secret, Secret::Password(_))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}
