//! URLs of stores: the scheme picks the driver, the rest is the driver's.

mod help;
mod values;

pub use self::{
    help::{UrlHelp, UrlOption},
    values::number,
};

use crate::{StoreError, StoreErrorKind, StoreResult};
use std::fmt;

/// A parsed store URL. `Display` and `Debug` never show a password or the value of an option.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendUrl {
    scheme: String,
    rest: String,
    options: Vec<(String, String)>,
}

impl BackendUrl {
    /// `scheme:rest?option=value&…`. What `rest` means is the driver's; several hosts with ports are fine.
    pub fn parse(text: &str) -> StoreResult<Self> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(config(
                "the URL has no scheme: write `sqlite:PATH` for a file, `memory:` for this process",
            ));
        };
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if !is_scheme {
            return Err(config(
                "what stands before the first `:` of the URL is no scheme: write `sqlite:PATH`",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(config(format!("the option `{pair}` of the URL has no value: write `{pair}=…`")));
            };
            if options.iter().any(|(known, _)| known == name) {
                return Err(config(format!("the option `{name}` stands twice in the URL")));
            }
            options.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self { scheme: scheme.to_ascii_lowercase(), rest: rest.to_owned(), options })
    }

    /// `sqlite`, `redis`, …
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What stands between the scheme's colon and the options.
    pub fn rest(&self) -> &str {
        &self.rest
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// What stands behind the two slashes that most schemes have; `form` is what should, for the message.
    pub fn behind_slashes(&self, form: &str) -> StoreResult<&str> {
        self.rest.strip_prefix("//").ok_or_else(|| {
            let scheme = &self.scheme;
            config(format!("after `{scheme}:` come two slashes and a host: `{scheme}://{form}`"))
        })
    }

    /// Refuses options that the driver does not know, with the nearest name it does.
    pub fn allow(&self, known: &[UrlOption]) -> StoreResult<()> {
        for (name, _) in &self.options {
            if known.iter().any(|option| option.name == name) {
                continue;
            }
            let likeness = |option: &&UrlOption| strsim::jaro_winkler(name, option.name);
            let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            return Err(config(match nearest {
                Some(UrlOption { name: nearest, .. }) => format!(
                    "`{name}` is no option of a `{}:` URL: did you mean `{nearest}`? `hapax help stores` lists them all",
                    self.scheme
                ),
                None => format!("a `{}:` URL has no options, and `{name}` was given", self.scheme),
            }));
        }
        Ok(())
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // User and password stand before the last `@` of the authority.
        let rest = match self.rest.strip_prefix("//") {
            Some(authority) => {
                let end = authority.find('/').unwrap_or(authority.len());
                let (hosts, path) = authority.split_at(end);
                match hosts.rsplit_once('@') {
                    Some((_, hosts)) => format!("//***@{hosts}{path}"),
                    None => self.rest.clone(),
                }
            }
            None => self.rest.clone(),
        };
        write!(f, "{}:{rest}", self.scheme)
    }
}

impl fmt::Debug for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackendUrl({self})")
    }
}

fn config(reason: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, "hapax", "read the store URL", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_url() {
        let url = BackendUrl::parse("redis+cluster://h1:7000,h2:7001?timeout=5s").unwrap();
        assert_eq!((url.scheme(), url.rest()), ("redis+cluster", "//h1:7000,h2:7001"));
        assert_eq!(url.option("timeout"), Some("5s"));
        assert_eq!(BackendUrl::parse("sqlite:a b.db").unwrap().rest(), "a b.db");
        assert!(BackendUrl::parse("shop.db").unwrap_err().to_string().contains("sqlite:PATH"));
        assert!(BackendUrl::parse("./a:b").is_err());
        assert!(BackendUrl::parse("sqlite:x?sync").is_err());
        assert!(BackendUrl::parse("sqlite:x?a=1&a=2").is_err());
    }

    #[test]
    fn unknown_options_name_the_nearest() {
        let url = BackendUrl::parse("sqlite:x?synchronus=normal").unwrap();
        let known = ["synchronous", "timeout"].map(|name| UrlOption::new(name, "TEXT", None, ""));
        let error = url.allow(&known).unwrap_err().to_string();
        assert!(error.contains("`synchronous`") && error.contains("hapax help stores"), "{error}");
        assert!(url.allow(&[]).unwrap_err().to_string().contains("no options"));
    }

    #[test]
    fn two_slashes_are_asked_for() {
        let behind = |url: &str| BackendUrl::parse(url)?.behind_slashes("host").map(str::to_owned);
        assert_eq!(behind("redis://h:1/2?a=b").unwrap(), "h:1/2");
        assert!(behind("redis:h").unwrap_err().to_string().contains("`redis://host`"));
    }

    #[test]
    fn secrets_are_never_shown() {
        let url = BackendUrl::parse("redis://ada:s3cr@t@h:1/0?password=s3cr").unwrap();
        assert_eq!(url.to_string(), "redis://***@h:1/0");
        assert!(!format!("{url:?}").contains("s3cr"));
    }
}
