//! Jobs are added, and what is wrong is refused.

use super::{add, show, stats, with_input, work};
use crate::sandbox::Sandbox;

#[test]
fn a_job_runs_once_with_its_payload_on_stdin() {
    let sandbox = Sandbox::new();
    let id = add(&sandbox, &["q", "{\"n\": 1}"]);
    let script = "cat >> got; echo \" $HAPAX_JOB_ID $HAPAX_JOB_KEY $HAPAX_ATTEMPT $HAPAX_MAX_ATTEMPTS $HAPAX_QUEUE $HAPAX_GROUP\" >> got; echo \"$HAPAX_FENCE\" > fence";
    work(&sandbox, &[], script).exits(0).says("done 1");
    assert_eq!(sandbox.read("got"), format!("{{\"n\": 1}} {id} {id} 1 5 q main\n"));
    assert!(sandbox.read("fence").trim().parse::<u64>().unwrap() > 0);
    work(&sandbox, &[], script).exits(0).says("done 0");
}

#[test]
fn answers_are_objects_and_a_job_id_is_one_job() {
    let sandbox = Sandbox::new();
    let add = |payload: &str| sandbox.hapax(&["queue", "add", "q", payload, "--job-id", "a", "--json"]);
    let first = add("{\"a\":1,\"b\":2}").exits(0).json();
    assert_eq!(
        (&first["job_id"], &first["accepted"], &first["state"]),
        (&"a".into(), &true.into(), &"ready".into())
    );
    assert!(first["run_at"].is_string() && first["result"].is_null(), "{first}");
    // Equal JSON is equal, however it is written.
    let again = add("{ \"b\": 2, \"a\": 1 }").exits(0).json();
    assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &true.into()));
    let other = add("{\"a\":2}").exits(65);
    assert_eq!(other.json()["error"]["code"], "queue.job_id_reused");
    let keep = ["queue", "add", "q", "3", "--job-id", "a", "--on-conflict"];
    sandbox.hapax(&[&keep[..], &["keep"]].concat()).exits(0).says("it was there: ready");
    sandbox.hapax(&[&keep[..], &["replace"]].concat()).exits(0);
    assert_eq!(show(&sandbox, "q", "a")["payload"], 3);
    assert_eq!(stats(&sandbox, "q")["added"], 1);
}

#[test]
fn payloads_are_any_bytes_from_the_argument_or_stdin() {
    let sandbox = Sandbox::new();
    with_input(&sandbox, &["queue", "add", "q", "-"], b"\xff\x00raw").exits(0);
    with_input(&sandbox, &["queue", "add", "q"], b"piped").exits(0);
    add(&sandbox, &["q"]);
    work(&sandbox, &[], "od -An -tx1 >> got; echo . >> got").exits(0).says("done 3");
    assert_eq!(sandbox.read("got"), " ff 00 72 61 77\n.\n 70 69 70 65 64\n.\n.\n");
}

#[test]
fn payloads_above_a_mebibyte_are_refused() {
    let sandbox = Sandbox::new();
    let most = vec![b'x'; 1 << 20];
    with_input(&sandbox, &["queue", "add", "q", "-"], &most).exits(0);
    let larger = [&most[..], b"x"].concat();
    with_input(&sandbox, &["queue", "add", "q", "-"], &larger).exits(65).says("queue.payload_too_large");
    let line = [b"\"", &most[..], b"\"\n1\n"].concat();
    with_input(&sandbox, &["queue", "add", "q", "--lines"], &line)
        .exits(65)
        .says("line 1: it is larger than 1 MiB");
    assert_eq!(stats(&sandbox, "q")["added"], 1);
}

