//! The requests of a sliding window as bytes: most take two.

/// Milliseconds since the one before, and the weight, of each.
pub(super) fn encode(entries: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), 0);
    for (at, weight) in entries {
        push(&mut bytes, at.saturating_sub(last));
        push(&mut bytes, weight);
        last = at;
    }
    bytes
}

/// None where hapax did not write them.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
    // Above it no time and no weight can be, so sums stay within their type.
    const MOST: u64 = 1 << 52;
    let (mut entries, mut last) = (Vec::new(), 0_u64);
    while !bytes.is_empty() {
        let (since, weight) = (pull(&mut bytes)?, pull(&mut bytes)?);
        last = last.checked_add(since).filter(|at| *at < MOST)?;
        let weight = u32::try_from(weight).ok()?;
        entries.push((last, u64::from(weight)));
    }
    Some(entries)
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = (number & 0x7f).to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

fn pull(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let day = 1_764_550_000_000;
        let entries =
            [(day, 1), (day + 1, 127), (day + 129, 128), (day + 34_560_000_000, u64::from(u32::MAX))];
        let bytes = encode(entries.into_iter());
        assert_eq!(decode(&bytes).unwrap(), entries);
        assert_eq!(decode(&[]).unwrap(), []);
        let many = encode((0..10_000).map(|n| (day + 6 * n, 1)));
        assert!(many.len() < 20_010, "{}", many.len());
    }

    #[test]
    fn what_others_wrote_is_refused() {
        let bytes = encode([(1_764_550_000_000, 300)].into_iter());
        for cut in 1..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(decode(&[0xff; 20]), None);
        assert_eq!(decode(&encode([(1 << 52, 1)].into_iter())), None);
        assert_eq!(decode(&encode([(1, 1 << 32)].into_iter())), None);
    }
}
