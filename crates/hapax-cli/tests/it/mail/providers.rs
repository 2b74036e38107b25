//! Providers over HTTP, and several of them: the real command against a peer that is scripted.

use super::{counts, line, lines};
use crate::sandbox::{Ran, Sandbox};
use hapax_testkit::https::Https;
use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

const SECRET: &str = "re_very_secret";

/// Answers each request with what comes next, on a connection of its own; without an answer it closes.
struct Peer {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    fn start(answers: impl IntoIterator<Item = Option<(u16, &'static str)>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut answers: VecDeque<_> = answers.into_iter().collect();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut stream) else { continue };
                seen.lock().unwrap().push(request);
                if let Some((status, body)) = answers.pop_front().flatten() {
                    let _ = write!(
                        stream,
                        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\nconnection: close\r\n\
                         content-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                }
            }
        });
        Self { port, requests }
    }

    fn via(&self, provider: &str) -> String {
        format!("{provider}?endpoint=http://127.0.0.1:{}", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        let mut more = [0; 4096];
        match stream.read(&mut more) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend(more.iter().take(n)),
        }
    }
}

/// With the keys of all providers in the environment.
fn run(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let mut command = sandbox.command(args);
    for variable in
        ["RESEND_API_KEY", "POSTMARK_SERVER_TOKEN", "SENDGRID_API_KEY", "MAILGUN_API_KEY", "BREVO_API_KEY"]
    {
        command.env(variable, SECRET);
    }
    let ran = Ran::of(command.output().unwrap());
    assert!(!format!("{ran:?}").contains(SECRET), "{ran:?}");
    ran
}

fn send(sandbox: &Sandbox, via: &[&str], more: &[&str]) -> Ran {
    let vias: Vec<&str> = via.iter().flat_map(|via| ["--via", via]).collect();
    run(sandbox, &[&["mail", "send", "a.jsonl"], vias.as_slice(), more].concat())
}

const OK: Option<(u16, &str)> = Some((200, "{\"id\":\"re_1\",\"ErrorCode\":0,\"MessageID\":\"pm_1\"}"));

#[test]
fn a_provider_is_sent_each_mail_once_under_a_key_of_its_own() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(3));
    let peer = Peer::start([OK, OK, OK]);
    let via = peer.via("resend:");
    let ran = send(&sandbox, &[&via], &["--json", "--concurrency", "1"]).exits(0);
    let objects = ran.lines();
    assert_eq!(objects.len(), 3);
    assert!(objects.iter().all(|o| o["provider"] == "resend" && o["provider_id"] == "re_1"), "{objects:?}");
    let again = send(&sandbox, &[&via], &[]).exits(0);
    counts(&again, "sent 0, replayed 3, failed 0, unknown 0, in flight 0");
    // Whoever delivers, the keys are the same.
    let postmark = send(&sandbox, &[&peer.via("postmark:")], &[]).exits(0);
    counts(&postmark, "sent 0, replayed 3, failed 0, unknown 0, in flight 0");
    let requests = peer.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.contains("\r\nauthorization: Bearer re_very_secret\r\n")));
    let key = |request: &String| {
        request.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap().to_owned()
    };
    let keys: std::collections::BTreeSet<_> = requests.iter().map(key).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| key.len() == 64 && !key.contains("mail")));
}

#[test]
fn the_key_of_a_provider_comes_from_the_environment_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    let ran = sandbox.hapax(&["mail", "send", "a.jsonl", "--via", "resend:"]).exits(2);
    assert!(ran.stderr.contains("RESEND_API_KEY") && ran.stdout.is_empty(), "{ran:?}");
    let ran = sandbox.hapax(&["mail", "send", "a.jsonl", "--via", "resend:re_very_secret"]).exits(2);
    assert!(ran.stderr.contains("RESEND_API_KEY") && !ran.stderr.contains(SECRET), "{ran:?}");
    let ran =
        sandbox.hapax(&["mail", "send", "a.jsonl", "--via", "brevo:?endpoint=http://example.com"]).exits(2);
    assert!(ran.stderr.contains("https:"), "{ran:?}");
    sandbox.hapax(&["mail", "worker", "--via", "postmark:", "--once"]).exits(2).says("POSTMARK_SERVER_TOKEN");
    // A rehearsal needs none, and says so.
    let ran = sandbox.hapax(&["mail", "send", "a.jsonl", "--via", "resend:", "--dry-run"]).exits(0);
    assert!(
        ran.stderr.contains("RESEND_API_KEY is not set") && ran.stderr.contains("would send 1"),
        "{ran:?}"
    );
    let mixed = ["mail", "send", "a.jsonl", "--via", "file:outbox", "--via", "resend:"];
    sandbox.hapax(&mixed).exits(2).says("take no part in a pool");
}

