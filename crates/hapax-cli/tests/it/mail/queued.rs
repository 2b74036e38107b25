//! Mails over the queue: `hapax mail enqueue` and `hapax mail worker`.

use super::{lines, mails, recipients};
use crate::sandbox::{Begun, Ran, Sandbox, until};
use hapax::mail::{Mailer, Receipt, Stub, jobs::MailJobs};
use rustix::process::Signal;
use serde_json::Value;

fn enqueue(sandbox: &Sandbox, args: &[&str]) -> Ran {
    sandbox.hapax(&[&["mail", "enqueue"], args].concat())
}

fn worker(sandbox: &Sandbox, args: &[&str]) -> Ran {
    sandbox.hapax(&[&["mail", "worker"], args].concat())
}

fn stats(sandbox: &Sandbox) -> Value {
    sandbox.hapax(&["queue", "stats", "mail", "--json"]).exits(0).json()
}

#[test]
fn two_workers_send_each_mail_once() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(50));
    let added = enqueue(&sandbox, &["a.jsonl"]).exits(0).says("added 50, there before 0, refused 0");
    assert_eq!(added.stdout.lines().count(), 50);
    // Run again, it adds nothing.
    enqueue(&sandbox, &["a.jsonl", "-q"]).exits(0);
    enqueue(&sandbox, &["a.jsonl"]).exits(0).says("added 0, there before 50, refused 0");
    let start = || Begun::of(&mut sandbox.command(&["mail", "worker", "--until-empty"]));
    let workers = [start(), start()];
    for worker in workers {
        worker.end().exits(0);
    }
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 50);
    let stats = stats(&sandbox);
    assert_eq!((&stats["done"], &stats["dead"], &stats["ready"]), (&50.into(), &0.into(), &0.into()));
    // What is over is known, too.
    enqueue(&sandbox, &["a.jsonl"]).exits(0).says("added 0, there before 50");
    // A run of `mail send` has the same keys.
    let via = ["mail", "send", "a.jsonl", "--via", "file:outbox"];
    sandbox.hapax(&via).exits(0).says("sent 0, replayed 50");
}

#[test]
fn workers_that_are_killed_lose_no_mail_and_send_none_twice() {
    let (kills, messages) = if std::env::var_os("HAPAX_TEST_LONG").is_some() { (30, 600) } else { (4, 80) };
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(messages));
    enqueue(&sandbox, &["a.jsonl", "-q", "--max-attempts", "99"]).exits(0);
    let run = ["mail", "worker", "--lease", "1s", "--rate", "100/s"];
    for _ in 0..kills {
        let before = mails(&sandbox.path("outbox")).len();
        let mut killed = sandbox.command(&run).spawn().unwrap();
        until("a worker sends", || mails(&sandbox.path("outbox")).len() > before);
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    // Other workers take over what a lost one held, three times at most: no job was held four times here, or it is dead.
    until("all jobs have ended", || {
        worker(&sandbox, &["--lease", "1s", "--until-empty", "-q"]);
        let stats = stats(&sandbox);
        stats["ready"] == 0 && stats["running"] == 0 && stats["delayed"] == 0
    });
    let sent = recipients(&sandbox.path("outbox")).len();
    let stats = stats(&sandbox);
    let dead = usize::try_from(stats["dead"].as_u64().unwrap()).unwrap();
    assert!(sent + dead >= messages && sent <= messages, "{sent}, {stats}");
    assert_eq!(dead, 0, "{}", sandbox.hapax(&["queue", "dead", "list", "mail"]).stdout);
}

#[test]
fn a_worker_told_to_stop_ends_its_sends_and_exits_0() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(20));
    enqueue(&sandbox, &["a.jsonl", "-q"]).exits(0);
    let begun = Begun::of(&mut sandbox.command(&["mail", "worker", "--rate", "20/s"]));
    until("a mail is sent", || !mails(&sandbox.path("outbox")).is_empty());
    begun.signal(Signal::TERM);
    begun.end().exits(0).says("stopping");
    let stats = stats(&sandbox);
    assert_eq!(stats["running"], 0, "{stats}");
    assert_eq!(recipients(&sandbox.path("outbox")).len() as u64, stats["done"].as_u64().unwrap());
    // What waited for its turn was put off; it is sent in a second.
    until("all are sent", || {
        worker(&sandbox, &["--until-empty", "-q"]).exits(0);
        recipients(&sandbox.path("outbox")).len() == 20
    });
}

#[test]
fn another_mail_under_a_key_is_refused_by_itself() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    enqueue(&sandbox, &["a.jsonl", "-q"]).exits(0);
    sandbox.write("b.jsonl", lines(3).replace("Hello 1.", "Changed."));
    let ran = enqueue(&sandbox, &["b.jsonl", "--json"]).exits(1).says("b.jsonl:2: the job id was used");
    let answers = ran.says("added 1, there before 1, refused 1").lines();
    let of = |n: usize, field: &str| answers[n][field].clone();
    assert_eq!((of(0, "duplicate"), of(0, "job_id")), (true.into(), "mail:0".into()));
    assert_eq!((of(1, "code"), of(1, "place")), ("queue.job_id_reused".into(), "b.jsonl:2".into()));
    assert_eq!((of(2, "accepted"), of(2, "index")), (true.into(), 2.into()));
}

