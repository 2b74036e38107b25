//! The relaxed forms of RFC 6376 §3.4.

/// A field without its line end: the name in lower case, white space as single blanks, none around the colon and at the end.
pub(super) fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = name.trim_ascii().to_ascii_lowercase();
    out.push(b':');
    for (i, word) in value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out
}

/// A body: white space within lines as single blanks, none at their ends, no empty lines at the end.
pub(super) fn body(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut end = 0;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
        let mut blank = false;
        for byte in text {
            if is_blank(byte) {
                blank = true;
                continue;
            }
            if std::mem::take(&mut blank) {
                out.push(b' ');
            }
            out.push(*byte);
        }
        let is_empty = text.iter().all(is_blank);
        out.extend_from_slice(b"\r\n");
        if !is_empty {
            end = out.len();
        }
    }
    out.truncate(end);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // §3.4.5.
        assert_eq!(field(b"A", b" X"), b"a:X");
        assert_eq!(field(b"B ", b" Y\t\r\n\tZ  "), b"b:Y Z");
        assert_eq!(body(b" C \r\nD \t E\r\n\r\n\r\n"), b" C\r\nD E\r\n");
    }

    #[test]
    fn empty_bodies_stay_empty() {
        for text in [&b""[..], b"\r\n", b" \r\n\t\r\n\r\n"] {
            assert_eq!(body(text), b"", "{text:?}");
        }
        assert_eq!(body(b"a"), b"a\r\n");
        assert_eq!(body(b"\r\na\r\n"), b"\r\na\r\n");
    }
}
