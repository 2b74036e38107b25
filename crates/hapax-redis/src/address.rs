//! The places that a URL names.

use crate::error::config;
use hapax_core::{BackendUrl, StoreResult, url::number};
use percent_encoding::percent_decode_str;
use std::{fmt, path::PathBuf};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    One(Address),
    Cluster(Vec<(String, u16)>),
    Sentinel { nodes: Vec<(String, u16)>, master: String },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |nodes: &[(String, u16)]| {
            let nodes = nodes.iter().map(|(host, port)| Address::Tcp(host.clone(), *port).to_string());
            let nodes: Vec<_> = nodes.collect();
            nodes.join(", ")
        };
        match self {
            Self::One(address) => address.fmt(f),
            Self::Cluster(nodes) => write!(f, "the cluster at {}", listed(nodes)),
            Self::Sentinel { nodes, master } => write!(f, "`{master}` of the sentinels at {}", listed(nodes)),
        }
    }
}

/// What stands in a URL before the options.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: Option<i64>,
}

pub(crate) fn read(url: &BackendUrl) -> StoreResult<Found> {
    if url.scheme() == "redis+unix" {
        let path = url.rest().strip_prefix("//").unwrap_or(url.rest());
        if path.is_empty() {
            return Err(config("`redis+unix:` names no socket: write `redis+unix:/run/redis.sock`"));
        }
        let place = Place::One(Address::Unix(PathBuf::from(path)));
        return Ok(Found { place, user: None, password: None, db: None });
    }
    let scheme = url.scheme();
    let rest = url.behind_slashes("host:6379")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    };
    let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        Some((user, password)) => (decoded(user)?, decoded(password)?),
        None => (None, None),
    };
    let path: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (place, db) = match (scheme.split_once('+').map(|(_, kind)| kind), path.as_slice()) {
        (Some("cluster"), []) => (Place::Cluster(addresses(hosts, PORT)?), None),
        (Some("cluster"), _) => {
            return Err(config("a Cluster has no databases but 0: end the URL with the last host"));
        }
        (Some("sentinel"), [master]) => (sentinel(hosts, master)?, None),
        (Some("sentinel"), [master, db]) => (sentinel(hosts, master)?, Some(database(db)?)),
        (Some("sentinel"), _) => {
            return Err(config("a Sentinel URL names the primary: `redis+sentinel://host:26379/mymaster`"));
        }
        (_, []) => (one(hosts)?, None),
        (_, [db]) => (one(hosts)?, Some(database(db)?)),
        _ => return Err(config("after the host comes the number of the database, and no more")),
    };
    Ok(Found { place, user, password, db })
}

fn one(hosts: &str) -> StoreResult<Place> {
    if hosts.contains(',') {
        return Err(config(
            "several hosts are a Cluster or Sentinels: write `redis+cluster://` or `redis+sentinel://`",
        ));
    }
    let (host, port) = address(hosts, PORT)?;
    Ok(Place::One(Address::Tcp(host, port)))
}

fn sentinel(hosts: &str, master: &str) -> StoreResult<Place> {
    Ok(Place::Sentinel { nodes: addresses(hosts, SENTINEL_PORT)?, master: master.to_owned() })
}

fn addresses(hosts: &str, port: u16) -> StoreResult<Vec<(String, u16)>> {
    hosts.split(',').map(|host| address(host, port)).collect()
}

fn address(text: &str, default: u16) -> StoreResult<(String, u16)> {
    let wrong = || config("a host of the URL is wrong: write `host`, `host:port` or `[::1]:port`");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(wrong());
    }
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
        None => default,
    };
    Ok((host.to_owned(), port))
}

fn database(text: &str) -> StoreResult<i64> {
    number("db", text, 0..=i64::from(u32::MAX))
}

fn decoded(text: &str) -> StoreResult<Option<String>> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| config("user or password of the URL is no UTF-8 once it is decoded"))?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &str) -> StoreResult<Found> {
        read(&BackendUrl::parse(url)?)
    }

    fn place(url: &str) -> Place {
        found(url).unwrap().place
    }

    fn tcp(host: &str, port: u16) -> (String, u16) {
        (host.to_owned(), port)
    }

    #[test]
    fn forms_of_a_url() {
        assert_eq!(place("redis://h"), Place::One(Address::Tcp("h".into(), 6379)));
        assert_eq!(place("rediss://[::1]:1/"), Place::One(Address::Tcp("::1".into(), 1)));
        assert_eq!(place("redis+unix:/r.sock"), Place::One(Address::Unix("/r.sock".into())));
        assert_eq!(place("redis+unix:///r.sock"), Place::One(Address::Unix("/r.sock".into())));
        assert_eq!(place("redis+cluster://a:1,b"), Place::Cluster(vec![tcp("a", 1), tcp("b", 6379)]));
        let url = found("redis+sentinel://u:p@a,b:2/main/3").unwrap();
        let nodes = vec![tcp("a", 26379), tcp("b", 2)];
        assert_eq!((url.place, url.db), (Place::Sentinel { nodes, master: "main".into() }, Some(3)));
    }

    #[test]
    fn passwords_are_decoded() {
        let url = found("redis://:p%40ss@h").unwrap();
        assert_eq!((url.user, url.password.as_deref()), (None, Some("p@ss")));
        let url = found("redis://ada:s3cr@t@h").unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("ada"), Some("s3cr@t")));
    }

    #[test]
    fn wrong_urls_say_what_is_right() {
        for (url, right) in [
            ("redis:h", "redis://host:6379"),
            ("redis://", "host:port"),
            ("redis://h:x", "host:port"),
            ("redis://h:0", "host:port"),
            ("redis://[::1", "host:port"),
            ("redis://a,b", "redis+cluster://"),
            ("redis://h/x", "whole number"),
            ("redis://h/1/2", "no more"),
            ("redis+cluster://h/1", "last host"),
            ("redis+sentinel://h", "mymaster"),
            ("redis+unix:", "/run/redis.sock"),
            ("redis://%ff:x@h", "UTF-8"),
        ] {
            let text = found(url).unwrap_err().to_string();
            assert!(text.contains(right), "{url}: {text}");
        }
    }
}
