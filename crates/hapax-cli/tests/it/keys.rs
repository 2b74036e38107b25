//! `keys`: looking, and verdicts by hand.

use crate::sandbox::Sandbox;
use serde_json::{Value, json};

#[test]
fn a_vacant_key_is_no_error() {
    let sandbox = Sandbox::new();
    let shown = sandbox.hapax(&["keys", "get", "k", "--json"]).exits(0).json();
    assert_eq!(
        shown,
        json!({
            "key": "k", "state": "vacant", "scope": "once", "version": null, "fingerprint": null, "until": null,
            "first_at": null, "receipt": null,
        })
    );
    sandbox.hapax(&["keys", "get", "k"]).exits(0);
}

#[test]
fn looking_makes_no_store() {
    let sandbox = Sandbox::new();
    for store in [&[][..], &["--store", "sqlite:other.db"]] {
        for args in [&["keys", "get", "k"][..], &["keys", "list"]] {
            sandbox.hapax(&[store, args].concat()).exits(0).says(".db is not there yet");
            assert_eq!(sandbox.hapax(&[store, args, &["-q"]].concat()).exits(0).stderr, "");
        }
        assert!(sandbox.hapax(&[store, &["keys", "list", "--json"]].concat()).exits(0).lines().is_empty());
        assert_eq!(
            sandbox.hapax(&[store, &["keys", "get", "k", "--json"]].concat()).json()["state"],
            "vacant"
        );
    }
    assert_eq!(std::fs::read_dir(sandbox.path("")).unwrap().count(), 0);
    // A folder with a mistake in it is one for every command.
    for args in [&["keys", "get", "k"][..], &["keys", "list"], &["doctor"]] {
        let ran = sandbox.hapax(&[&["--store", "sqlite:nowhere/a.db"], args].concat());
        ran.exits(69).says("nowhere` is not there");
    }
    assert_eq!(std::fs::read_dir(sandbox.path("")).unwrap().count(), 0);
    sandbox.write("file", "");
    sandbox.hapax(&["--store", "sqlite:file/a.db", "keys", "list"]).exits(69);
}

#[test]
fn a_key_of_a_window_is_pointed_at() {
    let sandbox = Sandbox::new();
    for every in ["1h", "1d"] {
        sandbox.sh(&["once", "backup", "--every", every], "exit 0").exits(0);
    }
    sandbox.sh(&["once", "backup@home", "--every", "1h"], "exit 0").exits(0);
    let keys = sandbox.hapax(&["keys", "list", "--prefix", "backup@1h", "--json"]).lines();
    let latest = keys[0]["key"].as_str().unwrap();
    let got =
        sandbox.hapax(&["keys", "get", "backup", "--json"]).exits(0).says("the window is part of the key");
    assert_eq!(got.json()["state"], "vacant");
    // The window of an hour has the higher number.
    got.says(&format!("the latest here is '{latest}'"));
    sandbox.hapax(&["keys", "forget", "backup", "--force"]).exits(0).says(latest);
    assert_eq!(sandbox.hapax(&["keys", "get", "other"]).exits(0).stderr, "");
}

#[test]
fn mails_of_a_rehearsal_are_pointed_at() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    assert_eq!(sandbox.hapax(&["keys", "list", "--scope", "mail"]).exits(0).stderr, "");
    sandbox.write(
        "a.jsonl",
        r#"{"from":"a@example.com","to":"b@example.com","text":"x","idempotency_key":"welcome:1"}"#,
    );
    sandbox.hapax(&["mail", "send", "a.jsonl", "--via", "stub:"]).exits(0);
    let scope =
        sandbox.hapax(&["keys", "list", "--all-scopes", "--prefix", "welcome", "--json"]).json()["scope"]
            .clone();
    let scope = scope.as_str().unwrap();
    assert!(scope.starts_with("mail-rehearsal:"), "{scope}");
    let named = format!("--scope {scope}");
    sandbox.hapax(&["keys", "list", "--scope", "mail"]).exits(0).says(&named);
    sandbox.hapax(&["keys", "get", "welcome:1", "--scope", "mail"]).exits(0).says(&named);
    assert_eq!(sandbox.hapax(&["keys", "get", "welcome:2", "--scope", "mail"]).exits(0).stderr, "");
    sandbox.hapax(&["keys", "get", "welcome:1", "--scope", scope]).exits(0);
}

#[test]
fn a_done_key_shows_its_receipt() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k", "--ttl", "1h"], "echo out").exits(0);
    let shown = sandbox.hapax(&["keys", "get", "k", "--json"]).json();
    assert_eq!((&shown["state"], &shown["scope"]), (&json!("done"), &json!("once")));
    assert_eq!((&shown["receipt"]["exit_code"], &shown["receipt"]["stdout"]), (&json!(0), &json!("out\n")));
    assert!(shown["fingerprint"].as_str().unwrap().starts_with("1:"));
    assert_eq!(shown["version"].as_str().unwrap().len(), 16);
    let time = |name: &str| shown[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let kept = time("until").duration_since(time("first_at"));
    assert!((3600..3660).contains(&kept.as_secs()), "{kept:?}");
    let text = sandbox.hapax(&["keys", "get", "k"]).exits(0).stdout;
    assert!(text.starts_with("key          k\nstate        done\n"), "{text}");
}

