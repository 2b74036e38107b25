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
    /// The stream of Postmark, the domain of Mailgun, the region of SES.
    argument: Option<String>,
    endpoint: Option<String>,
    /// Of SES.
    configuration_set: Option<String>,
}

/// A name, and the endpoint that it stands for.
type Region = (&'static str, &'static str);

/// What is known of each: its scheme, the variables of its key, the regions that have an endpoint of their own.
type Known = (&'static str, &'static [&'static str], &'static [Region]);

const KNOWN: &[Known] = &[
    ("resend", &["RESEND_API_KEY"], &[]),
    ("postmark", &["POSTMARK_SERVER_TOKEN"], &[]),
    ("sendgrid", &["SENDGRID_API_KEY"], &[("eu", "https://api.eu.sendgrid.com")]),
    ("mailgun", &["MAILGUN_API_KEY"], &[("eu", "https://api.eu.mailgun.net")]),
    ("brevo", &["BREVO_API_KEY"], &[]),
    #[cfg(feature = "ses")]
    ("ses", &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], &[]),
];

impl Provider {
    pub(super) fn is_known(scheme: &str) -> bool {
        KNOWN.iter().any(|(name, ..)| *name == scheme)
    }

    /// Reads `[ARGUMENT][?region=eu][&endpoint=URL]`.
    pub(super) fn parse(scheme: &str, rest: &str) -> Result<Self, Failure> {
        let refuse = |reason: String| Err(Failure::usage(format!("--via {scheme}: {reason}")));
        let Some((scheme, variables, regions)) = KNOWN.iter().copied().find(|(name, ..)| *name == scheme)
        else {
            return refuse("it is no provider".to_owned());
        };
        let (argument, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut provider = Self {
            scheme,
            argument: (!argument.is_empty()).then(|| argument.to_owned()),
            endpoint: None,
            configuration_set: None,
        };
        match (scheme, &provider.argument) {
            ("mailgun", None) => {
                return refuse(
                    "needs the domain that it sends for: write `mailgun:mg.example.com`".to_owned(),
                );
            }
            ("ses", None) => return refuse("needs its region: write `ses:eu-west-1`".to_owned()),
            ("mailgun" | "postmark" | "ses", _) | (_, None) => {}
            // It may be a key.
            _ => {
                let variables = variables.join(" and ");
                return refuse(format!("takes nothing after the colon: the key belongs into {variables}"));
            }
        }
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("endpoint", url)) => provider.endpoint = Some(url.to_owned()),
                Some(("configuration_set", name)) if scheme == "ses" => {
                    provider.configuration_set = Some(name.to_owned());
                }
                Some(("region", region)) if scheme != "ses" => {
                    let Some((_, url)) = regions.iter().find(|(name, _)| *name == region) else {
                        let region = text::shown(region);
                        return refuse(format!("there is no region `{region}` with an endpoint of its own"));
                    };
                    provider.endpoint = Some((*url).to_owned());
                }
                _ => {
                    let name = text::shown(option.split('=').next().unwrap_or_default());
                    let others = if scheme == "ses" { "configuration_set" } else { "region" };
                    return refuse(format!("it has no option `{name}`: there are `endpoint` and `{others}`"));
                }
            }
        }
        // An endpoint that is none is told at once, not when everything has been read.
        provider.build(&vec![String::new(); variables.len()])?;
        Ok(provider)
    }

    fn variables(&self) -> &'static [&'static str] {
        KNOWN.iter().find(|(name, ..)| *name == self.scheme).map_or(&[], |(_, variables, _)| variables)
    }

    /// The parts of its key, in the order of their variables.
    fn key(&self) -> Result<Vec<String>, Failure> {
        let read = |variable: &&str| match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(key.trim().to_owned()),
            _ => Err(Failure::config(format!(
                "--via {}: needs its key in {variable}, which is not set",
                self.scheme
            ))
            .help(format!(
                "export {variable}=…; a key on the command line could be seen by everybody on this machine"
            ))),
        };
        self.variables().iter().map(read).collect()
    }

    pub(super) fn sends_at_once(&self) -> Option<&'static str> {
        match self.scheme {
            "postmark" => Some("postmark:"),
            "ses" => Some("ses:"),
            _ => None,
        }
    }

    pub(super) fn unproven(&self) -> Option<String> {
        let missing = |variable: &&&str| std::env::var(variable).map_or(true, |key| key.trim().is_empty());
        let variable = self.variables().iter().find(missing)?;
        Some(format!("{variable} is not set: a run needs it"))
    }

    pub(super) fn open(&self) -> Result<Arc<dyn Transport>, Failure> {
        self.build(&self.key()?).map(|built| built.transport)
    }

    /// The provider as one that can be asked, if it can be.
    pub(in super::super) fn lookup(&self) -> Result<Option<Arc<dyn Lookup>>, Failure> {
        self.build(&self.key()?).map(|built| built.lookup)
    }

    pub(in super::super) fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn build(&self, key: &[String]) -> Result<Built, Failure> {
        self.built(key).map_err(|error| Failure::usage(format!("--via {}: {}", self.scheme, error.reason)))
    }

    fn built(&self, key: &[String]) -> Result<Built, InvalidTransport> {
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
        let part = |at: usize| key.get(at).cloned().unwrap_or_default();
        let key = part(0);
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
            #[cfg(feature = "ses")]
            "ses" => {
                let token = std::env::var("AWS_SESSION_TOKEN").ok().filter(|token| !token.trim().is_empty());
                let ses = hapax::mail::Ses::new(argument, key, part(1), token);
                let ses = ses.map(|made| match &self.configuration_set {
                    Some(name) => made.with_configuration_set(name),
                    None => made,
                });
                Built { transport: at_endpoint!(ses), lookup: None }
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
            #[cfg(feature = "ses")]
            ("ses", "", "region"),
            #[cfg(feature = "ses")]
            ("ses", "../x", "region"),
            #[cfg(feature = "ses")]
            ("ses", "eu-west-1?region=eu", "`region`"),
        ] {
            let error = parse(scheme, rest).unwrap_err();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
    }
}