#[test]
fn lines_are_all_checked_before_the_first_is_added() {
    let sandbox = Sandbox::new();
    let lines = ["queue", "add", "q", "--lines"];
    let ran = with_input(&sandbox, &lines, b"{\"n\":1}\n\n{\"n\":\n{\"n\":3}\n\xff\n").exits(65);
    let ran = ran
        .says("line 3: it is no JSON")
        .says("line 5: it is no JSON")
        .says("2 lines are invalid: nothing was added");
    assert!(ran.stdout.is_empty(), "{ran:?}");
    assert!(!sandbox.database().exists());
    let objects =
        with_input(&sandbox, &[&lines[..], &["--json"]].concat(), b"{\"n\":1}\r\n\n{\"n\":2}").exits(0);
    let objects = objects.says("added 2").lines();
    assert_eq!(objects.iter().map(|line| line["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3]);
    with_input(&sandbox, &[&lines[..], &["{}"]].concat(), b"").exits(2);
    with_input(&sandbox, &[&lines[..], &["--job-id", "x"]].concat(), b"1\n").exits(2).says("--job-id-by");
    with_input(&sandbox, &lines, b"").exits(0).says("added 0");
}

#[test]
fn many_lines_with_job_ids_are_added_once() {
    let sandbox = Sandbox::new();
    let lines: String = (0..700).map(|n| format!("{{\"id\":{n}}}\n")).collect();
    let args = ["queue", "add", "q", "--lines", "--job-id-by", "/id"];
    let ids = with_input(&sandbox, &args, lines.as_bytes()).exits(0).says("added 700, there before 0").stdout;
    let again =
        with_input(&sandbox, &args, lines.as_bytes()).exits(0).says("added 0, there before 700").stdout;
    assert_eq!(ids, again);
    assert_eq!(show(&sandbox, "q", "699")["payload"]["id"], 699);
    let other = b"{\"id\":5,\"x\":1}\n{\"id\":\"new\"}\n";
    let other = with_input(&sandbox, &args, other).exits(1);
    other.says("line 1: the job id was used for another payload").says("added 1, there before 0, refused 1");
    with_input(&sandbox, &args, b"{\"id\":[]}\n").exits(65).says("line 1: at `/id`");
    assert_eq!(stats(&sandbox, "q")["ready"], 701);
}

#[test]
fn what_is_unique_is_added_once_in_its_window() {
    let sandbox = Sandbox::new();
    let args = ["queue", "add", "q", "--lines", "--unique-for", "300d", "--unique-by", "/day"];
    let ran = with_input(&sandbox, &args, b"{\"day\":1,\"x\":1}\n{\"day\":2}\n{\"day\":1,\"x\":1}\n");
    ran.exits(0).says("added 2, there before 1");
    with_input(&sandbox, &args, b"{}\n").exits(65).says("line 1: it has nothing at `/day`");
}

#[test]
fn flags_that_cannot_be_used_are_usage() {
    let sandbox = Sandbox::new();
    for flags in [
        &["--delay", "-5s"][..],
        &["--delay=-5s"],
        &["--delay", "401d"],
        &["--delay", "99999999999999999999s"],
        &["--delay", "5"],
        &["--delay", "5s", "--run-at", "2026-01-01T00:00:00Z"],
        &["--run-at", "tomorrow"],
        &["--priority", "4"],
        &["--max-attempts", "0"],
        &["--backoff", "linear:1s"],
        &["--backoff", "exponential:1h:1s"],
        &["--unique-by", "/a"],
        &["--unique-for", "1h", "--unique-by", "a"],
        &["--unique-for", "1h", "--job-id", "a"],
        &["--on-conflict", "merge"],
        &["--timeout", "0s"],
    ] {
        sandbox.hapax(&[&["queue", "add", "q", "{}"], flags].concat()).exits(2);
    }
    sandbox.hapax(&["queue", "add", "q", "{}", "--job-id", ""]).exits(65).says("queue.invalid");
    sandbox.hapax(&["queue", "add", "", "{}"]).exits(65).says("queue.invalid");
    sandbox.hapax(&["queue", "add", &"q".repeat(201), "{}"]).exits(65).says("1 to 200 bytes");
    sandbox.hapax(&["--store", "memory:", "queue", "add", "q", "{}"]).exits(2);
    assert!(stats_of_nothing(&sandbox).is_empty());
}

fn stats_of_nothing(sandbox: &Sandbox) -> String {
    sandbox.hapax(&["queue", "stats"]).exits(0).stdout
}

#[test]
fn names_may_hold_anything() {
    let sandbox = Sandbox::new();
    for queue in ["a:{b}", "{}", "with space", "🐘", "a\nb", "'\"\\", "..", "a/b", "%s"] {
        let id = format!("id of {queue}");
        add(&sandbox, &[queue, "1", "--job-id", &id]);
        assert_eq!(show(&sandbox, queue, &id)["queue"], queue);
        let args = ["queue", "work", queue, "--once", "--group", queue, "--idempotent"];
        sandbox
            .sh(&args, "printf %s \"$HAPAX_QUEUE$HAPAX_GROUP$HAPAX_JOB_KEY\" > got")
            .exits(0)
            .says("done 1");
        assert_eq!(sandbox.read("got"), format!("{queue}{queue}{id}"));
        assert_eq!(stats(&sandbox, queue)["done"], 1);
    }
    assert_eq!(sandbox.hapax(&["queue", "stats"]).exits(0).stdout.lines().count(), 9);
}

#[test]
fn delayed_jobs_wait_and_urgent_ones_go_first() {
    let sandbox = Sandbox::new();
    for (payload, flags) in [
        ("bulk", &["--priority", "3"][..]),
        ("normal", &[]),
        ("urgent", &["--priority", "0"]),
        ("later", &["--delay", "1h"]),
        ("past", &["--run-at", "2020-01-01T00:00:00Z"]),
    ] {
        add(&sandbox, &[&["q", payload], flags].concat());
    }
    work(&sandbox, &[], "cat >> got; echo >> got")
        .exits(0)
        .says("done 4")
        .says("1 delayed in q, left for later");
    assert_eq!(sandbox.read("got"), "urgent\nnormal\npast\nbulk\n");
    assert_eq!(stats(&sandbox, "q")["delayed"], 1);
}

#[test]
fn a_full_queue_answers_75() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["queue", "limits", "q", "--max-len", "2"]).exits(0);
    let ran = with_input(&sandbox, &["queue", "add", "q", "--lines"], b"1\n2\n3\n").exits(75);
    ran.says("line 3: the queue is full").says("added 2, there before 0, refused 0, without room 1");
    sandbox.hapax(&["queue", "add", "q", "3"]).exits(75).says("queue.full");
    sandbox.hapax(&["queue", "add", "q", "3", "--wait", "50ms"]).exits(75);
    let waiting = sandbox.command(&["queue", "add", "q", "3", "--wait", "50s"]).spawn().unwrap();
    sandbox.sh(&["queue", "work", "q", "--once"], "true").exits(0);
    assert!(waiting.wait_with_output().unwrap().status.success());
    assert_eq!(stats(&sandbox, "q")["ready"], 2);
}
