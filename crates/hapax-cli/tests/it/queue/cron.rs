//! Schedules are put, listed and removed, and workers add their jobs.

use super::with_input;
use crate::sandbox::Sandbox;
use serde_json::Value;

const CRON: &[&str] = &["queue", "cron"];

#[test]
fn a_schedule_is_put_listed_and_removed() {
    let sandbox = Sandbox::new();
    let cron = |args: &[&str]| sandbox.hapax(&[CRON, args].concat());
    assert_eq!(cron(&["list"]).exits(0).stdout, "");
    cron(&["remove", "nightly"]).exits(65);
    assert!(!sandbox.database().exists());
    let put = cron(&["put", "nightly", "reports", "0 3 * * *", "--tz", "europe/berlin"]).exits(0).stdout;
    assert_eq!(put.lines().count(), 3, "{put}");
    assert!(
        put.lines().all(|line| line.contains("T03:00:00+0") && line.ends_with("  Europe/Berlin")),
        "{put}"
    );
    let listed = cron(&["list", "--json"]).exits(0).json();
    for (field, value) in [
        ("name", "nightly"),
        ("queue", "reports"),
        ("cron", "0 3 * * *"),
        ("zone", "Europe/Berlin"),
        ("catch_up", "one"),
    ] {
        assert_eq!(listed[field], value, "{listed}");
    }
    assert_eq!((listed["next"].as_array().unwrap().len(), &listed["payload"]), (3, &Value::Null));
    // In its place.
    let args = ["put", "nightly", "reports", "@hourly", "--catch-up", "skip", "--payload", "-", "--json"];
    let other = with_input(&sandbox, &[CRON, &args].concat(), br#"{"all":true}"#).exits(0).json();
    assert_eq!((&other["cron"], &other["catch_up"]), (&"@hourly".into(), &"skip".into()));
    assert_eq!(cron(&["list", "--json"]).exits(0).json()["payload"]["all"], true);
    let table = cron(&["list"]).exits(0).stdout;
    assert!(table.contains("nightly") && table.contains("@hourly"), "{table}");
    cron(&["remove", "nightly"]).exits(0);
    cron(&["remove", "nightly"]).exits(65).says("cron list");
}

#[test]
fn a_wrong_schedule_is_65_and_names_what_is_wrong() {
    let sandbox = Sandbox::new();
    for (args, words) in [
        (&["0 25 * * *"][..], "`25` is no hour"),
        (&["0 3 * *"], "4 fields"),
        (&["@reboot"], "@hourly"),
        (&["0 0 30 2 *"], "never comes"),
        (&["0 3 * * *", "--tz", "Europe/Berln"], "Europe/Berlin"),
    ] {
        for dry_run in [&[][..], &["--dry-run"]] {
            sandbox.hapax(&[CRON, &["put", "n", "q"], args, dry_run].concat()).exits(65).says(words);
        }
    }
    sandbox.hapax(&[CRON, &["put", "", "q", "@daily"]].concat()).exits(65);
    sandbox.hapax(&[CRON, &["put", "n", "", "@daily"]].concat()).exits(65);
    sandbox.hapax(&[CRON, &["put", "n", "q", "@daily", "--catch-up", "all"]].concat()).exits(2);
    assert_eq!(sandbox.hapax(&[CRON, &["list"]].concat()).exits(0).stdout, "");
}

#[test]
fn a_rehearsal_shows_the_next_times_and_puts_nothing() {
    let sandbox = Sandbox::new();
    let put = [CRON, &["put", "n", "q", "0 0 29 2 *", "--dry-run"]].concat();
    let times = sandbox.hapax(&put).exits(0).says("nothing was put").stdout;
    assert!(
        times.lines().count() == 3 && times.lines().all(|line| line.contains("-02-29T00:00:00")),
        "{times}"
    );
    let json = sandbox.hapax(&[&put[..], &["--json"]].concat()).exits(0).json();
    assert_eq!((json["next"].as_array().unwrap().len(), &json["dry_run"]), (3, &true.into()));
    assert!(!sandbox.database().exists());
}

#[test]
fn a_worker_that_ends_by_itself_adds_what_is_due() {
    let sandbox = Sandbox::new();
    let put = ["put", "tick", "q", "* * * * * *", "--payload", "{\"n\":1}", "--max-attempts", "1"];
    sandbox.hapax(&[CRON, &put].concat()).exits(0);
    // One that ends by itself fires what is due, in one job for all missed times.
    let waited = ["queue", "work", "q", "--once", "--json"];
    let done = std::iter::repeat_with(|| sandbox.sh(&waited, "cat > got").exits(0).json())
        .take(100)
        .find(|ran| ran["done"] == 1);
    assert!(done.is_some());
    assert_eq!(sandbox.read("got"), "{\"n\":1}");
    sandbox.hapax(&[CRON, &["remove", "tick"]].concat()).exits(0);
}
