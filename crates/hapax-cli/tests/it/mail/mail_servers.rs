//! `hapax mail` and mail servers: the real command, against a server that does as it is told.

use super::{line, lines, send};
use crate::sandbox::{Ran, Sandbox, pause};
use hapax_testkit::smtp::{Act, Listening, Sink, Step, authority};
use std::{
    collections::{BTreeMap, BTreeSet, hash_map::RandomState},
    hash::BuildHasher,
    time::Duration,
};

/// A server in the clear, and the way to it.
fn clear(sink: &Sink) -> (Listening, String) {
    let server = sink.listen();
    let url = format!("smtp://127.0.0.1:{}?tls=none", server.port());
    (server, url)
}

fn one() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1));
    sandbox
}

#[test]
fn mails_go_encrypted_to_a_server_that_knows_us_and_once() {
    let sink = Sink::new().starttls().with("AUTH PLAIN LOGIN").user("ada", "s3cret");
    let server = sink.listen();
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(20));
    let options = format!("tls_ca={}&connections=4", authority().display());
    let url = format!("smtp://ada@localhost:{}?{options}", server.port());
    let run = |more: &[&str], password: &str| {
        let args = [&["mail", "send", "a.jsonl", "--via", &url], more].concat();
        let mut command = sandbox.command(&args);
        Ran::of(command.env("HAPAX_SMTP_PASSWORD", password).output().unwrap())
    };
    run(&[], "").exits(2).says("HAPAX_SMTP_PASSWORD");
    run(&["--dry-run"], "s3cret").exits(0);
    assert_eq!(sink.connections(), 0);
    let wrong = run(&["--json"], "wrong").exits(1).lines();
    assert_eq!((&wrong[0]["category"], &wrong[0]["code"]), (&"auth".into(), &"smtp.auth".into()));
    assert_eq!((&wrong[0]["stage"], &wrong[0]["smtp_status"]), (&"auth".into(), &535.into()));
    let sent = run(&["--json"], "s3cret").exits(0).lines();
    assert_eq!((sent.len(), sink.deliveries().len()), (20, 20));
    for line in &sent {
        assert_eq!((&line["outcome"], &line["provider"]), (&"accepted".into(), &"smtp".into()));
        assert_eq!(line["provider_id"], "4SINK");
    }
    assert!(sink.most_open() <= 4, "{}", sink.most_open());
    let again = run(&[], "s3cret").exits(0);
    super::counts(&again, "sent 0, replayed 20, failed 0, unknown 0, in flight 0");
    assert_eq!(sink.deliveries().len(), 20);
    let everything = format!("{wrong:?}{sent:?}{again:?}");
    assert!(!everything.contains("s3cret"));
}

#[test]
fn a_mail_that_may_have_gone_does_not_go_again_until_somebody_says_so() {
    let sink = Sink::new();
    let (_server, url) = clear(&sink);
    let sandbox = one();
    sink.then(Step::Dot, Act::Close);
    for _ in 0..2 {
        let lines = send(&sandbox, &["a.jsonl", "--via", &url, "--json"]).exits(76).lines();
        assert_eq!((&lines[0]["delivery_unknown"], &lines[0]["retryable"]), (&true.into(), &false.into()));
        assert_eq!((&lines[0]["code"], &lines[0]["stage"]), (&"smtp.reply_lost".into(), &"reply".into()));
    }
    assert_eq!(sink.deliveries().len(), 1);
    sandbox.hapax(&["mail", "resolve", "mail:0", "--as", "failed"]).exits(0);
    send(&sandbox, &["a.jsonl", "--via", &url]).exits(0);
    assert_eq!(sink.deliveries().len(), 2);
}

#[test]
fn a_server_that_drops_us_at_its_greeting_is_asked_as_often_as_told() {
    let sink = Sink::new();
    let (_server, url) = clear(&sink);
    sink.always(Step::Greeting, Act::Close);
    let sandbox = one();
    let lines = send(&sandbox, &["a.jsonl", "--via", &url, "--attempts", "2", "--json"]).exits(1).lines();
    assert_eq!((&lines[0]["code"], &lines[0]["attempts"]), (&"smtp.greeting".into(), &2.into()));
    assert_eq!(sink.connections(), 2);
}

#[test]
fn refused_recipients_are_listed() {
    let sink = Sink::new().lmtp();
    let server = sink.listen();
    sink.recipient("b@example.com", "550 5.1.1 no such user");
    let sandbox = Sandbox::new();
    let mail = r#"{"from":"a@example.com","to":["ada@example.com","b@example.com"],"text":"x","idempotency_key":"m"}"#;
    sandbox.write("a.jsonl", mail);
    let url = format!("lmtp://127.0.0.1:{}", server.port());
    let lines = send(&sandbox, &["a.jsonl", "--via", &url, "--json"]).exits(0).lines();
    assert_eq!(
        (&lines[0]["provider"], &lines[0]["accepted"][0]),
        (&"lmtp".into(), &"ada@example.com".into())
    );
    assert_eq!(lines[0]["rejected"][0]["address"], "b@example.com");
    assert_eq!(lines[0]["rejected"][0]["retryable"], false);
}

