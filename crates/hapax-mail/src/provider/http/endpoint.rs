//! Where a provider is.

use crate::InvalidTransport;
use hyper::Uri;
use std::{fmt, net::IpAddr};

/// `https://HOST[:PORT][/PATH]`; without TLS on this machine alone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
    prefix: String,
}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, InvalidTransport> {
        const FORM: &str =
            "an endpoint is written `https://HOST`, with a port and a path where it needs them";
        let refuse = |reason: &str| Err(InvalidTransport::new(reason));
        let Ok(uri) = url.parse::<Uri>() else { return refuse(FORM) };
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return refuse(FORM),
        };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else { return refuse(FORM) };
        if authority.as_str().contains('@') || uri.query().is_some() {
            return refuse(FORM);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !tls && !is_here {
            return refuse(
                "an endpoint without TLS (`http:`) would show the key to everybody on the way: write `https:`",
            );
        }
        Ok(Self {
            tls,
            host: bare.to_owned(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.to_string(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }

    /// As text that reads back as this place.
    #[cfg(feature = "ses")]
    pub(crate) fn url(&self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn path(&self, below: &str) -> String {
        format!("{}{below}", self.prefix)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_keys_do_not_leave_this_machine_unencrypted() {
        let endpoint = Endpoint::parse("https://api.example.com/base/").unwrap();
        assert_eq!((endpoint.address(), endpoint.path("/x").as_str()), (("api.example.com", 443), "/base/x"));
        assert_eq!(Endpoint::parse("http://127.0.0.1:8080").unwrap().address(), ("127.0.0.1", 8080));
        assert_eq!(Endpoint::parse("http://[::1]:80").unwrap().address(), ("::1", 80));
        for bad in
            ["http://api.example.com", "ftp://x", "api.example.com", "https://u:p@x", "https://x?y=z", ""]
        {
            let error = Endpoint::parse(bad).unwrap_err();
            assert!(!error.to_string().contains("u:p"), "{error}");
        }
    }
}
