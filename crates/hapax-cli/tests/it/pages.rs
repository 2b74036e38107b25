//! What the command says of itself: help, codes, completions, manual pages.

use crate::sandbox::Sandbox;
use std::{collections::BTreeSet, fs};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["once"],
    &["keys"],
    &["keys", "get"],
    &["keys", "list"],
    &["keys", "release"],
    &["keys", "resolve"],
    &["keys", "prune"],
    &["keys", "forget"],
    &["queue"],
    &["queue", "add"],
    &["queue", "work"],
    &["queue", "stats"],
    &["queue", "list"],
    &["queue", "show"],
    &["queue", "why"],
    &["queue", "wait"],
    &["queue", "cron"],
    &["queue", "cron", "put"],
    &["queue", "cron", "list"],
    &["queue", "cron", "remove"],
    &["queue", "dead"],
    &["queue", "dead", "list"],
    &["queue", "dead", "show"],
    &["queue", "dead", "redrive"],
    &["queue", "dead", "drop"],
    &["queue", "edit"],
    &["queue", "run-now"],
    &["queue", "reschedule"],
    &["queue", "cancel"],
    &["queue", "pause"],
    &["queue", "resume"],
    &["queue", "limits"],
    &["queue", "subscribe"],
    &["queue", "unsubscribe"],
    &["queue", "purge"],
    &["lock"],
    &["lock", "run"],
    &["lock", "show"],
    &["lock", "list"],
    &["lock", "break"],
    &["lock", "fence"],
    &["limit"],
    &["limit", "check"],
    &["limit", "run"],
    &["limit", "reset"],
    &["limit", "explain"],
    &["store"],
    &["store", "upgrade"],
    &["stores"],
    &["transports"],
    &["bench"],
    &["codes"],
    &["completions"],
    &["man"],
];

#[test]
fn every_help_has_examples() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            let help = sandbox.hapax(&[command, &[flag][..]].concat()).exits(0).stdout;
            assert!(help.contains("EXAMPLES:\n  hapax "), "{command:?}: {help}");
        }
    }
    let nothing = sandbox.hapax(&[]).exits(2);
    assert!(nothing.stderr.contains("Usage: hapax"), "{nothing:?}");
}

#[test]
fn help_and_version_need_no_store() {
    let sandbox = Sandbox::new();
    sandbox.hapax(&["--version"]).exits(0);
    sandbox.hapax(&["help", "once"]).exits(0);
    assert!(!sandbox.path("data").exists());
}

#[test]
fn help_lists_each_store_with_all_options_of_its_urls() {
    let sandbox = Sandbox::new();
    let stores = sandbox.hapax(&["stores", "--json"]).exits(0).lines();
    let names: Vec<_> = stores.iter().filter_map(|store| store["store"].as_str()).collect();
    assert!(names.starts_with(&["memory", "sqlite", "redis", "postgres"]), "{names:?}");
    for page in [&["help", "stores"][..], &["stores"], &["stores", "--help"], &["man", "stores"]] {
        let text = sandbox.hapax(page).exits(0).stdout.replace("\\-", "-");
        for store in &stores {
            for option in store["options"].as_array().unwrap() {
                let option =
                    format!("?{}={}", option["name"].as_str().unwrap(), option["value"].as_str().unwrap());
                assert!(text.contains(&option), "{page:?}: {option}");
            }
        }
    }
    for page in [&["help"][..], &["help", "once"]] {
        assert!(sandbox.hapax(page).exits(0).stdout.contains("hapax help stores"), "{page:?}");
    }
}

#[test]
fn help_lists_each_way_to_send_mail_with_all_options_of_its_urls() {
    let sandbox = Sandbox::new();
    let kinds = sandbox.hapax(&["transports", "--json"]).exits(0).lines();
    let names: Vec<_> = kinds.iter().filter_map(|kind| kind["transport"].as_str()).collect();
    assert!(names.contains(&"mail servers") && names.contains(&"this machine"), "{names:?}");
    for page in
        [&["help", "transports"][..], &["transports"], &["transports", "--help"], &["man", "transports"]]
    {
        let text = sandbox.hapax(page).exits(0).stdout.replace("\\-", "-");
        for option in kinds.iter().flat_map(|kind| kind["options"].as_array().unwrap()) {
            let option =
                format!("?{}={}", option["name"].as_str().unwrap(), option["value"].as_str().unwrap());
            assert!(text.contains(&option), "{page:?}: {option}");
        }
    }
    assert!(sandbox.hapax(&["mail", "send", "--help"]).exits(0).stdout.contains("hapax help transports"));
}

#[test]
fn an_option_that_no_url_has_names_the_nearest_and_the_list() {
    let sandbox = Sandbox::new();
    for (url, near) in [
        ("sqlite:a.db?synchronus=full", "synchronous"),
        ("redis://h?wait_replica=1", "wait_replicas"),
        ("postgres://h/d?preapred=on", "prepared"),
        ("memory:?max_entrys=3", "max_entries"),
    ] {
        let ran = sandbox.hapax(&["bench", "--store", url]).exits(2);
        ran.says(&format!("did you mean `{near}`?")).says("`hapax help stores`");
    }
}

#[test]
fn codes_are_listed_with_their_exits() {
    let sandbox = Sandbox::new();
    let lines = sandbox.hapax(&["codes", "--json"]).exits(0).lines();
    let codes: BTreeSet<_> = lines.iter().filter_map(|line| line["code"].as_str()).collect();
    for code in ["idempotency.in_flight", "store.timeout", "command.not_found"] {
        assert!(codes.contains(code), "{code}");
    }
    let exits: Vec<_> = lines
        .iter()
        .filter(|line| line.get("code").is_none())
        .map(|line| line["exit_code"].to_string())
        .collect();
    let table =
        ["0", "1", "2", "65", "69", "70", "75", "76", "79", "124", "126", "127", "130", "143", "\"other\""];
    assert_eq!(exits, table);
    let one = sandbox.hapax(&["codes", "idempotency.in_flight", "--json"]).exits(0).json();
    assert_eq!(one["exit_code"], 75);
    sandbox.hapax(&["codes", "idempotency.in_flght"]).exits(2).says("did you mean `idempotency.in_flight`?");
    assert!(sandbox.hapax(&["codes"]).exits(0).stdout.contains("75\ttry again later"));
}

#[test]
fn shells_get_their_completions() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.hapax(&["completions", shell]).exits(0).stdout;
        assert!(script.contains("unknown-exit"), "{shell}");
        assert!(!script.contains("__guard") && !script.contains("__exec"), "{shell}");
    }
    sandbox.hapax(&["completions", "csh"]).exits(2).says("fish");
}

#[test]
fn manual_pages_are_made_for_every_command() {
    let sandbox = Sandbox::new();
    let main = sandbox.hapax(&["man"]).exits(0).stdout;
    assert!(main.contains(".TH hapax 1"), "{main}");
    assert!(sandbox.hapax(&["man", "keys", "get"]).exits(0).stdout.contains("hapax\\-keys\\-get"));
    sandbox.hapax(&["man", "kyes"]).exits(2).says("kyes");
    sandbox.hapax(&["man", "--dir", "a/man1"]).exits(0);
    for command in COMMANDS {
        let name = [&["hapax"], *command].concat().join("-");
        let page = fs::read_to_string(sandbox.path("a/man1").join(format!("{name}.1"))).unwrap();
        assert!(page.contains("EXAMPLES"), "{name}");
    }
}
