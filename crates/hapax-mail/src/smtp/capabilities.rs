//! What a server can do, as it answers EHLO.

use super::{credentials::Mechanism, reply::Reply};

/// The extensions that count here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// The largest message it takes; none where it does not say.
    pub(super) size: Option<u64>,
    /// Whether it knows the SIZE of MAIL.
    pub(super) says_size: bool,
    pub(super) eight_bit: bool,
    pub(super) utf8: bool,
    pub(super) pipelining: bool,
    pub(super) starttls: bool,
    pub(super) auth: Vec<Mechanism>,
    /// AUTH was there, whatever its mechanisms.
    pub(super) asks_auth: bool,
}

impl Capabilities {
    /// The first line is the server's name.
    pub(super) fn read(reply: &Reply) -> Self {
        let mut found = Self::default();
        for line in reply.lines().skip(1) {
            // Old servers write `AUTH=LOGIN`.
            let line = line.replacen('=', " ", usize::from(line.to_ascii_uppercase().starts_with("AUTH=")));
            let mut words = line.split_ascii_whitespace();
            match words.next().unwrap_or_default().to_ascii_uppercase().as_str() {
                "SIZE" => {
                    found.says_size = true;
                    found.size = words.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                }
                "8BITMIME" => found.eight_bit = true,
                "SMTPUTF8" => found.utf8 = true,
                "PIPELINING" => found.pipelining = true,
                "STARTTLS" => found.starttls = true,
                "AUTH" => {
                    found.asks_auth = true;
                    found.auth.extend(words.filter_map(Mechanism::from_word));
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Capabilities {
        let words = ["mail.example.com"].iter().chain(lines).copied().collect::<Vec<_>>().join("\n");
        Capabilities::read(&Reply { code: 250, words })
    }

    #[test]
    fn words_are_read_in_any_case() {
        let found = read(&[
            "size 1000",
            "8bitMIME",
            "SmtpUtf8",
            "PIPELINING",
            "STARTTLS",
            "auth plain LOGIN X-OTHER",
        ]);
        assert!(found.eight_bit && found.utf8 && found.pipelining && found.starttls && found.asks_auth);
        assert_eq!((found.says_size, found.size), (true, Some(1000)));
        assert_eq!(found.auth, [Mechanism::Plain, Mechanism::Login]);
    }

    #[test]
    fn what_is_not_said_is_not_there() {
        assert_eq!(read(&[]), Capabilities::default());
        assert_eq!(read(&["SIZEX 5", "X-STARTTLS"]), Capabilities::default());
        // Zero: no limit.
        assert_eq!((read(&["SIZE 0"]).says_size, read(&["SIZE 0"]).size), (true, None));
        assert_eq!(read(&["SIZE"]).size, None);
        // The name of the server is no extension.
        assert_eq!(
            Capabilities::read(&Reply { code: 250, words: "STARTTLS".into() }),
            Capabilities::default()
        );
    }

    #[test]
    fn the_old_form_of_auth_is_read() {
        assert_eq!(read(&["AUTH=PLAIN XOAUTH2"]).auth, [Mechanism::Plain, Mechanism::XOAuth2]);
    }
}
