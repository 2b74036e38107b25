//! A record as one string. The scripts read and write the same; `scripts/common.lua` describes it.

use bytes::Bytes;
use hapax_core::{
    BootTime, Fingerprint, Now, Timestamp, Token,
    idempotency::{Entry, Kind, Pending, Receipt, Settled},
};

/// The version of records that this process writes, and the only one that it reads.
const VERSION: u8 = 1;
const PENDING: u8 = 0;
const DONE: u8 = 1;
const UNKNOWN: u8 = 2;

/// The fingerprint as a record holds it.
pub(crate) fn print(fingerprint: &Fingerprint) -> [u8; 34] {
    let mut bytes = [0; 34];
    let (version, digest) = bytes.split_at_mut(2);
    version.copy_from_slice(&fingerprint.version().to_be_bytes());
    digest.copy_from_slice(fingerprint.digest());
    bytes
}

/// The beginning of a result: everything before its times.
pub(crate) fn owner(kind: Kind, token: &Token, fingerprint: &Fingerprint) -> [u8; 52] {
    let state = match kind {
        Kind::Done => DONE,
        Kind::Unknown => UNKNOWN,
    };
    head(state, token, fingerprint)
}

/// The beginning of a reservation. In the place of [`owner`] it says that a success may be kept with the caller's times.
pub(crate) fn holder(token: &Token, fingerprint: &Fingerprint) -> [u8; 52] {
    head(PENDING, token, fingerprint)
}

/// The times of a result, and what follows them. None where the codec's name is too long.
pub(crate) fn timed(until: Timestamp, completed_at: Timestamp, given: &Receipt) -> Option<Vec<u8>> {
    let codec = given.codec.as_bytes();
    let length = u16::try_from(codec.len()).ok()?.to_be_bytes();
    let (until, completed_at) = (until.as_millis().to_be_bytes(), completed_at.as_millis().to_be_bytes());
    Some([&until[..], &completed_at, &length, codec, &given.bytes].concat())
}

fn head(state: u8, token: &Token, fingerprint: &Fingerprint) -> [u8; 52] {
    let mut bytes = [0; 52];
    let (version_and_state, rest) = bytes.split_at_mut(2);
    version_and_state.copy_from_slice(&[VERSION, state]);
    let (owner, what) = rest.split_at_mut(16);
    owner.copy_from_slice(token.as_bytes());
    what.copy_from_slice(&print(fingerprint));
    bytes
}

/// The end of a result: its codec and its bytes. None where the codec's name is too long.
pub(crate) fn receipt(receipt: &Receipt) -> Option<Vec<u8>> {
    let codec = receipt.codec.as_bytes();
    let length = u16::try_from(codec.len()).ok()?;
    Some([&length.to_be_bytes()[..], codec, &receipt.bytes].concat())
}

/// A new reservation.
pub(crate) fn reservation(
    token: &Token,
    fingerprint: &Fingerprint,
    first_at: Timestamp,
    ends: Timestamp,
) -> [u8; 68] {
    let mut bytes = [0; 68];
    let (owner, times) = bytes.split_at_mut(52);
    owner.copy_from_slice(&holder(token, fingerprint));
    let (first, last) = times.split_at_mut(8);
    first.copy_from_slice(&first_at.as_millis().to_be_bytes());
    last.copy_from_slice(&ends.as_millis().to_be_bytes());
    bytes
}

/// Reads a record. The server has one clock: leases are read as boot time of the same count.
pub(crate) fn decode(value: Vec<u8>) -> Entry {
    let bytes = Bytes::from(value);
    parse(&bytes).unwrap_or(Entry::Unreadable)
}

/// The moment at which the server's clock shows `ms`, for the rules of the machine.
pub(crate) fn moment(ms: i64) -> Now {
    Now { wall: Timestamp::from_millis(ms), boot: boot(ms) }
}

