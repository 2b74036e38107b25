//! How a program begins and ends.

use super::{
    command, from_now, lease, processes,
    product::{self, EndedBy, Exit, Prepared},
    run, sh, text, until, within,
};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

#[tokio::test]
async fn exit_code_is_the_commands() {
    let ended = run(sh("exit 3")).await.unwrap();
    assert_eq!((ended.exit, ended.by, ended.passed_on), (Exit::Code(3), None, None));
    assert_eq!(ended.exit.code(), 3);
}

#[tokio::test]
async fn end_by_a_signal_is_told_apart_from_an_exit_code() {
    let ended = run(sh("kill -KILL $$")).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(9), None));
    assert_eq!(ended.exit.code(), 137);
    assert_eq!(run(sh("exit 137")).await.unwrap().exit, Exit::Code(137));
}

#[tokio::test]
async fn unknown_program_is_127() {
    let error = run(command("no-such-program-here", &[])).await.unwrap_err();
    assert_eq!((error.code, error.reason.as_str()), (127, "no-such-program-here: command not found"));
}

#[tokio::test]
async fn program_that_cannot_be_executed_is_126() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, "no program").unwrap();
    let error = run(command(file.to_str().unwrap(), &[])).await.unwrap_err();
    assert_eq!(error.code, 126);
    assert!(error.reason.contains("Permission denied"), "{error}");

    let error = run(command(folder.path().to_str().unwrap(), &[])).await.unwrap_err();
    assert_eq!(error.code, 126);
    assert!(error.reason.ends_with("is a directory"), "{error}");
}

#[tokio::test]
async fn missing_interpreter_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let error = run(command(file.to_str().unwrap(), &[])).await.unwrap_err();
    assert_eq!(error.code, 127);
    assert!(error.reason.ends_with("its interpreter was not found"), "{error}");
}

#[tokio::test]
async fn nothing_begins_under_a_lease_that_has_passed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran");
    let (_renewer, lease) = lease(Duration::ZERO);
    let error = within(product::run(command("touch", &[file.to_str().unwrap()]), lease)).await.unwrap_err();
    assert!(error.lease_passed && error.reason.contains("lease"), "{error}");
    assert!(!file.exists());
}

#[tokio::test]
async fn environment_is_ours_and_what_was_added() {
    let mut spec = sh("printf '%s|%s|%s' \"$HAPAX_KEY\" \"$WITH_NUL\" \"$PATH\"");
    spec.env = vec![("HAPAX_KEY".into(), "a b".into()), ("WITH_NUL".into(), "a\0b".into())];
    let ended = run(spec).await.unwrap();
    assert_eq!(text(&ended.stdout.head), format!("a b||{}", std::env::var("PATH").unwrap()));
}

#[tokio::test]
async fn variables_that_come_late_replace_those_of_before_and_may_be_long() {
    let mut spec = sh("printf '%s|%s|%s|%s' \"$HAPAX_KEY\" \"$WITH_NUL\" \"$PATH\" ${#A}${#B}${#C}");
    spec.env = vec![("HAPAX_KEY".into(), "before".into())];
    // Together more than a socket takes at once.
    let long = || "x".repeat(100_000).into();
    let late = [
        ("HAPAX_KEY".into(), "a=b c".into()),
        ("WITH_NUL".into(), "a\0b".into()),
        ("A".into(), long()),
        ("B".into(), long()),
        ("C".into(), long()),
    ];
    let (_renewer, lease) = lease(Duration::from_mins(10));
    let ended = within(Prepared::start(spec).unwrap().run(&late, lease)).await.unwrap();
    let expected = format!("a=b c||{}|100000100000100000", std::env::var("PATH").unwrap());
    assert_eq!(text(&ended.stdout.head), expected);
}