#[test]
fn all_lines_are_checked_before_the_first_is_added() {
    let sandbox = Sandbox::new();
    let bad = r#"{"from":"shop@example.com","to":"nobody","text":""}"#;
    let later =
        r#"{"from":"shop@example.com","to":"a@example.com","text":"","send_at":"2030-01-01T00:00:00Z"}"#;
    let missing =
        r#"{"from":"shop@example.com","to":"a@example.com","text":"","attachments":[{"path":"gone.pdf"}]}"#;
    sandbox.write("a.jsonl", format!("{}{bad}\n{later}\n{missing}\n", lines(2)));
    let ran =
        enqueue(&sandbox, &["a.jsonl", "--json"]).exits(65).says("a.jsonl:3: to: ").says("say --run-at");
    let ran = ran.says("3 of 5 messages are not valid: nothing was added");
    assert_eq!(ran.stdout.lines().count(), 4, "{ran:?}");
    assert!(!sandbox.database().exists());
    let ran = enqueue(&sandbox, &["a.jsonl", "--json", "--skip-invalid"]).exits(1);
    let accepted: Vec<_> = ran.lines().iter().map(|answer| answer["accepted"] == true).collect();
    assert_eq!(accepted, [true, true, false, false, false]);
    assert_eq!(stats(&sandbox)["ready"], 2);
}

#[test]
fn attachments_travel_in_the_job_and_have_to_fit() {
    let sandbox = Sandbox::new();
    let with = |file: &str, key: &str| {
        format!(
            r#"{{"from":"shop@example.com","to":"{key}@example.com","text":"","attachments":[{{"path":"{file}"}}],"idempotency_key":"{key}"}}"#
        )
    };
    sandbox.write("small.bin", vec![7; 3000]);
    sandbox.write("large.bin", vec![7; 900_000]);
    sandbox.write("a.jsonl", format!("{}\n{}\n", with("small.bin", "s"), with("large.bin", "l")));
    enqueue(&sandbox, &["a.jsonl"]).exits(65).says("a.jsonl:2: as a job the mail has 1200");
    let ran = enqueue(&sandbox, &["a.jsonl", "--json", "--skip-invalid"]).exits(1);
    assert_eq!(ran.lines()[1]["code"], "queue.payload_too_large");
    std::fs::remove_file(sandbox.path("small.bin")).unwrap();
    let shown = sandbox.hapax(&["queue", "show", "mail", "s", "--json"]).exits(0).json();
    assert_eq!(shown["payload"]["attachments"][0]["filename"], "small.bin");
    worker(&sandbox, &["--until-empty"]).exits(0).says("done 1");
    assert!(mails(&sandbox.path("outbox"))[0].contains("BwcHBwcH"));
}

#[test]
fn ready_mails_and_rows_are_jobs_too() {
    let sandbox = Sandbox::new();
    sandbox.write("r.eml", "From: shop@example.com\r\nTo: ready@example.com\r\nMessage-ID: <r@example.com>\r\nSubject: R\r\n\r\nHello.\r\n");
    sandbox.write("t.json", r#"{"from":"shop@example.com","to":"{{ mail }}","text":"Dear {{ name }}"}"#);
    sandbox.write("l.csv", "mail,name\nada@example.com,Ada\nbob@example.com,Bob\n");
    enqueue(&sandbox, &["r.eml", "--key-template", "{message_id}"]).exits(0);
    let table = ["l.csv", "--template", "t.json", "--key-template", "dear:{mail}", "--priority", "0"];
    enqueue(&sandbox, &table).exits(0).says("added 2");
    assert_eq!(
        sandbox.hapax(&["queue", "show", "mail", "dear:ada@example.com", "--json"]).json()["priority"],
        0
    );
    worker(&sandbox, &["--until-empty"]).exits(0).says("done 3");
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 3);
}

#[test]
fn a_long_key_is_that_of_mail_send() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(1).replace("mail:0", &"k".repeat(600)));
    for there in [0, 1] {
        enqueue(&sandbox, &["a.jsonl"]).exits(0).says(&format!("there before {there}"));
    }
    worker(&sandbox, &["--until-empty"]).exits(0).says("done 1");
    sandbox.hapax(&["mail", "send", "a.jsonl"]).exits(0).says("sent 0, replayed 1");
}

#[test]
fn what_is_no_mail_is_a_dead_letter() {
    let sandbox = Sandbox::new();
    for payload in ["7", r#"{"from":"a@example.com","to":"no","text":""}"#] {
        sandbox.hapax(&["queue", "add", "mail", payload]).exits(0);
    }
    worker(&sandbox, &["--until-empty"]).exits(1).says("dead 2");
    let dead = sandbox.hapax(&["queue", "dead", "list", "mail", "--json"]).exits(0).lines();
    let mut reasons: Vec<_> = dead.iter().map(|dead| dead["reason"].as_str().unwrap()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["invalid", "undecodable"]);
}

