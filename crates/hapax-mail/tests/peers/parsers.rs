//! What was written is what two readers see that know nothing of the writer.

use super::support::{bytes, plain};
use hapax_mail::{Address, Attachment, Message, MessageBuilder};
use hapax_testkit::mail::python;
use mail_parser::{MessageParser, MimeHeaders};
use proptest::{collection::vec, prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::process::Command;

fn named(name: &str, address: &str) -> Address {
    Address::new(Some(name), address).unwrap()
}

fn long_thread(mut builder: MessageBuilder) -> MessageBuilder {
    for i in 0..60 {
        builder = builder.reference(format!("{i}.{}@mail.example.com", "r".repeat(40)));
    }
    builder
}

fn many_recipients(mut builder: MessageBuilder) -> MessageBuilder {
    for i in 0..120 {
        builder =
            builder.to(named(&format!("Recipient, Number {i} ü"), &format!("recipient.{i}@example.com")));
    }
    builder
}

/// Messages that writers of mail have been known to get wrong, each with what is special about it.
fn cases() -> Vec<(&'static str, Message)> {
    let png = || Attachment::inline("logo@example.com", "image/png", vec![0_u8, 255, 13, 10, 46, 13, 10, 26]);
    let builders = [
        ("plain", plain()),
        ("hidden recipients only", Message::builder().from("a@example.com").bcc("h@example.com").text("x").subject("y")),
        (
            "names with commas, quotes and backslashes",
            plain()
                .cc(named("Lovelace, Ada \"Countess\" \\o/", "ada@example.com"))
                .cc(named("a:b;(c)<d@e>[f]", "b@example.com"))
                .reply_to(named("O'Brien & Sons.", "o@example.com"))
                .reply_to("second@example.com"),
        ),
        (
            "names in other scripts",
            plain()
                .cc(named("Jürgen, Groß", "j@example.com"))
                .cc(named("山田 太郎", "y@example.com"))
                .cc(named("Ада «Лавлейс» с очень длинным именем, которое не помещается в одну строку заголовка", "l@example.com"))
                .cc(named("👩‍🚀 Ada", "a@example.com")),
        ),
        ("subject in other scripts", plain().subject("Grüße aus 東京 — 🦀 und noch viel mehr Text, damit es in keine einzelne Zeile mehr passt, gewiß nicht")),
        ("long subject", plain().subject("word ".repeat(60) + "end")),
        ("subject that cannot be folded", plain().subject("x".repeat(2000))),
        ("subject with odd spaces", plain().subject("two  spaces\tand = ? a tab")),
        ("international domains", plain().cc("ada@bücher.example").cc("x@例子.广告")),
        ("utf-8 addresses", plain().cc("jørgen@example.com").cc(named("Ж", "ж@bücher.example"))),
        ("quoted local part", plain().cc("\"ada @ home\"@example.com")),
        ("many recipients", many_recipients(plain())),
        ("long thread", long_thread(plain().in_reply_to("x@y"))),
        ("own field, long", plain().header("X-Own", "key=value; ".repeat(80).trim_end())),
        ("own field in other scripts", plain().header("X-Own", "größer ".repeat(40).trim_end())),
        (
            "file names",
            plain()
                .attach("Grüße, \"Welt\"; 100%.pdf", "application/pdf", &b"a"[..])
                .attach("請求書 2030年1月 とても長いファイル名なので一行には収まりません.pdf", "application/pdf", &b"b"[..])
                .attach("a".repeat(250) + ".txt", "text/plain", &b"c"[..])
                .attach("it's 'quoted' * and = more.txt", "text/plain", &b"d"[..]),
        ),
        (
            "text attachments keep their bytes",
            plain()
                .attach("a.txt", "text/plain; charset=utf-8", "cr\rlf\ncrlf\r\n.\r\ntrailing  \r\nü".as_bytes())
                .attach("b.csv", "text/csv; header=present", &b"a,b\n1,2\n"[..])
                .attach("empty.bin", "application/octet-stream", &b""[..]),
        ),
        ("attached mail", plain().attach("m.eml", "message/rfc822", &b"Subject: inner\nFrom: a@b.example\n\nhi\n"[..])),
        ("long lines", plain().text(format!("{}\nhttps://example.com/{}\n", "a".repeat(3000), "b".repeat(1200)))),
        ("dots and From at the start of lines", plain().text(".\n..\n.x\nFrom ada\n\n.\n")),
        ("bare line ends", plain().text("cr\rlf\ncrlf\r\nend")),
        ("trailing spaces", plain().text("a  \n\t\nb \n")),
        ("control characters", plain().text("esc \u{1b}[31m del \u{7f} ff \u{c} nel \u{85}\n")),
        ("text in other scripts", plain().text("今日は\n".repeat(50) + "Grüße\n")),
        ("empty text", plain().text("")),
        ("boundary-like text", plain().html("<p>--=_abc</p>").text("--=_abc_1\n--\n--=_\n")),
        ("text and html", plain().html("<p>Welcome &amp; <b>ü</b></p>\n")),
        ("html alone", Message::builder().from("a@example.com").to("b@example.com").html("<p>ü</p>")),
        ("html with image", Message::builder().from("a@example.com").to("b@example.com").html("<img src=\"cid:logo@example.com\">").attachment(png())),
        (
            "everything",
            plain()
                .html("<img src=\"cid:logo@example.com\">")
                .attachment(png().with_filename("lögo.png"))
                .attach("a.pdf", "application/pdf", vec![7_u8; 100_000])
                .unsubscribe_url(format!("https://example.com/u?{}", "x".repeat(850)))
                .unsubscribe_mailto("leave@example.com?subject=off"),
        ),
    ];
    builders
        .into_iter()
        .map(|(what, builder)| (what, builder.build().unwrap_or_else(|e| panic!("{what}: {e}"))))
        .collect()
}

/// Line ends as LF, and none at the end: transports add one.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").trim_end_matches('\n').to_owned()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn expected(message: &Message) -> Value {
    let list = |list: &[Address]| {
        list.iter().map(|a| json!([a.name().unwrap_or_default(), a.wire_form()])).collect::<Vec<_>>()
    };
    let mut attachments: Vec<&Attachment> = message.attachments().iter().collect();
    attachments.sort_by_key(|a| a.cid().is_none());
    json!({
        "from": list(message.from()),
        "to": list(message.to()),
        "cc": list(message.cc()),
        "bcc": [],
        "reply_to": list(message.reply_to()),
        "subject": message.subject().unwrap_or_default(),
        "own": message.headers().next().map(|(_, value)| value),
        "message_id": "<abcdefghijklmnopqrstuvwxyz@example.com>",
        "references": message.references(),
        "date": "2030-01-31T09:00:00+00:00",
        "text": message.text().map(lines),
        "html": message.html().map(lines),
        "attachments": attachments.iter().map(|a| {
            let embedded = a.content_type() == "message/rfc822";
            json!({
                "filename": a.filename(),
                "type": a.content_type().split(';').next().unwrap_or_default(),
                "cid": a.cid().map(|cid| format!("<{cid}>")),
                "sha256": sha256(if embedded { b"Subject: inner\r\nFrom: a@b.example\r\n\r\nhi\r\n" } else { a.bytes() }),
            })
        }).collect::<Vec<_>>(),
        "defects": [],
    })
}

