//! Dead letters leave as lines, are mended, and come back.

use super::{add, show, with_input, work};
use crate::sandbox::Sandbox;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

#[test]
fn letters_are_exported_mended_and_taken_back() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "{\"n\": 1}", "--job-id", "a", "--priority", "2"]);
    with_input(&sandbox, &["queue", "add", "q", "--job-id", "b", "-"], &[0xff, 0]).exits(0);
    add(&sandbox, &["q", "plain", "--job-id", "c"]);
    work(&sandbox, &[], "echo why >&2; exit 65").exits(1);
    let file = sandbox.hapax(&["queue", "dead", "export", "q", "dead.jsonl"]).exits(0);
    let file = file.says("3 dead letters exported");
    assert_eq!(file.stdout, "");
    let mode = std::fs::metadata(sandbox.path("dead.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "it may hold anything");
    let lines = sandbox.read("dead.jsonl");
    assert_eq!(sandbox.hapax(&["queue", "dead", "export", "q"]).exits(0).stdout, lines);
    let mut letters: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |letters: &[Value], id: &str| letters.iter().position(|letter| letter["job_id"] == id).unwrap();
    let (a, b, c) = (of(&letters, "a"), of(&letters, "b"), of(&letters, "c"));
    // As it was added, to the last space.
    assert_eq!((&letters[a]["payload"], &letters[a]["priority"]), (&"{\"n\": 1}".into(), &2.into()));
    assert_eq!(letters[b]["payload_base64"], "/wA=");
    assert_eq!(
        (&letters[c]["reason"], &letters[c]["error"]),
        (&"refused".into(), &"it exited with 65: why".into())
    );
    assert!(letters[c]["died_at"].is_string() && letters[c]["settings"].is_object(), "{}", letters[c]);
    letters[a]["payload"] = "{\"n\":2}".into();
    letters[c]["payload"] = serde_json::json!({ "now": "JSON" });
    let mended = letters.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let from = ["queue", "dead", "redrive", "q", "--from", "-"];
    // Nothing is changed where one line is wrong.
    let wrong = format!("{mended}\n{{\"id\":\"x\"}}\nno\n");
    with_input(&sandbox, &from, wrong.as_bytes())
        .exits(65)
        .says("line 4: `x` is no id")
        .says("nothing was changed");
    with_input(&sandbox, &from, mended.as_bytes()).exits(0).says("redriven 3, not taken back 0");
    work(&sandbox, &[], "cat >> got; echo >> got").exits(0).says("done 3");
    let got = std::fs::read(sandbox.path("got")).unwrap();
    let mut got: Vec<_> = got.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    got.sort_unstable();
    assert_eq!(got, [&b"{\"n\":2}"[..], b"{\"now\":\"JSON\"}", &[0xff, 0]]);
    // They are no dead letters any more.
    with_input(&sandbox, &from, mended.as_bytes()).exits(1).says("redriven 0, not taken back 3");
    assert_eq!(show(&sandbox, "q", "a")["state"], "done");
}

#[test]
fn an_export_replaces_files_alone_and_never_by_nothing() {
    let sandbox = Sandbox::new();
    add(&sandbox, &["q", "1", "--job-id", "a"]);
    work(&sandbox, &[], "exit 65").exits(1);
    let export = |to: &str| sandbox.hapax(&["queue", "dead", "export", "q", to]);
    // A pipe is written to, and a link stays a link.
    let pipe = sandbox.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    export("pipe").exits(0).says("1 dead letter exported");
    let lines = reader.join().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&lines).unwrap()["job_id"], "a");
    sandbox.write("kept.jsonl", "before");
    std::os::unix::fs::symlink("kept.jsonl", sandbox.path("link")).unwrap();
    export("link").exits(0);
    assert!(sandbox.path("link").is_symlink());
    assert_eq!(sandbox.read("kept.jsonl"), lines);
    std::os::unix::fs::symlink("nothing", sandbox.path("dangling")).unwrap();
    export("dangling").exits(1).says("dangling could not be written");
    export(".").exits(1).says("could not be written");
    // What it once wrote may be all there is.
    sandbox.hapax(&["queue", "dead", "drop", "q", "--all"]).exits(0);
    export("kept.jsonl").exits(0).says("0 dead letters exported; the file is left as it is");
    assert_eq!(sandbox.read("kept.jsonl"), lines);
    export("new.jsonl").exits(0);
    assert_eq!(sandbox.read("new.jsonl"), "");
}

#[test]
fn an_export_needs_a_queue_and_a_place() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "dead", "export", "q"]).exits(65).says("there is no queue q");
    add(&sandbox, &["q", "1"]);
    sandbox.hapax(&["queue", "dead", "export", "q", "none/dead.jsonl"]).exits(1).says("could not be written");
    let empty = sandbox.hapax(&["queue", "dead", "export", "q"]).exits(0).says("0 dead letters");
    assert_eq!(empty.stdout, "");
    sandbox.hapax(&["queue", "dead", "redrive", "q", "--from", "gone"]).exits(65).says("gone cannot be read");
    sandbox.hapax(&["queue", "dead", "redrive", "q", "--from", "x", "--all"]).exits(2);
}
