//! The form in which a response is kept.
//!
//! | part | form |
//! |---|---|
//! | flags | a byte: 1, the body is there; 2, trailers are there |
//! | status | two bytes, the larger first |
//! | fields | their number, then for each its name and its value, with their lengths in front |
//! | trailers, if they are there | as the fields |
//! | body, if it is there | the rest |
//!
//! Numbers are written seven bits a byte, the smallest first, with the eighth bit where more follow. What changes this
//! is another codec.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hapax_core::idempotency::Receipt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The name of the form.
const CODEC: &str = "http.response/1";
const BODY: u8 = 1;
const TRAILERS: u8 = 2;

/// A response as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) trailers: Option<HeaderMap>,
    /// None where it was too large, or streamed.
    pub(super) body: Option<Bytes>,
}

impl Stored {
    /// Of a response that is not kept: that there was one is all that is.
    pub(super) fn without_body(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), trailers: None, body: None }
    }

    pub(super) fn receipt(&self) -> Receipt {
        let size = self.body.as_ref().map_or(0, Bytes::len);
        let mut out = BytesMut::with_capacity(size + 64 + 32 * self.headers.len());
        let body = if self.body.is_some() { BODY } else { 0 };
        let trailers = if self.trailers.is_some() { TRAILERS } else { 0 };
        out.put_u8(body | trailers);
        out.put_u16(self.status.as_u16());
        put_fields(&mut out, &self.headers);
        if let Some(trailers) = &self.trailers {
            put_fields(&mut out, trailers);
        }
        if let Some(body) = &self.body {
            out.put_slice(body);
        }
        Receipt::new(CODEC, out.freeze())
    }

    /// None where it is of another form.
    pub(super) fn read(receipt: &Receipt) -> Option<Self> {
        (receipt.codec == CODEC).then(|| decode(receipt.bytes.clone())).flatten()
    }
}

fn put_fields(out: &mut BytesMut, fields: &HeaderMap) {
    put_number(out, fields.len());
    for (name, value) in fields {
        put_part(out, name.as_str().as_bytes());
        put_part(out, value.as_bytes());
    }
}

fn put_part(out: &mut BytesMut, part: &[u8]) {
    put_number(out, part.len());
    out.put_slice(part);
}

fn put_number(out: &mut BytesMut, mut n: usize) {
    while n >= 0x80 {
        out.put_u8(low_bits(n) | 0x80);
        n >>= 7;
    }
    out.put_u8(low_bits(n));
}

fn low_bits(n: usize) -> u8 {
    u8::try_from(n & 0x7f).unwrap_or_default()
}

fn decode(mut bytes: Bytes) -> Option<Stored> {
    let flags = bytes.try_get_u8().ok()?;
    let status = StatusCode::from_u16(bytes.try_get_u16().ok()?).ok()?;
    if flags & !(BODY | TRAILERS) != 0 {
        return None;
    }
    let headers = fields(&mut bytes)?;
    let trailers = if flags & TRAILERS == 0 { None } else { Some(fields(&mut bytes)?) };
    let body = match flags & BODY {
        0 if bytes.is_empty() => None,
        0 => return None,
        _ => Some(bytes),
    };
    Some(Stored { status, headers, trailers, body })
}

fn fields(bytes: &mut Bytes) -> Option<HeaderMap> {
    let mut fields = HeaderMap::new();
    for _ in 0..number(bytes)? {
        let name = HeaderName::from_bytes(&part(bytes)?).ok()?;
        // Not of the bytes as they lie there: they would keep all of the receipt alive.
        let value = HeaderValue::from_bytes(&part(bytes)?).ok()?;
        fields.try_append(name, value).ok()?;
    }
    Some(fields)
}

fn part(bytes: &mut Bytes) -> Option<Bytes> {
    let len = number(bytes)?;
    (len <= bytes.len()).then(|| bytes.split_to(len))
}

fn number(bytes: &mut Bytes) -> Option<usize> {
    let mut n = 0_usize;
    for shift in [0, 7, 14, 21, 28] {
        let byte = bytes.try_get_u8().ok()?;
        n |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(fields: &[(String, Vec<u8>)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    fn some_fields() -> impl Strategy<Value = HeaderMap> {
        let value = prop::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..20);
        prop::collection::vec(("[a-c]{1,2}", value), 0..8).prop_map(|fields| map(&fields))
    }

    fn listed(fields: &HeaderMap) -> Vec<(String, Vec<u8>)> {
        fields.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back_in_order(
            status in 100_u16..1000,
            headers in some_fields(),
            trailers in prop::option::of(some_fields()),
            body in prop::option::of(prop::collection::vec(any::<u8>(), 0..60)),
        ) {
            let body = body.map(Bytes::from);
            let stored = Stored { status: StatusCode::from_u16(status).unwrap(), headers, trailers, body };
            let read = Stored::read(&stored.receipt()).unwrap();
            prop_assert_eq!(listed(&read.headers), listed(&stored.headers));
            prop_assert_eq!(read, stored);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let stored = decode(bytes.clone().into());
            prop_assert!(stored.is_none_or(|stored| stored.receipt().bytes.len() <= bytes.len()));
        }

        #[test]
        fn a_part_of_a_receipt_without_a_body_is_refused(headers in some_fields(), cut in 1_usize..20) {
            let stored = Stored { status: StatusCode::OK, headers, trailers: None, body: None };
            let bytes = stored.receipt().bytes;
            prop_assert_eq!(decode(bytes.slice(..bytes.len().saturating_sub(cut))), None);
        }
    }

    #[test]
    fn the_form_is_what_it_was() {
        let stored = Stored {
            status: StatusCode::CREATED,
            headers: map(&[("x-id".into(), b"7".to_vec()), ("x-id".into(), b"8".to_vec())]),
            trailers: Some(map(&[("t".into(), vec![])])),
            body: Some(Bytes::from_static(b"{}")),
        };
        let receipt = stored.receipt();
        assert_eq!(receipt.codec, "http.response/1");
        assert_eq!(receipt.bytes, &b"\x03\x00\xc9\x02\x04x-id\x017\x04x-id\x018\x01\x01t\x00{}"[..]);
        assert_eq!(Stored::read(&Receipt::new("http.response/2", receipt.bytes)), None);
    }
}