#[test]
fn a_worker_sends_through_a_server_and_its_keys_are_those_of_every_delivery() {
    let sink = Sink::new();
    let (_server, url) = clear(&sink);
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(5));
    sandbox.hapax(&["mail", "enqueue", "a.jsonl"]).exits(0);
    sandbox.hapax(&["mail", "worker", "--via", &url, "--until-empty"]).exits(0);
    assert_eq!(sink.deliveries().len(), 5);
    // A folder is a rehearsal, and another server is none.
    send(&sandbox, &["a.jsonl", "--via", "file:outbox"]).exits(0).says("sent 5");
    let other = Sink::new();
    let (_other_server, other_url) = clear(&other);
    send(&sandbox, &["a.jsonl", "--via", &other_url]).exits(0).says("replayed 5");
    assert_eq!(other.connections(), 0);
}

#[test]
fn urls_of_servers_that_are_wrong_say_so_without_the_password() {
    let sandbox = one();
    for (url, words) in [
        ("smtp://u:s3cret@localhost?tsl=none", "did you mean `tls`"),
        ("smtp://u:s3cret@localhost/x", "no path"),
        ("smtps://u:s3cret@localhost?tls=none", "STARTTLS"),
        ("smtp://u:s3cret@localhost?tls_ca=missing.pem", "cannot be read"),
        ("smtp://u:s3cret@localhost?timeout=5", "`5s`"),
    ] {
        let ran = send(&sandbox, &["a.jsonl", "--via", url]).exits(2).says(words);
        assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
    }
}

/// Which mail a delivery is of.
fn subjects(sink: &Sink) -> Vec<String> {
    sink.deliveries().iter().map(|one| one.field("Subject").unwrap()).collect()
}

/// The mails whose receipt is stored.
fn done(sandbox: &Sandbox) -> BTreeSet<String> {
    let args = ["keys", "list", "--scope", "mail", "--state", "done", "--limit", "1000", "--json"];
    let lines = sandbox.hapax(&args).exits(0).lines();
    let keys = lines.iter().filter_map(|line| line["key"].as_str());
    keys.map(|key| key.replace("mail:", "Mail ")).collect()
}

#[test]
fn killed_at_random_moments_it_sends_twice_only_what_had_no_receipt_and_only_after_the_lease() {
    let (kills, messages) = if std::env::var_os("HAPAX_TEST_LONG").is_some() { (60, 600) } else { (10, 100) };
    let sink = Sink::new();
    let (_server, url) = clear(&sink);
    // So that many kills fall between a delivery and its reply.
    sink.always(Step::Dot, Act::Late(Duration::from_millis(15)));
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", (0..messages).map(|n| line(n) + "\n").collect::<String>());
    let run = ["mail", "send", "a.jsonl", "--via", &url, "--lease", "1s", "--concurrency", "4"];
    let random = RandomState::new();
    let (mut settled, mut met) = (BTreeMap::new(), 0);
    for kill in 0..kills {
        let mut run = sandbox.command(&run).spawn().unwrap();
        pause(Duration::from_micros(30_000 + random.hash_one(kill) % 150_000));
        run.kill().unwrap();
        met += u32::from(run.wait().unwrap().code().is_none());
        let deliveries = subjects(&sink);
        for subject in done(&sandbox) {
            let times = deliveries.iter().filter(|one| **one == subject).count();
            settled.entry(subject).or_insert(times);
        }
    }
    assert!(met > kills / 4, "only {met} kills met a run that was at work");
    sandbox.hapax(&run).exits(0);
    let deliveries = sink.deliveries();
    let mut times: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for one in &deliveries {
        times.entry(one.field("Subject").unwrap()).or_default().push(one.at);
    }
    assert_eq!(times.len(), messages, "some were never sent");
    for (subject, count) in &settled {
        assert_eq!(times[subject].len(), *count, "{subject} was sent again, with its receipt stored");
    }
    let mut again = 0;
    for (subject, at) in &times {
        for pair in at.windows(2) {
            again += 1;
            // Renewed at each third: two thirds of it at least were left when the process died.
            assert!(pair[1] - pair[0] >= Duration::from_millis(600), "{subject}: {:?}", pair[1] - pair[0]);
        }
    }
    assert!(again <= 4 * kills, "{again} more deliveries for {kills} kills of 4 sends each");
    println!("{met} of {kills} kills met a run at work; {again} mails were delivered twice");
}
