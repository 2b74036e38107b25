//! From a message to the line that reads back as it.

use crate::{Address, Message};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Fields as [`MessageJson`](super::MessageJson) reads them; what is not there is left out.
#[derive(Serialize)]
struct Line<'a> {
    from: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cc: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bcc: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_to: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    /// In their order, which tells one message from another; those of one name together.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_object")]
    headers: Vec<(&'a str, Vec<&'a str>)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    references: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    send_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracking: Option<Tracking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsubscribe: Option<Unsubscribe<'a>>,
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cid: Option<&'a str>,
    base64: String,
}

#[derive(Serialize)]
struct Tracking {
    #[serde(skip_serializing_if = "Option::is_none")]
    opens: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clicks: Option<bool>,
}

#[derive(Serialize)]
struct Unsubscribe<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mailto: Option<&'a str>,
}

impl Message {
    /// The line of a JSON Lines file that reads back as this message, with the bytes of its attachments in it.
    pub fn to_json_line(&self) -> String {
        let mut headers: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, value) in self.headers() {
            match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, values)) => values.push(value),
                None => headers.push((name, vec![value])),
            }
        }
        let tracking = self.tracking();
        let is_said = tracking.opens.is_some() || tracking.clicks.is_some();
        let line = Line {
            from: texts(self.from()),
            sender: self.sender().map(Address::to_string),
            to: texts(self.to()),
            cc: texts(self.cc()),
            bcc: texts(self.bcc()),
            reply_to: texts(self.reply_to()),
            subject: self.subject(),
            text: self.text(),
            html: self.html(),
            headers,
            attachments: self
                .attachments()
                .iter()
                .map(|file| File {
                    filename: file.filename(),
                    content_type: file.content_type(),
                    cid: file.cid(),
                    base64: STANDARD.encode(file.bytes()),
                })
                .collect(),
            idempotency_key: self.idempotency_key().map(hapax_core::Key::as_str),
            in_reply_to: self.in_reply_to(),
            references: self.references(),
            message_id: self.message_id(),
            metadata: self.metadata(),
            tags: self.tags(),
            send_at: self.send_at().and_then(|at| {
                jiff::Timestamp::from_millisecond(at.as_millis()).ok().map(|at| at.to_string())
            }),
            tracking: is_said.then_some(Tracking { opens: tracking.opens, clicks: tracking.clicks }),
            unsubscribe: self
                .unsubscribe()
                .map(|way| Unsubscribe { url: way.url.as_deref(), mailto: way.mailto.as_deref() }),
        };
        serde_json::to_string(&line).unwrap_or_else(|_| unreachable!("texts and lists have a form in JSON"))
    }
}

fn as_object<S: Serializer>(headers: &[(&str, Vec<&str>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, values)| (name, values)))
}

fn texts(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attachment, fingerprint_strict};
    use hapax_core::Timestamp;
    use std::path::Path;

    #[test]
    fn lines_read_back_as_the_message() {
        let message = Message::builder()
            .from("\"Shop, the\" <shop@example.com>")
            .sender("robot@example.com")
            .to("Ada Lovelace <ada@example.com>")
            .to("bob@bücher.example")
            .cc("c@example.com")
            .bcc("d@example.com")
            .reply_to("e@example.com")
            .subject("Grüße \"und\" mehr")
            .text("one\ntwo")
            .html("<p>one</p>")
            .header("X-A", "1")
            .header("x-a", "2")
            .header("X-B", "3")
            .attachment(Attachment::new("a.bin", "application/octet-stream", vec![0, 255, 7]))
            .attachment(Attachment::inline("logo", "image/png", vec![1]).with_filename("logo.png"))
            .in_reply_to("<1@example.com>")
            .reference("<0@example.com>")
            .reference("<1@example.com>")
            .metadata("m", "1")
            .tag("t")
            .send_at(Timestamp::from_millis(1_896_080_400_120))
            .track_opens(true)
            .unsubscribe_url("https://example.com/u")
            .unsubscribe_mailto("u@example.com")
            .idempotency_key("k:1")
            .message_id("<own@example.com>")
            .build()
            .unwrap();
        let line = message.to_json_line();
        let back = Message::from_json_line(&line).unwrap();
        assert!(!back.has_files());
        let back = back.load(Path::new(""), None).unwrap();
        assert_eq!(fingerprint_strict(&back), fingerprint_strict(&message));
        assert_eq!(back.idempotency_key(), message.idempotency_key());
        assert_eq!(back.message_id(), message.message_id());
        assert_eq!(back.to_json_line(), line);
    }

    #[test]
    fn the_order_of_headers_is_kept() {
        let message = Message::builder().from("a@x.example").to("b@x.example").text("");
        let message =
            message.header("X-Zeta", "1").header("X-Alpha", "2").header("x-zeta", "3").build().unwrap();
        let line = message.to_json_line();
        assert!(line.contains(r#""headers":{"X-Zeta":["1","3"],"X-Alpha":["2"]}"#), "{line}");
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        let message = Message::builder().from("a@x.example").to("b@x.example").text("").build().unwrap();
        assert_eq!(message.to_json_line(), r#"{"from":["a@x.example"],"to":["b@x.example"],"text":""}"#);
    }
}
