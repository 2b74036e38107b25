//! What tells one request from another under the same key.

use bytes::Bytes;
use hapax_core::Fingerprint;
use http::{HeaderName, header, request::Parts};
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};

/// Of the requests of this layer. No JSON text begins with NUL, so no value has the fingerprint of a request.
const PREFIX: &[u8] = b"\0hapax http request 1\0";

type OfRequest = Arc<dyn Fn(&Parts, &Bytes) -> Fingerprint + Send + Sync>;

/// How a request is told from another.
#[derive(Clone)]
pub(super) enum Fingerprinting {
    /// By method, target, these fields, and the body as it is.
    Fields(Vec<HeaderName>),
    Own(OfRequest),
}

impl Default for Fingerprinting {
    /// The same bytes of another type are another request.
    fn default() -> Self {
        Self::fields([header::CONTENT_TYPE, header::CONTENT_ENCODING])
    }
}

impl fmt::Debug for Fingerprinting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields(fields) => f.debug_tuple("Fields").field(fields).finish(),
            Self::Own(_) => f.write_str("Own(…)"),
        }
    }
}

impl Fingerprinting {
    pub(super) fn fields(names: impl IntoIterator<Item = HeaderName>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Self::Fields(names)
    }

    pub(super) fn of(&self, parts: &Parts, body: &Bytes) -> Fingerprint {
        let fields = match self {
            Self::Own(own) => return own(parts, body),
            Self::Fields(fields) => fields,
        };
        let mut hash = Sha256::new_with_prefix(PREFIX);
        push(&mut hash, parts.method.as_str().as_bytes());
        match parts.uri.path_and_query() {
            Some(target) => push(&mut hash, target.as_str().as_bytes()),
            None => push(&mut hash, parts.uri.to_string().as_bytes()),
        }
        count(&mut hash, fields.len());
        for name in fields {
            push(&mut hash, name.as_str().as_bytes());
            let values = parts.headers.get_all(name);
            count(&mut hash, values.iter().count());
            values.iter().for_each(|value| push(&mut hash, value.as_bytes()));
        }
        push(&mut hash, body);
        Fingerprint::from_digest(Fingerprint::VERSION, hash.finalize().into())
    }
}

/// With its length in front, so that no part can take a byte of its neighbour's.
fn push(hash: &mut Sha256, part: &[u8]) {
    count(hash, part.len());
    hash.update(part);
}

fn count(hash: &mut Sha256, n: usize) {
    hash.update((n as u64).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn of(method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Fingerprint {
        let request = Request::builder().method(method).uri(target);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Fingerprinting::default().of(&parts, &Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn each_part_of_a_request_tells_it_from_another_and_none_takes_of_its_neighbour() {
        let json = ("content-type", "application/json");
        let all = [
            of("POST", "/pay", &[json], "{}"),
            of("PATCH", "/pay", &[json], "{}"),
            of("POST", "/pay/", &[json], "{}"),
            of("POST", "/pay?a=1", &[json], "{}"),
            of("POST", "/pay", &[], "{}"),
            of("POST", "/pay", &[("content-type", "text/plain")], "{}"),
            of("POST", "/pay", &[json, json], "{}"),
            of("POST", "/pay", &[("content-encoding", "application/json")], "{}"),
            of("POST", "/pay", &[json], ""),
            of("POST", "/pay", &[json], "{} "),
            // The end of one part is not the start of the next.
            of("POST", "/pa", &[json], "y{}"),
            of("POSTA", "/pay", &[json], "{}"),
            of("POST", "/pay", &[("content-type", "application/json{}")], ""),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|other| one != other), "{i}");
        }
    }

    #[test]
    fn other_fields_and_the_host_do_not_matter() {
        let plain = of("POST", "/pay", &[], "{}");
        assert_eq!(plain, of("POST", "/pay", &[("x-request-id", "1"), ("traceparent", "2")], "{}"));
        assert_eq!(plain, of("POST", "http://example.com/pay", &[("host", "example.com")], "{}"));
    }

    #[test]
    fn the_version_is_what_it_was() {
        let fingerprint = of("POST", "/pay?a=1", &[("content-type", "application/json")], "{\"cents\":4200}");
        assert_eq!(
            fingerprint.to_string(),
            "1:94b8014852a8314ef9a367788917cfdfeda5f40a2473b7e245c303fb58cb46be"
        );
    }
}
