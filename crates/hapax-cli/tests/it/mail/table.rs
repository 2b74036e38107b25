//! CSV and its template.

use super::{counts, mails, recipients, send};
use crate::sandbox::Sandbox;
use std::fs;

const TEMPLATE: &str = r#"{"from":"Shop <shop@example.com>","to":"{{ name }} <{{ mail }}>","cc":"{{ cc }}",
    "subject":"Welcome, {{ name }}","text":"Hello {{ name }}!","html":"<p>Hello {{ name }}!</p>",
    "idempotency_key":"welcome:{{ id }}"}"#;

#[test]
fn a_row_becomes_a_message() {
    let sandbox = Sandbox::new();
    sandbox.write("t.json", TEMPLATE);
    sandbox.write("list.csv", "id,name,mail,cc\r\n1,Ada,ada@example.com,\r\n2,\"Tom <& \"\"Jerry\"\"\",tom@example.com,c@example.com\r\n");
    let ran = send(&sandbox, &["list.csv", "--template", "t.json"]).exits(65);
    // A name with quotes and brackets is no display name as it stands.
    assert!(ran.stderr.contains("list.csv:3: to: "), "{ran:?}");
    sandbox.write("t.json", TEMPLATE.replace("{{ name }} <{{ mail }}>", "{{ mail }}"));
    let ran = send(&sandbox, &["list.csv", "--template", "t.json", "--json"]).exits(0);
    assert_eq!(ran.lines()[1]["key"], "welcome:2");
    assert_eq!(ran.lines()[1]["place"], "list.csv:3");
    let all = mails(&sandbox.path("outbox"));
    let tom = all.iter().find(|mail| mail.contains("tom@example.com")).unwrap();
    assert!(tom.contains("<p>Hello Tom &lt;&amp; ") && tom.contains("Hello Tom <& \"Jerry\"!"), "{tom}");
    assert!(tom.contains("Cc: "), "{tom}");
    assert!(!all.iter().find(|mail| mail.contains("ada@example.com")).unwrap().contains("Cc: "));
    counts(
        &send(&sandbox, &["list.csv", "--template", "t.json"]).exits(0),
        "sent 0, replayed 2, failed 0, unknown 0, in flight 0",
    );
}

#[test]
fn columns_are_there_for_the_key_template_and_bodies_come_from_files() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("t")).unwrap();
    sandbox.write("t/body.html", "<p>{{ name }}</p>\n");
    sandbox.write(
        "t/t.json",
        r#"{"from":"a@example.com","to":"{{ mail }}","subject":"x","html":{"file":"body.html"}}"#,
    );
    sandbox.write("list.tsv", "mail\tname\nada@example.com\tAda\n");
    let args = ["list.tsv", "--template", "t/t.json", "--key-template", "w:{name}:{to}", "--json"];
    assert_eq!(send(&sandbox, &args).exits(0).json()["key"], "w:Ada:ada@example.com");
    assert!(mails(&sandbox.path("outbox"))[0].contains("<p>Ada</p>"));
    send(&sandbox, &["list.tsv", "--template", "t/t.json", "--key-template", "w:{nam}"])
        .exits(2)
        .says("did you mean `{name}`?");
}

#[test]
fn a_column_that_is_missing_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("t.json", TEMPLATE);
    sandbox.write("list.csv", "id,nane,mail,cc\n1,Ada,ada@example.com,\n");
    send(&sandbox, &["list.csv", "--template", "t.json"])
        .exits(65)
        .says("`name`")
        .says("did you mean `nane`?");
    sandbox.write("semi.csv", "id;name;mail;cc\n1;Ada;ada@example.com;\n");
    send(&sandbox, &["semi.csv", "--template", "t.json"]).exits(65).says("--delimiter");
    // Also where the one column looks like one that is missing.
    sandbox.write("near.csv", "name;x\nAda;y\n");
    send(&sandbox, &["near.csv", "--template", "t.json"]).exits(65).says("--delimiter");
    send(&sandbox, &["semi.csv", "--template", "t.json", "--delimiter", ";"]).exits(0);
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 1);
}

#[test]
fn bad_rows_are_named_with_their_lines_and_nothing_is_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("t.json", TEMPLATE);
    let rows = b"id,name,mail,cc\n1,\"A\nB\",a@example.com,\n2,x,y\n3,\xff,c@example.com,\n4,D,nonsense,\n5,E,e@example.com,\n";
    sandbox.write("list.csv", rows);
    let ran = send(&sandbox, &["list.csv", "--template", "t.json"]).exits(65).says("4 of 5 messages");
    for words in [
        // The break in the name would be one in the header.
        "list.csv:2: to: ",
        "list.csv:2: subject: it holds a line break",
        "list.csv:4: it has 3 fields, and there are 4 columns",
        "list.csv:5: name: byte 1 of the field is no valid UTF-8",
        "list.csv:6: to: ",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert!(!sandbox.path("outbox").exists());
}

#[test]
fn a_value_cannot_add_fields_or_headers() {
    let sandbox = Sandbox::new();
    sandbox
        .write("t.json", r#"{"from":"a@example.com","to":"{{ mail }}","subject":"{{ name }}","text":"x"}"#);
    sandbox.write("list.csv", "name,mail\n\"x\"\",\"\"bcc\"\":\"\"evil@example.com\",b@example.com\n");
    send(&sandbox, &["list.csv", "--template", "t.json"]).exits(0);
    let mail = &mails(&sandbox.path("outbox"))[0];
    assert!(mail.contains("Subject: x\",\"bcc\":\"evil@example.com"), "{mail}");
}

#[test]
fn csv_needs_a_template_and_the_template_has_to_be_json() {
    let sandbox = Sandbox::new();
    sandbox.write("list.csv", "a\n1\n");
    send(&sandbox, &["list.csv"]).exits(2).says("--template");
    sandbox.write("t.json", "{\"to\":");
    send(&sandbox, &["list.csv", "--template", "t.json"]).exits(65).says("t.json cannot be used");
    sandbox.write("t.json", "{\"to\":\"{{ a\"}");
    send(&sandbox, &["list.csv", "--template", "t.json"]).exits(65).says("t.json cannot be used: to: ");
    send(&sandbox, &["list.csv", "--template", "no-such"]).exits(65).says("no-such");
}