#[test]
fn the_next_transport_is_tried_where_one_fails_for_certain() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    let down = Peer::start([Some((503, "{\"name\":\"service_unavailable\"}"))]);
    let up = Peer::start([OK]);
    let via = [down.via("resend:"), up.via("postmark:")];
    let ran = send(&sandbox, &[&via[0], &via[1]], &["--attempts", "1", "--json"]).exits(0);
    let object = ran.json();
    assert_eq!((&object["provider"], &object["attempts"]), (&"postmark".into(), &2.into()));
    // Where all fail, the next run tries again.
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    let down =
        Peer::start([Some((401, "{\"name\":\"missing_api_key\"}")), Some((401, "{\"ErrorCode\":10}")), OK]);
    let via = [down.via("resend:"), down.via("postmark:")];
    let object = send(&sandbox, &[&via[0], &via[1]], &["--json"]).exits(1).json();
    assert_eq!((&object["code"], &object["category"]), (&"pool.exhausted".into(), &"auth".into()));
    let again = send(&sandbox, &[&via[0], &via[1]], &[]).exits(0);
    counts(&again, "sent 1, replayed 0, failed 0, unknown 0, in flight 0");
    // Folders make a pool, too.
    sandbox.write("outbox", "no folder");
    let folders = ["mail", "send", "a.jsonl", "--via", "file:outbox", "--via", "file:other"];
    sandbox.hapax(&folders).exits(0);
    assert_eq!(super::mails(&sandbox.path("other")).len(), 1);
}

#[test]
fn a_lost_answer_is_unknown_unless_the_provider_recognises_the_key() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", line(1));
    let peer = Peer::start([None, OK]);
    let via = peer.via("sendgrid:");
    let object = send(&sandbox, &[&via], &["--json"]).exits(76).json();
    assert_eq!((&object["code"], &object["delivery_unknown"]), (&"http.reply_lost".into(), &true.into()));
    // It may have gone, so no other is tried, and no later run sends it.
    let pooled = [peer.via("sendgrid:"), peer.via("postmark:")];
    send(&sandbox, &[&pooled[0], &pooled[1]], &[]).exits(76);
    assert_eq!(peer.requests().len(), 1);

    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", line(1));
    let peer = Peer::start([None, OK]);
    let object = send(&sandbox, &[&peer.via("resend:")], &["--json"]).exits(0).json();
    assert_eq!((&object["outcome"], &object["attempts"]), (&"accepted".into(), &2.into()));
    let requests = peer.requests();
    assert_eq!(requests[0], requests[1]);
}

