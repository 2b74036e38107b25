//! The examples are programs that run.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Where cargo put the example: beside the folder of this test. `cargo test` and nextest build both.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn run(name: &str, folder: &Path) -> String {
    let example = built(name);
    assert!(example.exists(), "{} is not built: `cargo build -p hapax --examples`", example.display());
    let output = Command::new(example).current_dir(folder).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{out}{err}", output.status);
    out.into_owned()
}

#[test]
fn readme_charges_once_however_often_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let first = run("readme", folder.path());
    assert!(first.starts_with("ch_"), "{first}");
    assert_eq!(run("readme", folder.path()), first);
}

/// The lines from the import to the end of `main`.
fn main_part(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| *line != "use hapax::EffectExt;");
    let mut part: Vec<_> = lines.take_while(|line| *line != "}").collect();
    part.push("}");
    part
}

#[test]
fn readme_shows_its_example() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (readme, example) = (read("README.md"), read("examples/readme.rs"));
    let shown = main_part(&readme);
    assert_eq!(shown, main_part(&example));
    assert!((10..=15).contains(&shown.len()), "{} lines", shown.len());
}

#[test]
fn charge_tells_every_answer_apart() {
    let folder = tempfile::tempdir().unwrap();
    let out = run("charge", folder.path());
    let answer = |label: &str| {
        let line = out.lines().find(|line| line.starts_with(label));
        line.unwrap_or_else(|| panic!("no `{label}` in\n{out}")).split_once(':').unwrap().1.trim().to_owned()
    };
    assert_eq!(answer("charged"), r#"Thanks { charge: "ch_1", again: false }"#);
    assert_eq!(answer("the same again"), r#"Thanks { charge: "ch_1", again: true }"#);
    assert!(answer("another amount").contains("different request"));
    assert!(answer("no money").starts_with("Declined"));
    assert_eq!(answer("two at once").matches(r#"charge: "ch_2""#).count(), 2);
    assert_eq!(answer("the reply lost"), "WeWillMailYou");
    assert_eq!(answer("looked up"), r#"Thanks { charge: "ch_3", again: true }"#);
    assert_eq!(answer("no steps"), r#"Err("the cart is empty")"#);
    assert_eq!(answer("a batch"), "20 of 20");
    assert_eq!(answer("another codec"), "4200");
    assert!(answer("settled by hand").starts_with("found"));
    // o1, o3, o4, o5, o7, o8 and the batch of 20.
    assert!(out.contains("the bank charged 26 times"), "{out}");
}

#[test]
fn own_store_greets_once() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run("own_store", folder.path()), "hello, 1\nhello, 1\nhello, 1\n");
}

#[test]
fn lock_is_held_by_one_and_its_fence_keeps_the_late_one_out() {
    let folder = tempfile::tempdir().unwrap();
    let out = run("lock", folder.path());
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[1].starts_with("busy for up to "), "{out}");
    assert_eq!(
        [lines[0], lines[2], lines[3]],
        ["written", "late: a newer holder has written", "lost: Fenced"]
    );
}

#[test]
fn limits_count_together_and_say_so_in_headers() {
    let folder = tempfile::tempdir().unwrap();
    let out = run("limits", folder.path());
    assert!(out.starts_with("4 left\n3 left\n2 left\n1 left\n0 left\nno: login_by_ip\n"), "{out}");
    assert!(out.contains(r#"RateLimit: "login_by_ip";r=0;t="#) && out.contains("\nRetry-After: "), "{out}");
    assert!(out.ends_with("three more for ada: true, 2 left then\neleven: limit.never\n"), "{out}");
}

#[test]
fn mailer_writes_one_file_and_gives_the_provider_each_message_once() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let out = run("mailer", folder.path());
        assert!(out.contains("may have gone") && out.contains("given 6 messages"), "{out}");
        let files = std::fs::read_dir(folder.path().join("outbox")).unwrap();
        let mails =
            files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with(".eml"));
        assert_eq!(mails.count(), 1);
    }
}

#[test]
fn services_charge_what_they_are_asked_for_and_stop_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let run = |orders: &[&str]| {
        let mut program = Command::new(built("services"));
        let output = program.args(orders).current_dir(folder.path()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), out.into_owned(), err.into_owned())
    };
    for _ in 0..2 {
        assert_eq!(run(&["o1", "o2"]), (Some(0), "o1: ch_o1\no2: ch_o2\n".to_owned(), String::new()));
    }
    let (code, out, err) = run(&["o1", "bad", "o3"]);
    assert_eq!((code, out.as_str()), (Some(70), "o1: ch_o1\n"));
    assert!(
        err.contains("service.stop_failed: a stop hook of service `till` failed: invalid input"),
        "{err}"
    );
}
