//! Who answers at a port where another kind of server was expected: told from the first bytes that it says.

/// What makes most servers say something, and is a request of none of them.
pub const QUESTION: &[u8] = b"PING / HTTP/1.0\r\n\r\n";

/// What makes a server of PostgreSQL say one byte: whether it has TLS.
pub const QUESTION_TO_POSTGRES: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];

/// What kind of server says this to a [`QUESTION`], or before it was asked.
pub fn kind(said: &[u8]) -> Option<&'static str> {
    let starts = |words: &[&[u8]]| words.iter().any(|word| said.starts_with(word));
    match said {
        [0x15, 3, ..] => Some("TLS"),
        // Length and number of the first packet, then the version of the protocol.
        [_, _, 0, 0, 10, ..] => Some("MySQL"),
        _ if starts(&[b"HTTP/", b"<!DOCTYPE", b"<html", b"<HTML"]) => Some("HTTP, the web"),
        _ if starts(&[b"+PONG", b"-ERR", b"-NOAUTH", b"-DENIED", b"-NOPERM"]) => Some("Redis"),
        _ if starts(&[b"SSH-"]) => Some("SSH"),
        _ if starts(&[b"220 ", b"220-"]) => Some("SMTP or FTP"),
        _ => None,
    }
}

/// Whether that is what PostgreSQL says to [`QUESTION_TO_POSTGRES`].
pub fn is_postgres(said: &[u8]) -> bool {
    matches!(said, b"S" | b"N")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_by_their_first_bytes() {
        for (said, known) in [
            (&b"HTTP/1.1 400 Bad Request"[..], Some("HTTP, the web")),
            (b"-ERR wrong number of arguments for 'ping' command", Some("Redis")),
            (b"-NOAUTH Authentication required.", Some("Redis")),
            (b"SSH-2.0-OpenSSH_9.6", Some("SSH")),
            (b"220 mail.example ESMTP", Some("SMTP or FTP")),
            (b"\x15\x03\x01\x00\x02\x02\x46", Some("TLS")),
            (b"\x4a\0\0\0\x0a8.0.36", Some("MySQL")),
            (b"hello", None),
            (b"", None),
        ] {
            assert_eq!(kind(said), known, "{said:?}");
        }
        assert!(is_postgres(b"S") && !is_postgres(b"-ERR"));
    }
}
