//! The command on stores that several machines share.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "it/sandbox.rs"]
mod sandbox;

use hapax_testkit::{
    missing,
    mongodb::{self, SharedMongo},
    postgres::{self, SharedPostgres},
    redis::{PROGRAM, Redis},
};
use libtest_mimic::{Arguments, Completion, Trial};
use sandbox::{Sandbox, until};
use std::{
    collections::BTreeSet,
    process::{ExitCode, Stdio},
};

fn main() -> ExitCode {
    let tests: [(&'static str, fn()); 11] = [
        ("mongodb::once_runs_on_one_machine", once_runs_on_one_machine_by_mongodb),
        ("mongodb::a_mail_is_sent_by_one_machine", a_mail_is_sent_by_one_machine_by_mongodb),
        ("mongodb::a_lock_and_a_limit_are_of_all_machines", a_lock_and_a_limit_by_mongodb),
        ("postgres::once_runs_on_one_machine", once_runs_on_one_machine_by_postgres),
        ("postgres::each_time_is_one_job_of_two_machines", each_time_is_one_job_by_postgres),
        ("redis::each_time_is_one_job_of_two_machines", each_time_is_one_job_by_redis),
        ("redis::once_runs_on_one_machine", once_runs_on_one_machine),
        ("redis::a_call_on_another_machine_is_in_flight", a_call_on_another_machine_is_in_flight),
        ("redis::a_mail_is_sent_by_one_machine", a_mail_is_sent_by_one_machine_by_redis),
        ("redis::nothing_runs_while_the_server_is_gone", nothing_runs_while_the_server_is_gone),
        ("redis::doctor_finds_what_would_forget_keys", doctor_finds_what_would_forget_keys),
    ];
    let trial = |(name, test): (&'static str, fn())| {
        Trial::ignorable_test(name, move || {
            let why = match name.split("::").next() {
                Some("mongodb") if !cfg!(feature = "mongodb") => Some("not in this build".to_owned()),
                Some("mongodb") => mongodb::missing(),
                Some("redis") => missing(&[PROGRAM]),
                _ => postgres::missing(),
            };
            if let Some(why) = why {
                return Ok(Completion::ignored_with(why));
            }
            test();
            Ok(Completion::Completed)
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().map(trial).collect()).exit_code()
}

fn once_runs_on_one_machine() {
    let server = Redis::start();
    runs_on_one_machine(&server.url());
}

fn once_runs_on_one_machine_by_mongodb() {
    let server = SharedMongo::join();
    let url = mongodb::in_database(&server.url(), &format!("once_{}", std::process::id()));
    runs_on_one_machine(&url);
    let object = Sandbox::new().hapax(&["doctor", "--json", "--store", &url]).exits(0).json();
    assert!(object["facts"]["version"].as_str().unwrap().starts_with("MongoDB "), "{object}");
    // The same machine, which may be busy.
    assert!(object["clock_ahead_ms"].as_i64().unwrap().abs() < 1_000, "{object}");
}

fn a_lock_and_a_limit_by_mongodb() {
    let server = SharedMongo::join();
    let url = mongodb::in_database(&server.url(), &format!("lock_{}", std::process::id()));
    let (here, there) = (Sandbox::new(), Sandbox::new());
    let run = ["lock", "run", "report", "--store", &url];
    let shown = here.sh(&run, "echo $HAPAX_FENCE").exits(0).stdout;
    let later = there.sh(&run, "echo $HAPAX_FENCE").exits(0).stdout;
    let fence = |text: &str| text.trim().parse::<u64>().unwrap();
    assert!(fence(&later) > fence(&shown), "{later} after {shown}");
    let check = ["limit", "check", "login", "--limit", "2", "--window", "1h", "--store", &url];
    for (machine, code) in [(&here, 0), (&there, 0), (&here, 75)] {
        machine.hapax(&check).exits(code);
    }
}

fn once_runs_on_one_machine_by_postgres() {
    let server = SharedPostgres::join();
    // Others use the server, too.
    let url = format!("{}?schema=once_{}", server.url(), std::process::id());
    runs_on_one_machine(&url);
    // The server of the tests does not sync.
    let object = Sandbox::new().hapax(&["doctor", "--json", "--store", &url]).exits(1).json();
    assert_eq!(
        (&object["severity"], &object["findings"][0]["check"]),
        (&"error".into(), &"persistence".into())
    );
    assert!(object["facts"]["version"].as_str().unwrap().starts_with("PostgreSQL "), "{object}");
    // The same machine, which may be busy.
    assert!(object["clock_ahead_ms"].as_i64().unwrap().abs() < 1_000, "{object}");
}

fn runs_on_one_machine(url: &str) {
    let (here, there) = (Sandbox::new(), Sandbox::new());
    let args = ["once", "report", "--store", url];
    for machine in [&here, &there] {
        assert_eq!(machine.sh(&args, "echo x > ran; echo made").exits(0).stdout, "made\n");
    }
    assert!(here.path("ran").exists() && !there.path("ran").exists());
    let keys = there.hapax(&["keys", "list", "--store", url]).exits(0).stdout;
    assert!(keys.contains("report") && keys.contains("done"), "{keys}");
}

fn each_time_is_one_job_by_redis() {
    let server = Redis::start();
    each_time_is_one_job(&server.url());
}

fn each_time_is_one_job_by_postgres() {
    let server = SharedPostgres::join();
    each_time_is_one_job(&format!("{}?schema=cron_{}", server.url(), std::process::id()));
}

/// Two workers, one of which is killed, fire a schedule for another queue than their own.
fn each_time_is_one_job(url: &str) {
    let machines = [Sandbox::new(), Sandbox::new()];
    let hapax = |args: &[&str]| machines[0].hapax(&[args, &["--store", url]].concat()).exits(0);
    // A queue is there from its first job or group on.
    hapax(&["queue", "subscribe", "q", "main"]);
    hapax(&["queue", "cron", "put", "tick", "q", "* * * * * *"]);
    let mut workers = machines.each_ref().map(|machine| {
        let work = ["queue", "work", "other", "--store", url, "--", "true"];
        machine
            .command(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    });
    let jobs = || hapax(&["queue", "list", "q", "--json"]).lines();
    for worker in &mut workers {
        let more = jobs().len() + 3;
        until("three more times have come", || jobs().len() >= more);
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    let jobs = jobs();
    let ids: BTreeSet<&str> = jobs.iter().map(|job| job["job_id"].as_str().unwrap()).collect();
    assert!(ids.len() == jobs.len() && ids.iter().all(|id| id.starts_with("cron:tick:20")), "{ids:?}");
    assert_eq!(hapax(&["queue", "stats", "q", "--json"]).json()["added"], ids.len());
}

fn a_call_on_another_machine_is_in_flight() {
    let (server, here, there) = (Redis::start(), Sandbox::new(), Sandbox::new());
    let args = ["once", "report", "--store", &server.url()];
    let script = "echo x > begun; while [ ! -e go ]; do sleep 0.02; done; echo made";
    let first = here.begin(&args, script);
    there.sh(&args, script).exits(75);
    here.write("go", "");
    first.end().exits(0);
    assert_eq!(there.sh(&args, script).exits(0).stdout, "made\n");
    assert!(!there.path("begun").exists());
}

fn a_mail_is_sent_by_one_machine_by_redis() {
    let server = Redis::start();
    a_mail_is_sent_by_one_machine(&server.url());
}

fn a_mail_is_sent_by_one_machine_by_mongodb() {
    let server = SharedMongo::join();
    let database = format!("mail_{}", std::process::id());
    a_mail_is_sent_by_one_machine(&mongodb::in_database(&server.url(), &database));
}

fn a_mail_is_sent_by_one_machine(url: &str) {
    let (here, there) = (Sandbox::new(), Sandbox::new());
    let line =
        r#"{"from":"a@example.com","to":"b@example.com","subject":"s","text":"x","idempotency_key":"m"}"#;
    for (machine, outcome) in [(&here, "sent 1, replayed 0"), (&there, "sent 0, replayed 1")] {
        machine.write("a.jsonl", line);
        let args = ["mail", "send", "a.jsonl", "--via", "stub:", "--store", url];
        machine.hapax(&args).exits(0).says(outcome);
    }
}

fn nothing_runs_while_the_server_is_gone() {
    let (mut server, machine) = (Redis::start(), Sandbox::new());
    let url = format!("{}?timeout=300ms", server.url());
    let args = ["once", "report", "--store", &url];
    server.stop();
    machine.sh(&args, "echo x > ran").exits(69).says("store.unavailable");
    assert!(!machine.path("ran").exists());
    server.start_again();
    machine.sh(&args, "echo x > ran").exits(0);
    assert!(machine.path("ran").exists());
}

fn doctor_finds_what_would_forget_keys() {
    let sound = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let machine = Sandbox::new();
    let look = |server: &Redis| machine.hapax(&["doctor", "--json", "--store", &server.url()]);
    let object = look(&sound).exits(0).json();
    assert_eq!(object["findings"], serde_json::json!([]), "{object}");
    // The same machine, which may be busy.
    assert!(object["clock_ahead_ms"].as_i64().unwrap().abs() < 1_000, "{object}");
    assert!(object["facts"]["version"].as_str().unwrap().starts_with("Redis "), "{object}");

    let url = format!("{}?wait_replicas=1", sound.url());
    let object = machine.hapax(&["doctor", "--json", "--store", &url]).exits(1).json();
    assert_eq!((&object["severity"], &object["findings"][0]["check"]), (&"error".into(), &"replicas".into()));
    machine.sh(&["once", "k", "--store", &url], "echo x > ran").exits(69).says("fewer than 1 replicas");

    let forgetful = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let object = look(&forgetful).exits(1).json();
    assert_eq!((&object["severity"], &object["findings"][0]["check"]), (&"error".into(), &"eviction".into()));
    let text = machine.hapax(&["doctor", "--store", &forgetful.url()]).exits(1).stdout;
    assert!(text.contains("error: eviction") && text.contains("noeviction"), "{text}");
}