fn seen_by_rust(sent: &[u8]) -> Value {
    let mail = MessageParser::new()
        .with_mime_headers()
        .with_date_headers()
        .with_address_headers()
        .with_message_ids()
        .header_text("Subject")
        .header_text("X-Own")
        .parse(sent)
        .unwrap();
    let list = |list: Option<&mail_parser::Address<'_>>| -> Vec<Value> {
        let list = list.into_iter().flat_map(|list| list.clone().into_list());
        list.map(|a| json!([a.name.unwrap_or_default(), a.address.unwrap_or_default()])).collect()
    };
    let references: Vec<String> = match mail.references() {
        mail_parser::HeaderValue::Text(one) => vec![format!("<{one}>")],
        mail_parser::HeaderValue::TextList(all) => all.iter().map(|id| format!("<{id}>")).collect(),
        _ => Vec::new(),
    };
    let attachments = mail.attachments().map(|part| {
        let kind = part.content_type().unwrap();
        let embedded =
            part.message().map(|_| sent[part.offset_body as usize..part.offset_end as usize].to_vec());
        json!({
            "filename": part.attachment_name(),
            "type": format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or_default()),
            "cid": part.content_id().map(|cid| format!("<{cid}>")),
            "sha256": sha256(&embedded.unwrap_or_else(|| part.contents().to_vec())),
        })
    });
    let text = |kind: &str| {
        let part = mail.parts.iter().find(|p| {
            p.content_disposition().is_none() && p.content_type().is_some_and(|c| c.subtype() == Some(kind))
        });
        part.map(|part| lines(part.text_contents().unwrap_or_default()))
    };
    json!({
        "from": list(mail.from()),
        "to": list(mail.to()),
        "cc": list(mail.cc()),
        "bcc": list(mail.bcc()),
        "reply_to": list(mail.reply_to()),
        "subject": mail.subject().unwrap_or_default(),
        "own": mail.header("X-Own").and_then(|value| value.as_text()),
        "message_id": mail.message_id().map(|id| format!("<{id}>")),
        "references": references,
        "date": mail.date().unwrap().to_rfc3339().replace('Z', "+00:00"),
        "text": text("plain"),
        "html": text("html"),
        "attachments": attachments.collect::<Vec<_>>(),
        "defects": [],
    })
}