#[test]
fn a_provider_is_asked_about_what_may_have_gone() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    let none = Some((200, "{\"TotalCount\":0,\"Messages\":[]}"));
    let one = Some((200, "{\"TotalCount\":1,\"Messages\":[{\"MessageID\":\"pm_7\"}]}"));
    let peer = Peer::start([None, None, one, none, one, none, none]);
    let via = peer.via("postmark:");
    send(&sandbox, &[&via], &["--concurrency", "1"]).exits(76);
    let reconcile = |more: &[&str]| run(&sandbox, &[&["mail", "reconcile", "--via", &via], more].concat());
    // Only asked: nothing is written.
    let ran = reconcile(&["--dry-run"]).exits(76);
    assert!(ran.stderr.contains("were sent 1, were not 0, still unknown 1"), "{ran:?}");
    let ran = reconcile(&["--json"]).exits(76);
    let settled: Vec<_> = ran.lines().iter().map(|o| o["settled"].as_str().unwrap().to_owned()).collect();
    assert_eq!(settled, ["sent", "unknown"]);
    let get = |key: &str| run(&sandbox, &["keys", "get", key, "--scope", "mail", "--json"]).json();
    assert_eq!((&get("mail:0")["state"], &get("mail:1")["state"]), (&"done".into(), &"unknown".into()));
    // Old enough: it was not sent, and the next run sends it.
    reconcile(&["--free-after", "1ms"]).exits(0).says("were sent 0, were not 1, still unknown 0");
    assert_eq!(get("mail:1")["state"], "vacant");
    let peer = Peer::start([OK]);
    let ran = send(&sandbox, &[&peer.via("postmark:")], &[]).exits(0);
    counts(&ran, "sent 1, replayed 1, failed 0, unknown 0, in flight 0");
    // Nothing left to ask about; and who cannot be asked.
    reconcile(&[]).exits(0);
    run(&sandbox, &["mail", "reconcile", "--via", "resend:"]).exits(2).says("cannot be asked");
    run(&sandbox, &["mail", "reconcile", "--via", "stub:"]).exits(2).says("cannot be asked");
    run(&sandbox, &["mail", "reconcile", "--via", "smtp://h"]).exits(2).says("a mail server cannot be asked");
}

#[test]
fn a_time_to_send_at_is_left_to_a_provider_that_can_wait() {
    let sandbox = Sandbox::new();
    let later = line(1).replace("\"subject\"", "\"send_at\":\"2030-01-31T09:00:00Z\",\"subject\"");
    sandbox.write("a.jsonl", later);
    let peer = Peer::start([OK]);
    send(&sandbox, &[&peer.via("postmark:")], &[]).exits(65).says("send_at");
    send(&sandbox, &[&peer.via("resend:")], &[]).exits(0);
    assert!(peer.requests()[0].contains("\"scheduled_at\":\"2030-01-31T09:00:00Z\""));
}

#[test]
fn who_is_on_the_suppression_list_gets_no_mail() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(3));
    sandbox.write("gone.txt", "# bounced\nuser1@example.com\n");
    let args = ["mail", "send", "a.jsonl", "--suppress", "gone.txt", "--json"];
    let objects = sandbox.hapax(&args).exits(1).lines();
    assert_eq!(
        (&objects[1]["code"], &objects[1]["rejected"][0]["address"]),
        (&"mail.suppressed".into(), &"user1@example.com".into())
    );
    assert_eq!(super::recipients(&sandbox.path("outbox")).len(), 2);
    sandbox.write("bad.txt", "user1@example.com\nnot an address\n");
    let args = ["mail", "send", "a.jsonl", "--suppress", "bad.txt"];
    sandbox.hapax(&args).exits(65).says("line 2 is neither an address nor `@domain`");
}

#[test]
fn a_provider_is_known_by_its_certificate_before_it_sees_a_key() {
    let body = "{\"id\":\"re_1\"}";
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = Https::start([answer.clone(), answer]);
    let authority = hapax_testkit::smtp::authority();
    for (host, trusted, sent) in
        [("localhost", true, true), ("localhost", false, false), ("127.0.0.2", true, false)]
    {
        let sandbox = Sandbox::new();
        sandbox.write("a.jsonl", lines(2));
        let via = format!("resend:?endpoint=https://{host}:{}", server.port());
        let args = ["mail", "send", "a.jsonl", "--via", &via, "--concurrency", "1", "--json"];
        let mut command = sandbox.command(&args);
        command.env("RESEND_API_KEY", SECRET);
        if trusted {
            command.env("SSL_CERT_FILE", &authority);
        }
        let ran = Ran::of(command.output().unwrap()).exits(i32::from(!sent));
        for object in ran.lines() {
            if sent {
                assert_eq!(object["provider_id"], "re_1", "{object}");
            } else {
                let told = (&object["category"], &object["code"], &object["delivery_unknown"]);
                assert_eq!(told, (&"configuration".into(), &"http.tls_cert".into(), &false.into()), "{host}");
            }
        }
    }
    // Both mails over one connection, and nothing to whom nobody knows.
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.starts_with("POST /emails HTTP/1.1\r\n")), "{requests:?}");
}

