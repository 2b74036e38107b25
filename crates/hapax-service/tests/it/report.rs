//! What is said at the end.

use crate::support::{pass, plain};
use hapax_service::{App, CODES, Ctx, State};
use serde_json::json;
use std::{collections::BTreeSet, io};

async fn worker(ctx: Ctx) -> anyhow::Result<()> {
    ctx.load(plain).await?;
    pass(1).await;
    ctx.on_stop(async || {
        pass(2).await;
        Err::<(), _>(io::Error::other("disk full"))
    });
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn report_is_an_object_for_programs_and_lines_for_people() {
    let report = App::new().boot("worker", worker).name("plain", plain).run_until(pass(5)).await;
    let problem = json!({
        "code": "service.stop_failed",
        "message": "a stop hook of service `worker` failed: disk full",
    });
    let worker = json!({
        "service": "worker", "state": "stop_failed", "starts": 1, "start_ms": 1000, "stop_ms": 2000, "loads": ["plain"],
        "problems": [problem],
    });
    let plain = json!({
        "service": "plain", "state": "stopped", "starts": 1, "start_ms": 0, "stop_ms": 0, "loads": [], "problems": [],
    });
    let expected = json!({
        "cause": "asked", "exit_code": 70, "problem": null, "start_ms": 1000, "stop_ms": 2000,
        "services": [worker, plain],
    });
    assert_eq!(serde_json::to_value(&report).unwrap(), expected);
    let expected = "\
the application stopped (asked), in 2000 ms
  worker  stop_failed     started in 1000 ms  stopped in 2000 ms
    service.stop_failed: a stop hook of service `worker` failed: disk full
  plain   stopped         started in 0 ms  stopped in 0 ms
";
    assert_eq!(report.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn report_of_an_application_that_did_not_start_says_why_first() {
    async fn broken(_: Ctx) -> io::Result<()> {
        Err(io::Error::other("no route"))
    }
    let report = App::new().boot("broken", broken).run_until(pass(1)).await;
    let expected = "\
the application could not start, in 0 ms
  service.start_failed: service `broken` could not start: no route
  broken  start_failed    stopped in 0 ms
    service.start_failed: service `broken` could not start: no route
";
    assert_eq!(report.to_string(), expected);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["cause"], &json["start_ms"]), (&json!("start_failed"), &json!(null)));
    assert_eq!(report.service("broken").unwrap().state, State::StartFailed);
}

#[test]
fn codes_are_of_services_and_told_apart() {
    let codes: BTreeSet<_> = CODES.iter().map(|info| info.code).collect();
    assert_eq!(codes.len(), CODES.len());
    assert!(codes.iter().all(|code| code.starts_with("service.")));
}
