//! The address of a client behind proxies.

use http::{HeaderMap, request::Parts};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of the client, for a service behind `proxies` proxies of yours, each of which adds the address that it
/// is asked from to `X-Forwarded-For`.
///
/// `peer` is the address of the connection: that of the last proxy, or of the client where there is none. Of the list,
/// the entry counts that the first of your proxies added: the last for one proxy, the last but one for two. What stands
/// before it was written by the client, and is never believed. Where there is no such entry, or it is no address, the
/// request did not come by your proxies: it counts for its peer. Without a peer it counts for `0.0.0.0`, one address
/// for all who cannot be told apart.
///
/// ```
/// use hapax_http::client_ip;
///
/// let request = http::Request::builder().header("x-forwarded-for", "10.9.9.9, 203.0.113.7").body(()).unwrap();
/// let (parts, ()) = request.into_parts();
/// let peer = Some("192.0.2.1".parse().unwrap());
/// assert_eq!(client_ip(&parts, peer, 0).to_string(), "192.0.2.1");
/// assert_eq!(client_ip(&parts, peer, 1).to_string(), "203.0.113.7");
/// assert_eq!(client_ip(&parts, peer, 3).to_string(), "192.0.2.1");
/// ```
///
/// With axum, `ConnectInfo<SocketAddr>` in the extensions of the request is the peer.
pub fn client_ip(parts: &Parts, peer: Option<IpAddr>, proxies: usize) -> IpAddr {
    let forwarded = proxies.checked_sub(1).and_then(|at| entry(&parts.headers, at));
    forwarded.or(peer).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).to_canonical()
}

/// The entry so many places from the end. Several fields are one list, in the order of the fields.
fn entry(headers: &HeaderMap, from_end: usize) -> Option<IpAddr> {
    let fields: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    let entries = fields.iter().rev().flat_map(|field| field.as_bytes().rsplit(|byte| *byte == b','));
    let text = std::str::from_utf8(entries.into_iter().nth(from_end)?).ok()?.trim();
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(in_brackets).or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn ip(fields: &[&str], proxies: usize) -> String {
        let request =
            fields.iter().fold(Request::builder(), |request, field| request.header(FORWARDED_FOR, *field));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        client_ip(&parts, Some("192.0.2.1".parse().unwrap()), proxies).to_string()
    }

    #[test]
    fn the_entry_of_the_first_trusted_proxy_counts_and_never_an_earlier_one() {
        let list = ["6.6.6.6, 203.0.113.7, 198.51.100.2"];
        assert_eq!(ip(&list, 0), "192.0.2.1");
        assert_eq!(ip(&list, 1), "198.51.100.2");
        assert_eq!(ip(&list, 2), "203.0.113.7");
        assert_eq!(
            ip(&["6.6.6.6", "203.0.113.7,198.51.100.2"], 2),
            "203.0.113.7",
            "several fields are one list"
        );
        // However much the client writes before, its place is the same.
        for lie in ["1.1.1.1, ", "1.1.1.1, 2.2.2.2, ", ", ,", "unknown, "] {
            assert_eq!(ip(&[&format!("{lie}203.0.113.7")], 1), "203.0.113.7");
        }
    }

    #[test]
    fn a_request_that_did_not_come_by_the_proxies_counts_for_its_peer() {
        for list in [&[][..], &[""], &["unknown"], &["203.0.113.7, nobody"], &["\u{e4}"]] {
            assert_eq!(ip(list, 1), "192.0.2.1", "{list:?}");
        }
        assert_eq!(ip(&["203.0.113.7"], 2), "192.0.2.1");
        let (parts, ()) = Request::new(()).into_parts();
        assert_eq!(client_ip(&parts, None, 1).to_string(), "0.0.0.0");
    }

    #[test]
    fn ports_brackets_and_mapped_addresses_are_understood() {
        assert_eq!(ip(&["203.0.113.7:4711"], 1), "203.0.113.7");
        assert_eq!(ip(&["2001:db8::1"], 1), "2001:db8::1");
        assert_eq!(ip(&["[2001:db8::1]"], 1), "2001:db8::1");
        assert_eq!(ip(&["[2001:db8::1]:4711"], 1), "2001:db8::1");
        assert_eq!(ip(&["::ffff:203.0.113.7"], 1), "203.0.113.7");
    }
}
