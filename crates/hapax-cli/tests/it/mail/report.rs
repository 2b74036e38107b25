//! `--only-failed`: what an earlier run reported is sent again, and nothing else.

use super::{counts, line, lines, send, send_stdin};
use crate::sandbox::Sandbox;
use std::fs;

#[test]
fn only_what_failed_and_may_pass_is_sent_again() {
    let sandbox = Sandbox::new();
    let other = line(1).replace("Mail 1", "Other");
    sandbox.write("a.jsonl", [line(0), line(1), other, line(3), line(4)].join("\n"));
    // Line 2 goes; line 3 has its key and is another message.
    let ran = send(&sandbox, &["a.jsonl", "--skip-invalid", "--json"]).exits(1);
    // As if lines 1 and 4 had failed for a reason that passes, and 5 for good.
    let report = ran.lines().into_iter().map(|mut object| {
        let code = match object["index"].as_u64().unwrap() {
            0 | 3 => (true, "file.io"),
            4 => (false, "smtp.rejected"),
            _ => return object.to_string() + "\n",
        };
        object["outcome"] = "failed".into();
        (object["retryable"], object["code"]) = (code.0.into(), code.1.into());
        object.to_string() + "\n"
    });
    sandbox.write("report.jsonl", report.collect::<String>());
    let args = ["a.jsonl", "--via", "stub:", "--only-failed", "report.jsonl"];
    let again = send(&sandbox, &args).exits(0).says("left out 3");
    counts(&again, "sent 2, replayed 0, failed 0, unknown 0, in flight 0");
    let objects =
        send(&sandbox, &[&args[..], &["--failed-too", "--skip-invalid", "--json"]].concat()).exits(1).lines();
    let indices: Vec<_> = objects.iter().map(|object| object["index"].as_u64().unwrap()).collect();
    // Line 3 has the key of line 2: both are meant by it, and in a folder of its own line 3 is the second.
    assert!(indices.starts_with(&[0]) && indices.ends_with(&[3, 4]), "{indices:?}");
}

#[test]
fn lines_that_were_skipped_are_no_part_of_it() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", [line(0).as_str(), "{}", line(2).as_str()].join("\n"));
    let ran = send(&sandbox, &["a.jsonl", "--skip-invalid", "--json"]).exits(1);
    sandbox.write("report.jsonl", &ran.stdout);
    let again = send(&sandbox, &["a.jsonl", "--only-failed", "report.jsonl"]).exits(0);
    counts(&again, "sent 0, replayed 0, failed 0, unknown 0, in flight 0");
    // Asked for, they are looked at, and still not valid.
    send(&sandbox, &["a.jsonl", "--only-failed", "report.jsonl", "--failed-too"])
        .exits(65)
        .says("a.jsonl:2: from: ");
}

#[test]
fn a_report_that_is_none_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", line(0));
    send(&sandbox, &["a.jsonl", "--only-failed", "no-such"]).exits(65).says("no-such");
    sandbox.write("report.jsonl", "{\"index\":0}\nnonsense\n");
    send_stdin(&sandbox, &["-", "--only-failed", "report.jsonl"], b"").exits(65).says("report.jsonl:2");
    assert!(fs::exists(sandbox.path("outbox")).is_ok_and(|there| !there));
}

#[test]
fn what_was_in_flight_is_sent_again() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    let objects = send(&sandbox, &["a.jsonl", "--via", "stub:", "--json"]).exits(0).lines();
    let mut held = objects[1].clone();
    held["outcome"] = "failed".into();
    held["code"] = "idempotency.in_flight".into();
    (held["retryable"], held["delivery_unknown"]) = (true.into(), true.into());
    sandbox.write("report.jsonl", format!("{}\n{held}\n", objects[0]));
    let again = send(&sandbox, &["a.jsonl", "--only-failed", "report.jsonl"]).exits(0);
    counts(&again, "sent 1, replayed 0, failed 0, unknown 0, in flight 0");
    assert!(again.stderr.contains("left out 1 message\n"), "{again:?}");
}

#[test]
fn what_the_report_does_not_name_is_left_out_and_not_taken_for_done() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", lines(2));
    sandbox.write("report.jsonl", send(&sandbox, &["a.jsonl", "--json"]).exits(0).stdout);
    // As if that run had been cut short.
    sandbox.write("a.jsonl", lines(5));
    for quiet in [&[][..], &["--quiet"]] {
        let args = [&["a.jsonl", "--only-failed", "report.jsonl"], quiet].concat();
        let again = send(&sandbox, &args)
            .exits(75)
            .says("3 messages are not in the report")
            .says("run without --only-failed: it sends what is left");
        let said = again.stderr.ends_with("\nsent 0, replayed 0, failed 0, unknown 0, in flight 0\n");
        assert_eq!(said, quiet.is_empty(), "{again:?}");
    }
    let dry = ["a.jsonl", "--only-failed", "report.jsonl", "--dry-run"];
    send(&sandbox, &dry).exits(0).says("3 messages are not in the report");
    let whole = send(&sandbox, &["a.jsonl"]).exits(0);
    counts(&whole, "sent 3, replayed 2, failed 0, unknown 0, in flight 0");
}

#[test]
fn a_report_of_another_input_and_an_empty_one_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", line(0));
    sandbox.write("b.jsonl", line(1));
    sandbox.write("report.jsonl", send(&sandbox, &["b.jsonl", "--via", "stub:", "--json"]).exits(0).stdout);
    let args = ["a.jsonl", "--only-failed", "report.jsonl"];
    send(&sandbox, &args).exits(65).says("no line of the report report.jsonl belongs");
    sandbox.write("report.jsonl", "\n");
    send(&sandbox, &args).exits(65).says("the report report.jsonl is empty");
    assert!(!sandbox.path("outbox").exists());
}