fn boot(ms: i64) -> BootTime {
    BootTime::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn parse(bytes: &Bytes) -> Option<Entry> {
    let mut rest = Reader { bytes, at: 0 };
    let [version, state] = rest.take::<2>()?;
    if version != VERSION {
        return None;
    }
    let token = Token::from_bytes(rest.take()?);
    let fingerprint = Fingerprint::from_digest(u16::from_be_bytes(rest.take()?), rest.take()?);
    let (first_at, until) = (rest.millis()?, rest.millis()?);
    let kind = match state {
        PENDING => {
            let late = match bytes.slice(rest.at..) {
                nothing if nothing.is_empty() => None,
                beside => match parse(&beside)? {
                    Entry::Settled(late) => Some(Box::new(late)),
                    _ => return None,
                },
            };
            let until = boot(until);
            let first_at = Timestamp::from_millis(first_at);
            return Some(Entry::Pending(Pending { token, fingerprint, until, first_at, late }));
        }
        DONE => Kind::Done,
        UNKNOWN => Kind::Unknown,
        _ => return None,
    };
    let completed_at = Timestamp::from_millis(rest.millis()?);
    let length = usize::from(u16::from_be_bytes(rest.take()?));
    let codec = std::str::from_utf8(bytes.get(rest.at..rest.at + length)?).ok()?.to_owned();
    let receipt = Receipt::new(codec, bytes.slice(rest.at + length..));
    let (first_at, until) = (Timestamp::from_millis(first_at), Timestamp::from_millis(until));
    Some(Entry::Settled(Settled { token, fingerprint, kind, receipt, first_at, completed_at, until }))
}

struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.at..)?.first_chunk().copied()?;
        self.at += N;
        Some(taken)
    }

    fn millis(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(codec: &str) -> Vec<u8> {
        let mut value = vec![VERSION, DONE];
        value.extend([7; 16]);
        value.extend(print(&Fingerprint::of_bytes(b"x")));
        for ms in [1_i64, 3, 2] {
            value.extend(ms.to_be_bytes());
        }
        value.extend(receipt(&Receipt::new(codec.to_owned(), &b"paid"[..])).unwrap());
        value
    }

    #[test]
    fn a_reservation_comes_back() {
        let (token, fingerprint) = (Token::from_bytes([9; 16]), Fingerprint::of_bytes(b"x"));
        let value = reservation(&token, &fingerprint, Timestamp::from_millis(5), Timestamp::from_millis(9));
        assert_eq!(value.len(), 68);
        let Entry::Pending(pending) = decode(value.to_vec()) else { panic!("not pending") };
        assert_eq!((pending.token, pending.fingerprint, pending.late), (token, fingerprint, None));
        assert_eq!((pending.first_at.as_millis(), pending.until.as_millis()), (5, 9));
        let Entry::Pending(pending) = decode([&value[..], &settled("json")].concat()) else {
            panic!("not pending")
        };
        assert_eq!(pending.late.unwrap().receipt, Receipt::new("json", &b"paid"[..]));
    }

    #[test]
    fn a_result_comes_back() {
        let Entry::Settled(result) = decode(settled("näme")) else { panic!("no result") };
        assert_eq!((result.kind, result.receipt), (Kind::Done, Receipt::new("näme", &b"paid"[..])));
        assert_eq!(
            (result.first_at.as_millis(), result.until.as_millis(), result.completed_at.as_millis()),
            (1, 3, 2)
        );
    }

    #[test]
    fn what_is_no_record_is_held_as_unreadable() {
        let whole = settled("json");
        for cut in 0..whole.len() - 4 {
            assert_eq!(decode(whole[..cut].to_vec()), Entry::Unreadable, "{cut} bytes");
        }
        for (at, byte) in [(0, 0), (0, 2), (1, 3), (1, 255), (76, 255)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(decode(other), Entry::Unreadable, "byte {at}");
        }
        let reservation = reservation(
            &Token::from_bytes([9; 16]),
            &Fingerprint::ANY,
            Timestamp::from_millis(0),
            Timestamp::from_millis(0),
        );
        assert_eq!(decode([&reservation[..], b"x"].concat()), Entry::Unreadable);
        assert_eq!(decode([&reservation[..], &reservation].concat()), Entry::Unreadable);
    }
}