#[test]
fn a_pending_key_can_be_released_by_force_alone() {
    let sandbox = Sandbox::new();
    let call = sandbox.begin(&["once", "k", "--lease", "1s"], "echo x > begun; sleep 60");
    assert_eq!(sandbox.state("k"), "pending");
    sandbox.hapax(&["keys", "release", "k"]).exits(2).says("--force");
    assert_eq!(sandbox.state("k"), "pending");
    let shown = sandbox.hapax(&["keys", "release", "k", "--force", "--json"]).exits(0).json();
    assert_eq!(shown["state"], "vacant");
    call.end().exits(79);
}

#[test]
fn what_is_not_pending_is_not_released() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["keys", "release", "k", "--force"]).exits(0);
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    sandbox.hapax(&["keys", "release", "k", "--force"]).exits(65).says("the key is done");
    sandbox.sh(&["once", "u"], "exit 76").exits(76);
    sandbox.hapax(&["keys", "release", "u", "--force"]).exits(65).says("hapax keys resolve");
    assert_eq!((sandbox.state("k").as_str(), sandbox.state("u").as_str()), ("done", "unknown"));
}

#[test]
fn a_forgotten_key_runs_again() {
    let sandbox = Sandbox::new();
    for (script, code, state) in [("exit 0", 0, "done"), ("exit 76", 76, "unknown")] {
        sandbox.sh(&["once", "k", "--fingerprint", "none"], script).exits(code);
        sandbox.hapax(&["keys", "forget", "k"]).exits(2).says("--force");
        assert_eq!(sandbox.state("k"), state);
        let forgotten = sandbox.hapax(&["keys", "forget", "k", "--force", "--json"]).exits(0).json();
        assert_eq!((&forgotten["removed"], &forgotten["state"]), (&json!(state), &json!("vacant")));
        assert!(forgotten["first_at"].is_string() && forgotten["version"].is_string());
        assert_eq!(sandbox.sh(&["once", "k", "--fingerprint", "none"], "echo again").stdout, "again\n");
        let text = sandbox.hapax(&["keys", "forget", "k", "--force"]).exits(0).stdout;
        assert!(text.starts_with("removed: k, done, of 20"), "{text}");
    }
    assert_eq!(
        sandbox.hapax(&["keys", "forget", "k", "--force"]).exits(0).stdout,
        "nothing is kept under k\n"
    );
}

#[test]
fn a_call_in_flight_is_not_forgotten() {
    let sandbox = Sandbox::new();
    let call = sandbox.begin(&["once", "k"], "echo x > begun; while [ ! -e go ]; do sleep 0.02; done");
    sandbox.hapax(&["keys", "forget", "k", "--force"]).exits(65).says("hapax keys release k --force");
    assert_eq!(sandbox.state("k"), "pending");
    sandbox.write("go", "");
    call.end().exits(0);
}

#[test]
fn a_record_that_cannot_be_read_is_listed_and_can_be_forgotten() {
    let sandbox = Sandbox::new();
    for key in ["a", "k"] {
        sandbox.sh(&["once", key], "exit 0").exits(0);
    }
    let database = rusqlite::Connection::open(sandbox.database()).unwrap();
    database
        .execute("UPDATE hapax_idempotency SET format = 9 WHERE key = CAST('k' AS BLOB) OR key = 'k'", [])
        .unwrap();
    drop(database);
    let states: Vec<_> =
        sandbox.hapax(&["keys", "list", "--json"]).lines().iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["done", "unreadable"]);
    sandbox.sh(&["once", "k"], "exit 0").exits(76);
    let forgotten = sandbox.hapax(&["keys", "forget", "k", "--force", "--json"]).exits(0).json();
    assert_eq!(forgotten["removed"], "unreadable");
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
}

#[test]
fn an_unknown_key_is_settled_as_done() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 76").exits(76);
    let settled = sandbox.hapax(&["keys", "resolve", "k", "--as", "done", "--json"]).exits(0).json();
    assert_eq!(settled["state"], "done");
    let replay = sandbox.sh(&["once", "k", "-q"], "exit 76").exits(0);
    assert_eq!((replay.stdout.as_str(), replay.stderr.as_str()), ("", ""));
}

#[test]
fn a_receipt_by_hand_is_replayed() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 76").exits(76);
    let receipt = r#"{"exit_code": 3, "stdout": "42\n", "stderr": "few\n"}"#;
    sandbox.hapax(&["keys", "resolve", "k", "--as", "done", "--receipt", receipt]).exits(0);
    let replay = sandbox.sh(&["once", "k", "-q"], "exit 76").exits(3);
    assert_eq!((replay.stdout.as_str(), replay.stderr.as_str()), ("42\n", "few\n"));
}

#[test]
fn an_unknown_key_is_settled_as_failed() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k", "--fingerprint", "x"], "exit 76").exits(76);
    let settled = sandbox.hapax(&["keys", "resolve", "k", "--as", "failed", "--json"]).exits(0).json();
    assert_eq!(settled["state"], "vacant");
    assert_eq!(sandbox.sh(&["once", "k", "--fingerprint", "x"], "echo again").exits(0).stdout, "again\n");
}