#[test]
fn a_mail_without_a_key_has_that_of_its_job() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"from\":\"shop@example.com\",\"to\":\"a@example.com\",\"text\":\"\"}\n");
    let id = enqueue(&sandbox, &["a.jsonl"]).exits(0).says("1 message has no key").stdout;
    worker(&sandbox, &["--until-empty"]).exits(0).says("done 1");
    let key = sandbox.hapax(&["keys", "list", "--all-scopes", "--json"]).exits(0).json();
    assert_eq!(key["key"], id.trim());
    assert!(key["scope"].as_str().unwrap().starts_with("mail-rehearsal:"), "{key}");
}

#[test]
fn a_worker_that_cannot_write_mails_takes_none() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    enqueue(&sandbox, &["a.jsonl", "-q"]).exits(0);
    sandbox.write("blocked", "no folder");
    worker(&sandbox, &["--via", "file:blocked", "--until-empty"]).exits(69).says("file.not_a_folder");
    worker(&sandbox, &["--via", "file:blocked/deeper", "--until-empty"]).exits(69).says("file.not_a_folder");
    let before = stats(&sandbox);
    assert_eq!((&before["ready"], &before["dead"]), (&2.into(), &0.into()));
    worker(&sandbox, &["--until-empty"]).exits(0).says("done 2");
}

#[test]
fn mails_wait_for_a_folder_that_goes_wrong_while_a_worker_runs() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "subscribe", "mail", "main"]).exits(0);
    let running = Begun::of(&mut sandbox.command(&["mail", "worker"]));
    sandbox.write("a.jsonl", lines(1));
    enqueue(&sandbox, &["a.jsonl", "-q"]).exits(0);
    until("the worker is at it", || stats(&sandbox)["done"] == 1);
    std::fs::remove_dir_all(sandbox.path("outbox")).unwrap();
    sandbox.write("outbox", "in the way");
    sandbox.write("a.jsonl", lines(2));
    enqueue(&sandbox, &["a.jsonl", "-q"]).exits(0);
    until("the mail is put off", || stats(&sandbox)["delayed"] == 1);
    let shown = sandbox.hapax(&["queue", "show", "mail", "mail:1", "--json"]).exits(0).json();
    assert_eq!((&shown["attempts"], &shown["snoozes"]), (&0.into(), &1.into()));
    std::fs::remove_file(sandbox.path("outbox")).unwrap();
    sandbox.hapax(&["queue", "run-now", "mail", "mail:1"]).exits(0);
    until("the mail is sent", || stats(&sandbox)["done"] == 2);
    running.signal(Signal::TERM);
    running.end().exits(0);
    assert_eq!(recipients(&sandbox.path("outbox")).len(), 1);
}

/// Works on the queue as another program does, which delivers through this transport.
fn deliver(sandbox: &Sandbox, stub: &Stub, scope: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let hapax = hapax::connect(format!("sqlite:{}", sandbox.database().display())).await.unwrap();
        let mailer = Mailer::via(stub.clone()).idempotent(&hapax.idempotency(scope)).scope(scope);
        let jobs = MailJobs::new(mailer.build().unwrap());
        hapax.queue().raw("mail").unwrap().worker(jobs).until_empty().await.unwrap();
        assert!(hapax.close().await.is_clean());
    });
}

#[test]
fn a_mail_that_may_have_gone_is_settled_before_it_is_sent_again() {
    for (scope, flag) in [("mail", ""), ("mail-rehearsal:0123", " --scope mail-rehearsal:0123")] {
        let sandbox = Sandbox::new();
        sandbox.write("a.jsonl", lines(2));
        enqueue(&sandbox, &["a.jsonl", "-q"]).exits(0);
        let stub = Stub::new();
        stub.then(Receipt::unknown("smtp.lost")).then(Receipt::unknown("smtp.lost"));
        deliver(&sandbox, &stub, scope);
        let dead = sandbox.hapax(&["queue", "dead", "list", "mail", "--json"]).exits(0).lines();
        assert!(dead.len() == 2 && dead.iter().all(|dead| dead["reason"] == "unknown"), "{dead:?}");
        let way = format!("hapax mail resolve{flag} --as done mail:0");
        sandbox.hapax(&["queue", "dead", "show", "mail", "mail:0"]).exits(0).says(&way);
        for (key, verdict) in [("mail:0", "done"), ("mail:1", "failed")] {
            let resolve = ["mail", "resolve", "--scope", scope, "--as", verdict, key];
            sandbox.hapax(&resolve).exits(0);
        }
        sandbox.hapax(&["queue", "dead", "redrive", "mail", "--all"]).exits(0);
        deliver(&sandbox, &stub, scope);
        let stats = stats(&sandbox);
        assert_eq!((&stats["done"], &stats["dead"], stub.handed()), (&2.into(), &0.into(), 3), "{stats}");
    }
    let sandbox = Sandbox::new();
    let resolve = ["mail", "resolve", "k", "--as", "failed", "--scope", "once"];
    sandbox.hapax(&resolve).exits(2).says("no scope of mails");
}