#[tokio::test]
async fn what_is_prepared_and_not_run_is_gone_when_dropped() {
    let me = i32::try_from(std::process::id()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran");
    for with_guard in [false, true] {
        let mut prepared = Prepared::start(command("touch", &[file.to_str().unwrap()])).unwrap();
        if with_guard {
            prepared.guard();
        }
        let name = file.to_str().unwrap();
        let at_gate = processes::children(me).into_iter().find(|(_, line)| line.contains(name)).unwrap().0;
        assert_eq!(processes::guard_of(me, at_gate).is_some(), with_guard);
        drop(prepared);
        assert!(processes::state(at_gate).is_none());
        assert!(processes::guard_of(me, at_gate).is_none());
    }
    assert!(!file.exists());
}

#[tokio::test]
async fn command_leads_its_group_and_gets_clean_signals_and_descriptors() {
    let ended =
        run(sh("cut -d' ' -f5 /proc/$$/stat; echo $$; cat /proc/self/status; ls /proc/$$/fd")).await.unwrap();
    let lines: Vec<_> = text(&ended.stdout.head).lines().collect();
    assert_eq!(lines[0], lines[1]);
    let status = |name| lines.iter().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let me = i32::try_from(std::process::id()).unwrap();
    assert_eq!(status("SigBlk:"), processes::status(me, "SigBlk:"));
    assert_eq!(u64::from_str_radix(&status("SigIgn:"), 16).unwrap() & (1 << 12), 0, "SIGPIPE is not ignored");
    // Its own three, and what we were given to hand down ourselves.
    let ours = processes::inheritable();
    let numbers = lines.iter().rev().map_while(|line| line.parse::<u32>().ok());
    let beyond: Vec<_> = numbers.filter(|fd| *fd > 2 && !ours.contains(fd)).collect();
    assert_eq!(beyond, [0; 0]);
}

#[tokio::test]
async fn timeout_ends_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let mut spec = sh(&format!("sleep 1000 & echo $! > {}; wait", pid.display()));
    spec.timeout = Some(Duration::from_millis(300));
    let ended = run(spec).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(15), Some(EndedBy::Timeout)));
    assert!(!processes::is_alive(processes::number_in(&pid).unwrap()));
}

#[tokio::test]
async fn timeout_lets_the_command_clean_up_and_tells_how_it_exited() {
    let mut spec = sh("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
    spec.timeout = Some(Duration::from_millis(500));
    let ended = run(spec).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Code(7), Some(EndedBy::Timeout)));
    assert_eq!(text(&ended.stdout.head), "ready\nbye\n");
}

#[tokio::test]
async fn command_that_ignores_the_timeout_is_killed_after_a_grace() {
    let mut spec = sh("trap '' TERM; while :; do sleep 0.05; done");
    spec.timeout = Some(Duration::from_millis(100));
    let begun = product::now_ms();
    let ended = run(spec).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(9), Some(EndedBy::Timeout)));
    assert!(product::now_ms() - begun >= 5_000);
}

#[tokio::test]
async fn children_are_left_alone_after_a_clean_end() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // The child keeps stdout open.
    let script = format!("sleep 1000 & echo $! > {}; echo $$", pid.display());
    let begun = product::now_ms();
    let ended = run(sh(&script)).await.unwrap();
    assert!(product::now_ms() - begun < 10_000);
    assert_eq!(ended.exit, Exit::Code(0));
    let group = text(&ended.stdout.head).trim().parse().unwrap();
    let pid = processes::number_in(&pid).unwrap();
    // The guard has been told, and is gone without having done anything.
    let me = i32::try_from(std::process::id()).unwrap();
    until(|| processes::guard_of(me, group).is_none()).await;
    assert!(processes::is_alive(pid));
    processes::signal(pid, rustix::process::Signal::KILL);
}

#[tokio::test]
async fn command_is_ended_when_the_caller_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let (renewer, lease) = lease(Duration::from_mins(1));
    let running =
        tokio::spawn(product::run(sh(&format!("echo $$ > {}; exec sleep 1000", pid.display())), lease));
    until(|| processes::number_in(&pid).is_some()).await;
    renewer.send_replace(from_now(Duration::from_mins(1)));
    running.abort();
    let pid = processes::number_in(&pid).unwrap();
    until(|| !processes::is_alive(pid)).await;
}