#[test]
fn a_verdict_on_something_else_is_refused() {
    let sandbox = Sandbox::new();
    let resolve = |args: &[&str]| sandbox.hapax(&[&["keys", "resolve", "k"], args].concat());
    resolve(&["--as", "done"]).exits(65).says("the key is vacant");
    sandbox.sh(&["once", "k"], "exit 76").exits(76);
    let version =
        sandbox.hapax(&["keys", "get", "k", "--json"]).json()["version"].as_str().unwrap().to_owned();
    let changed = resolve(&["--as", "failed", "--version", "0000000000000000", "--json"]).exits(65);
    assert_eq!(changed.json()["error"]["code"], "idempotency.changed");
    assert!(changed.stderr.contains(&version), "{changed:?}");
    assert_eq!(sandbox.state("k"), "unknown");
    resolve(&["--as", "failed", "--version", &version]).exits(0);
    sandbox.sh(&["once", "k"], "exit 0").exits(0);
    resolve(&["--as", "failed"]).exits(65).says("the key is done");
    assert_eq!(sandbox.state("k"), "done");
}

#[test]
fn verdicts_that_make_no_sense_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k"], "exit 76").exits(76);
    let resolve = |args: &[&str]| sandbox.hapax(&[&["keys", "resolve", "k"], args].concat());
    resolve(&[]).exits(2).says("--as");
    resolve(&["--as", "don"]).exits(2).says("done");
    resolve(&["--as", "failed", "--receipt", "{}"]).exits(2).says("--as done");
    resolve(&["--as", "done", "--receipt", "{"]).exits(65).says("--receipt");
    resolve(&["--as", "done", "--receipt", r#"{"exitcode": 1}"#]).exits(65).says("did you mean `exit_code`?");
    resolve(&["--as", "done", "--version", "12"]).exits(2).says("16 hex digits");
    resolve(&["--as", "done", "--scope", "charge"]).exits(2).says("--receipt");
    // A mail has a receipt of its own form.
    resolve(&["--as", "done", "--scope", "mail", "--receipt", "{}"]).exits(2).says("hapax mail resolve");
    assert_eq!(sandbox.state("k"), "unknown");
}

#[test]
fn lists_are_pages_in_order() {
    let sandbox = Sandbox::new();
    for key in ["b", "a", "d", "c"] {
        sandbox.sh(&["once", key], if key == "c" { "exit 76" } else { "exit 0" });
    }
    let keys = |args: &[&str]| -> Vec<String> {
        let list = sandbox.hapax(&[&["keys", "list", "--json"], args].concat()).exits(0);
        list.lines().iter().map(|line: &Value| line["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&[]), ["a", "b", "c", "d"]);
    assert_eq!(keys(&["--limit", "2"]), ["a", "b"]);
    assert_eq!(keys(&["--limit", "2", "--after", "b"]), ["c", "d"]);
    assert_eq!(keys(&["--after", "d"]), [""; 0]);
    assert_eq!(keys(&["--state", "unknown"]), ["c"]);
    assert_eq!(keys(&["--state", "pending"]), [""; 0]);
    assert_eq!(keys(&["--scope", "mail"]), [""; 0]);
    assert_eq!(keys(&["--all-scopes", "--after", "a", "--limit", "1"]), ["b"]);
    assert_eq!(keys(&["--namespace", "other"]), [""; 0]);
    sandbox.sh(&["once", "nightly-1"], "exit 0").exits(0);
    assert_eq!(keys(&["--prefix", "nightly-"]), ["nightly-1"]);
    sandbox.hapax(&["keys", "list", "--limit", "2"]).exits(0).says("--after b");
    sandbox.hapax(&["keys", "list", "--limit", "0"]).exits(2);
}

#[test]
fn namespaces_keep_keys_apart() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "k", "--namespace", "a"], "echo a").exits(0);
    assert_eq!(sandbox.sh(&["once", "k", "--namespace", "b"], "echo b").exits(0).stdout, "b\n");
    assert_eq!(sandbox.state("k"), "vacant");
    sandbox.sh(&["once", "k", "--namespace", ""], "exit 0").exits(65).says("namespace is empty");
}

#[test]
fn what_is_over_is_pruned() {
    let sandbox = Sandbox::new();
    sandbox.sh(&["once", "old", "--ttl", "1ms"], "exit 0").exits(0);
    sandbox.sh(&["once", "new"], "exit 0").exits(0);
    crate::sandbox::until("it is over", || sandbox.state("old") == "vacant");
    let pruned = sandbox.hapax(&["keys", "prune", "--json"]).exits(0).json();
    // The write of the second key may have removed the first on its way.
    assert!(pruned["pruned"].as_u64().unwrap() <= 1, "{pruned}");
    assert_eq!(sandbox.hapax(&["keys", "prune"]).exits(0).stdout, "0 removed\n");
    assert_eq!(sandbox.state("new"), "done");
}
