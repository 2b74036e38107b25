//! `--via` for providers over HTTP. Their keys come from the environment and are never shown.

use crate::{failure::Failure, text};
use hapax::mail::{
    Brevo, InvalidTransport, Mailgun, Postmark, Resend, SendGrid, Transport, provider::Lookup,
};
use std::sync::Arc;

/// A provider, and what its URL says beside that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Provider {
    scheme: &'static str,
    /// The stream of Postmark, the domain of Mailgun.
    argument: Option<String>,
    endpoint: Option<String>,
}

/// A name, and the endpoint that it stands for.
type Region = (&'static str, &'static str);

/// What is known of each: its scheme, the variable of its key, the regions that have an endpoint of their own.
const KNOWN: &[(&str, &str, &[Region])] = &[
    ("resend", "RESEND_API_KEY", &[]),
    ("postmark", "POSTMARK_SERVER_TOKEN", &[]),
    ("sendgrid", "SENDGRID_API_KEY", &[("eu", "https://api.eu.sendgrid.com")]),
    ("mailgun", "MAILGUN_API_KEY", &[("eu", "https://api.eu.mailgun.net")]),
    ("brevo", "BREVO_API_KEY", &[]),
];

impl Provider {
    pub(super) const SCHEMES: [&str; 5] = ["resend", "postmark", "sendgrid", "mailgun", "brevo"];

    /// Reads `[ARGUMENT][?region=eu][&endpoint=URL]`.
    pub(super) fn parse(scheme: &str, rest: &str) -> Result<Self, Failure> {
        let refuse = |reason: String| Err(Failure::usage(format!("--via {scheme}: {reason}")));
        let Some((scheme, _, regions)) = KNOWN.iter().copied().find(|(name, ..)| *name == scheme) else {
            return refuse("it is no provider".to_owned());
        };
        let (argument, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut provider =
            Self { scheme, argument: (!argument.is_empty()).then(|| argument.to_owned()), endpoint: None };
        match (scheme, &provider.argument) {
            ("mailgun", None) => {
                return refuse(
                    "needs the domain that it sends for: write `mailgun:mg.example.com`".to_owned(),
                );
            }
            ("mailgun" | "postmark", _) | (_, None) => {}
            // It may be a key.
            _ => {
                let variable = provider.variable();
                return refuse(format!("takes nothing after the colon: the key belongs into {variable}"));
            }
        }
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("endpoint", url)) => provider.endpoint = Some(url.to_owned()),
                Some(("region", region)) => {
                    let Some((_, url)) = regions.iter().find(|(name, _)| *name == region) else {
                        let region = text::shown(region);
                        return refuse(format!("there is no region `{region}` with an endpoint of its own"));
                    };
                    provider.endpoint = Some((*url).to_owned());
                }
                _ => {
                    let name = text::shown(option.split('=').next().unwrap_or_default());
                    return refuse(format!("it has no option `{name}`: there are `endpoint` and `region`"));
                }
            }
        }
        // An endpoint that is none is told at once, not when everything has been read.
        provider.build(String::new())?;
        Ok(provider)
    }

    fn variable(&self) -> &'static str {
        KNOWN.iter().find(|(name, ..)| *name == self.scheme).map_or("", |(_, variable, _)| variable)
    }

    fn key(&self) -> Result<String, Failure> {
        let variable = self.variable();
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(key.trim().to_owned()),
            _ => Err(Failure::config(format!(
                "--via {}: needs its key in {variable}, which is not set",
                self.scheme
            ))
            .help(format!(
                "export {variable}=…; a key on the command line could be seen by everybody on this machine"
            ))),
        }
    }

    pub(super) fn sends_at_once(&self) -> Option<&'static str> {
        (self.scheme == "postmark").then_some("postmark:")
    }

    pub(super) fn unproven(&self) -> Option<String> {
        let variable = self.variable();
        self.key().is_err().then(|| format!("{variable} is not set: a run needs it"))
    }

    pub(super) fn open(&self) -> Result<Arc<dyn Transport>, Failure> {
        self.build(self.key()?).map(|built| built.transport)
    }

    /// The provider as one that can be asked, if it can be.
    pub(in super::super) fn lookup(&self) -> Result<Option<Arc<dyn Lookup>>, Failure> {
        self.build(self.key()?).map(|built| built.lookup)
    }

    pub(in super::super) fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn build(&self, key: String) -> Result<Built, Failure> {
        self.built(key).map_err(|error| Failure::usage(format!("--via {}: {}", self.scheme, error.reason)))
    }

    fn built(&self, key: String) -> Result<Built, InvalidTransport> {
        macro_rules! at_endpoint {
            ($made:expr) => {{
                let made = $made?;
                Arc::new(match &self.endpoint {
                    Some(url) => made.with_endpoint(url)?,
                    None => made,
                })
            }};
        }
        let argument = self.argument.clone().unwrap_or_default();
        Ok(match self.scheme {
            "postmark" => {
                let postmark = Postmark::new(key).map(|made| match &self.argument {
                    Some(stream) => made.with_stream(stream),
                    None => made,
                });
                let postmark = at_endpoint!(postmark);
                Built { lookup: Some(Arc::clone(&postmark) as Arc<dyn Lookup>), transport: postmark }
            }
            "mailgun" => {
                let mailgun = at_endpoint!(Mailgun::new(argument, key));
                Built { lookup: Some(Arc::clone(&mailgun) as Arc<dyn Lookup>), transport: mailgun }
            }
            "sendgrid" => Built { transport: at_endpoint!(SendGrid::new(key)), lookup: None },
            "brevo" => Built { transport: at_endpoint!(Brevo::new(key)), lookup: None },
            _ => Built { transport: at_endpoint!(Resend::new(key)), lookup: None },
        })
    }
}

struct Built {
    transport: Arc<dyn Transport>,
    lookup: Option<Arc<dyn Lookup>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_providers_and_their_places() {
        let parse =
            |scheme, rest| Provider::parse(scheme, rest).map_err(|failure| failure.message().to_owned());
        assert_eq!(parse("resend", "").unwrap().endpoint, None);
        assert_eq!(parse("postmark", "broadcast").unwrap().argument.as_deref(), Some("broadcast"));
        let eu = parse("mailgun", "mg.example.com?region=eu").unwrap();
        assert_eq!(eu.endpoint.as_deref(), Some("https://api.eu.mailgun.net"));
        let here = parse("brevo", "?endpoint=http://127.0.0.1:8080").unwrap();
        assert_eq!(here.endpoint.as_deref(), Some("http://127.0.0.1:8080"));
        for (scheme, rest, words) in [
            ("resend", "re_secret", "RESEND_API_KEY"),
            ("mailgun", "", "domain"),
            ("mailgun", "mg/../x", "domain"),
            ("sendgrid", "?region=mars", "mars"),
            ("brevo", "?color=red", "`color`"),
            ("brevo", "?endpoint=http://example.com", "https:"),
        ] {
            let error = parse(scheme, rest).unwrap_err();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
    }
}
