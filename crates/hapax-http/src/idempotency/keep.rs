//! Which responses are kept, and what of them.

use http::{HeaderMap, HeaderName, StatusCode, header};

/// What a response says of its request. A handler that knows better than the status puts one into the extensions of its
/// response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// It is final: it is kept, and answers later requests under the key.
    Response,
    /// The request was carried out, and its response is for this client alone: it passes unread, as it comes. Later
    /// requests are told that theirs was carried out. For secrets, and for streams that are no event streams.
    Done,
    /// Nothing has happened, for certain: the key is freed, and the next request under it is carried out.
    Nothing,
    /// Something may have happened: the key is held, and later requests are told that nobody knows.
    Unknown,
}

impl Keep {
    /// The rule unless another is given: successes, redirects and final refusals are kept. Not kept are refusals that
    /// say who asks, or when, and may be otherwise the next time (401, 407, 408, 421, 425, 429), and errors of the
    /// server (5xx).
    pub fn by_status(status: StatusCode) -> Self {
        match status.as_u16() {
            401 | 407 | 408 | 421 | 425 | 429 => Self::Nothing,
            200..=499 => Self::Response,
            _ => Self::Nothing,
        }
    }
}

/// Of one connection, not of the response: RFC 9110, section 7.6.1, and what older proxies add to it.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The fields of a response that are kept, repeated ones as often as they stand there.
pub(super) fn fields(response: &HeaderMap, cookies: bool, without: &[HeaderName]) -> HeaderMap {
    let named = response.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<_> = named.flat_map(|list| list.split(',')).map(str::trim).collect();
    let is_kept = |name: &HeaderName| {
        !HOP_BY_HOP.contains(name)
            && !named.iter().any(|other| other.eq_ignore_ascii_case(name.as_str()))
            && (cookies || *name != header::SET_COOKIE)
            && !without.contains(name)
    };
    let kept = response.iter().filter(|(name, _)| is_kept(name));
    let mut fields = HeaderMap::with_capacity(response.keys_len());
    for (name, value) in kept {
        fields.append(name, value.clone());
    }
    fields
}

/// Whether the response is made for as long as its client listens: reading it to its end would hold it back.
pub(super) fn is_endless(response: &HeaderMap) -> bool {
    let kind = response.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successes_and_final_refusals_are_kept_and_errors_of_the_server_are_not() {
        let of = |code: u16| Keep::by_status(StatusCode::from_u16(code).unwrap());
        for code in [200, 201, 204, 301, 303, 304, 400, 402, 403, 404, 409, 410, 413, 422] {
            assert_eq!(of(code), Keep::Response, "{code}");
        }
        for code in [101, 401, 407, 408, 421, 425, 429, 500, 502, 503, 504, 599, 600] {
            assert_eq!(of(code), Keep::Nothing, "{code}");
        }
    }

    #[test]
    fn fields_of_the_connection_and_cookies_are_left_out() {
        let mut response = HeaderMap::new();
        let all = [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("set-cookie", "session=1"),
            ("link", "</a>"),
            ("x-id", "7"),
            ("link", "</b>"),
            ("x-drop", "1"),
        ];
        for (name, value) in all {
            response.append(name, value.parse().unwrap());
        }
        let listed = |fields: &HeaderMap| {
            fields
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect::<Vec<_>>()
        };
        let dropped = [HeaderName::from_static("x-drop")];
        assert_eq!(listed(&fields(&response, false, &dropped)), ["link: </a>", "link: </b>", "x-id: 7"]);
        let with_cookies = listed(&fields(&response, true, &dropped));
        assert_eq!(with_cookies, ["set-cookie: session=1", "link: </a>", "link: </b>", "x-id: 7"]);
    }

    #[test]
    fn an_event_stream_is_told_by_its_type() {
        let of = |kind: &'static str| {
            is_endless(&HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]))
        };
        assert!(of("text/event-stream") && of("Text/Event-Stream; charset=utf-8"));
        assert!(!of("text/plain") && !is_endless(&HeaderMap::new()));
    }
}