#[test]
fn a_send_is_logged_on_request_alone_and_without_addresses() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    let peer = Peer::start([Some((422, "{\"name\":\"missing_required_field\"}")), OK]);
    let via = peer.via("resend:");
    let quiet = send(&sandbox, &[&via], &[]).exits(1);
    assert!(!quiet.stderr.contains("a mail was not sent"), "{quiet:?}");
    let told = run(&sandbox, &["-v", "mail", "send", "a.jsonl", "--via", &via]).exits(0);
    assert!(told.stderr.contains("a mail was sent") && !told.stderr.contains('@'), "{told:?}");
}

#[test]
fn a_dry_run_says_who_is_on_the_suppression_list() {
    let sandbox = Sandbox::new();
    let to = |list: &str| format!("{{\"from\":\"shop@example.com\",\"to\":[{list}],\"text\":\"x\"}}\n");
    sandbox.write("a.jsonl", to("\"gone@example.com\"") + &to("\"gone@example.com\",\"ada@example.com\""));
    sandbox.write("gone.txt", "gone@example.com\n");
    let args = ["mail", "send", "a.jsonl", "--via", "stub:", "--suppress", "gone.txt", "--dry-run"];
    let ran = sandbox.hapax(&args).exits(0);
    assert!(ran.stdout.contains("nothing: every recipient is on the suppression list"), "{ran:?}");
    assert!(ran.stdout.contains("send, without 1 on the suppression list"), "{ran:?}");
    assert!(ran.stderr.contains("would send 1") && ran.stderr.contains("neither 1"), "{ran:?}");
    let objects = sandbox.hapax(&[&args[..], &["--json"]].concat()).exits(0).lines();
    let told: Vec<_> = objects.iter().map(|o| (o["would"].clone(), o["suppressed"].clone())).collect();
    let gone: serde_json::Value = vec!["gone@example.com"].into();
    let expected: [(serde_json::Value, _); 2] = [("suppress".into(), gone.clone()), ("send".into(), gone)];
    assert_eq!(told, expected);
}

#[test]
fn keys_of_a_server_are_settled_without_its_password() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    // There is nothing to settle, which is said, and not that a password is missing.
    let via = "smtp://app@mail.example.com";
    let ran = sandbox.hapax(&["mail", "resolve", "k", "--as", "failed", "--via", via]).exits(65);
    assert!(!ran.stderr.contains("password") && ran.stderr.contains("nothing unknown is under k"), "{ran:?}");
    // A rehearsal needs none either, and says so; a run does.
    let dry = sandbox.hapax(&["mail", "send", "a.jsonl", "--via", via, "--dry-run"]).exits(0);
    assert!(dry.stderr.contains("HAPAX_SMTP_PASSWORD is not set"), "{dry:?}");
    sandbox.hapax(&["mail", "send", "a.jsonl", "--via", via]).exits(2).says("HAPAX_SMTP_PASSWORD");
    // What is wrong with the URL is told in any case.
    sandbox.hapax(&["mail", "send", "a.jsonl", "--via", "smtp://app@:0", "--dry-run"]).exits(2);
}

#[test]
fn ses_is_a_provider_of_a_build_with_its_feature() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    let peer = Peer::start([Some((200, "{\"MessageId\":\"0102018f\"}"))]);
    let via = peer.via("ses:eu-west-1");
    let mut command = sandbox.command(&["mail", "send", "a.jsonl", "--via", &via, "--json"]);
    let command = command.env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE").env("AWS_SECRET_ACCESS_KEY", SECRET);
    let ran = Ran::of(command.output().unwrap());
    assert!(!format!("{ran:?}").contains(SECRET), "{ran:?}");
    if cfg!(feature = "ses") {
        let object = ran.exits(0).json();
        assert_eq!(object["message_id"], "<0102018f@eu-west-1.amazonses.com>");
        assert!(peer.requests()[0].contains("/eu-west-1/ses/aws4_request"), "{:?}", peer.requests());
        let args = ["mail", "send", "a.jsonl", "--via", "ses:eu-west-1"];
        sandbox.hapax(&args).exits(2).says("AWS_ACCESS_KEY_ID");
        sandbox.hapax(&["mail", "send", "a.jsonl", "--via", "ses:"]).exits(2).says("region");
    } else {
        assert!(ran.exits(2).stderr.contains("--features ses"), "{:?}", peer.requests());
    }
}