/// Messages of any texts, the same at each run.
fn corpus(count: usize) -> Vec<(String, Message)> {
    let mut runner = TestRunner::deterministic();
    let texts = (
        ("\\PC{1,40}", "\\PC{0,120}|[ -~]{0,300}", "[^\\p{C}/\\\\]{1,40}"),
        ("(\\PC|[\r\n\t. ]){0,300}", "[ -~\r\n]{0,300}", "[!-~]{1,40}( [!-~]{1,40}){0,20}"),
        (vec(any::<u8>(), 0..300), vec("[a-z]{1,10}", 0..4), "[a-zäöüß]{1,10}"),
    );
    let made = texts.prop_filter_map("no message", |((name, subject, filename), (text, html, own), rest)| {
        let (bytes, replies, domain) = rest;
        // Space at the ends of a field and in front of a file's ending is not the text's own. A short subject is folded
        // even between two spaces, and one reader sees one then.
        let is_folded = subject.contains("  ") && (60..78).contains(&subject.len());
        // And one takes quotes off a name that is all in them.
        let is_quoted = filename.starts_with('"') && filename.ends_with('"');
        if subject.trim() != subject || filename.trim() != filename || is_folded || is_quoted {
            return None;
        }
        let address = Address::new(Some(&name), &format!("ada@{domain}.example")).ok()?;
        let builder = plain().cc(address).subject(subject).text(text).html(html).header("X-Own", own);
        let replies = replies.iter().enumerate();
        let builder = replies.fold(builder, |builder, (n, name)| {
            builder.reply_to(named(&format!("{name}, {n}"), &format!("{name}{n}@example.com")))
        });
        builder.attach(filename, "application/octet-stream", bytes).build().ok()
    });
    let next = |n| (format!("message {n} of the corpus"), made.new_tree(&mut runner).unwrap().current());
    (0..count).map(next).collect()
}

fn all() -> Vec<(String, Message)> {
    let named = cases().into_iter().map(|(what, message)| (what.to_owned(), message));
    named.chain(corpus(256)).collect()
}

pub(super) fn independent_rust_parser_sees_what_was_given() {
    for (what, message) in all() {
        assert_eq!(seen_by_rust(&bytes(&message)), expected(&message), "{what}");
    }
}

/// One process reads all.
pub(super) fn python_sees_what_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let messages = all();
    let mut names = Vec::new();
    for (i, (_, message)) in messages.iter().enumerate() {
        let path = folder.path().join(format!("{i}.eml"));
        std::fs::write(&path, bytes(message)).unwrap();
        names.push(path.display().to_string());
    }
    let list = folder.path().join("names");
    std::fs::write(&list, names.join("\n")).unwrap();
    let mut command = Command::new(python().unwrap());
    command.args(["-c", include_str!("parse.py")]).env("PYTHONIOENCODING", "utf-8");
    let output = command.stdin(std::fs::File::open(&list).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().count(), messages.len());
    for ((what, message), line) in messages.iter().zip(output.lines()) {
        let mut seen: Value = serde_json::from_str(line).unwrap();
        for text in ["text", "html"] {
            if let Some(found) = seen[text].as_str().map(lines) {
                seen[text] = found.into();
            }
        }
        assert_eq!(seen, expected(message), "{what}");
    }
}
