//! No program outlives its lease, whoever dies or freezes.

use super::{
    PATIENCE,
    driver::Driver,
    from_now, lease, processes,
    processes::{children, guard_of, is_alive, marked, number_in, signal},
    product::{self, EndedBy, Exit, LeaseState},
    run, sh, text, until, within,
};
use rustix::process::Signal;
use std::{fs, time::Duration};

const LEASE: Duration = Duration::from_secs(2);
const MARGIN_MS: u64 = 500;
/// For a machine that is busy with other tests.
const SLACK_MS: u64 = 1_500;

fn me() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap()
}

#[tokio::test]
async fn lease_that_is_not_renewed_ends_the_command_before_it_passes() {
    let (_renewer, lease) = lease(LEASE);
    let deadline = lease.borrow().until_ms;
    let ended =
        within(product::run(sh("trap 'exit 0' TERM; while :; do sleep 0.01; done"), lease)).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Code(0), Some(EndedBy::LeaseLost)));
    let now = product::now_ms();
    assert!(now >= deadline - MARGIN_MS, "{now} {deadline}");
    assert!(now < deadline + SLACK_MS, "{now} {deadline}");
}

#[tokio::test]
async fn group_that_ignores_sigterm_is_killed_right_before_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("trap '' TERM; sleep 1000 & echo $! > {}; wait", pid.display());
    let (_renewer, lease) = lease(LEASE);
    let deadline = lease.borrow().until_ms;
    let ended = within(product::run(sh(&script), lease)).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(9), Some(EndedBy::LeaseLost)));
    assert!(product::now_ms() >= deadline - MARGIN_MS / 5);
    let pid = number_in(&pid).unwrap();
    until(|| !is_alive(pid)).await;
    assert!(product::now_ms() < deadline + SLACK_MS);
}

#[tokio::test]
async fn child_that_outlives_the_end_of_its_lease_is_ended_too() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("(trap '' TERM; exec sleep 1000) & echo $! > {}; exec sleep 1000", pid.display());
    let (_renewer, lease) = lease(LEASE);
    let ended = within(product::run(sh(&script), lease)).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(15), Some(EndedBy::LeaseLost)));
    let pid = number_in(&pid).unwrap();
    until(|| !is_alive(pid)).await;
}

#[tokio::test]
async fn renewed_lease_lets_the_command_live() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let (renewer, lease) = lease(LEASE);
    let first = lease.borrow().until_ms;
    let script = format!("until [ -e {} ]; do sleep 0.01; done; echo done", go.display());
    let running = tokio::spawn(product::run(sh(&script), lease));
    until(|| {
        renewer.send_replace(from_now(LEASE));
        product::now_ms() > first
    })
    .await;
    fs::write(&go, "").unwrap();
    let ended = within(running).await.unwrap().unwrap();
    assert_eq!((ended.exit, ended.by, text(&ended.stdout.head)), (Exit::Code(0), None, "done\n"));
}

#[tokio::test]
async fn lost_lease_ends_the_command_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let length = Duration::from_mins(10);
    let (renewer, lease) = lease(length);
    let running =
        tokio::spawn(product::run(sh(&format!("echo $$ > {}; exec sleep 1000", file.display())), lease));
    until(|| number_in(&file).is_some()).await;
    renewer.send_replace(LeaseState { lost: true, ..from_now(length) });
    let ended = within(running).await.unwrap().unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(15), Some(EndedBy::LeaseLost)));
}

#[tokio::test]
async fn stopped_command_is_ended_too() {
    let (_renewer, lease) = lease(LEASE);
    let ended = within(product::run(sh("kill -STOP $$"), lease)).await.unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(15), Some(EndedBy::LeaseLost)));
}

#[tokio::test]
async fn killed_guard_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let (_renewer, lease) = lease(LEASE);
    let deadline = lease.borrow().until_ms;
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.05; done", file.display());
    let running = tokio::spawn(product::run(sh(&script), lease));
    until(|| number_in(&file).is_some()).await;
    let group = number_in(&file).unwrap();
    let first = guard_of(me(), group).unwrap();
    signal(first, Signal::KILL);
    until(|| guard_of(me(), group).is_some_and(|guard| guard != first)).await;
    // The second one knows the same deadline.
    let ended = within(running).await.unwrap().unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(9), Some(EndedBy::LeaseLost)));
    assert!(product::now_ms() >= deadline - MARGIN_MS / 5);
}

#[tokio::test]
async fn command_without_a_guard_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let (_renewer, lease) = lease(Duration::from_mins(10));
    let running =
        tokio::spawn(product::run(sh(&format!("echo $$ > {}; exec sleep 1000", file.display())), lease));
    until(|| number_in(&file).is_some()).await;
    let group = number_in(&file).unwrap();
    let mut last = None;
    for _ in 0..3 {
        until(|| guard_of(me(), group).is_some_and(|guard| Some(guard) != last)).await;
        last = guard_of(me(), group);
        signal(last.unwrap(), Signal::KILL);
    }
    assert_eq!(within(running).await.unwrap().unwrap().exit, Exit::Signal(9));
}

#[tokio::test]
async fn frozen_guard_does_not_keep_the_command_alive() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let (renewer, lease) = lease(LEASE);
    let running =
        tokio::spawn(product::run(sh(&format!("echo $$ > {}; exec sleep 1000", file.display())), lease));
    until(|| number_in(&file).is_some()).await;
    let guard = guard_of(me(), number_in(&file).unwrap()).unwrap();
    signal(guard, Signal::STOP);
    renewer.send_modify(|lease| lease.lost = true);
    let ended = within(running).await.unwrap().unwrap();
    assert_eq!((ended.exit, ended.by), (Exit::Signal(9), Some(EndedBy::LeaseLost)));
    signal(guard, Signal::KILL);
}

#[tokio::test]
async fn guard_hears_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (file, go) = (folder.path().join("pid"), folder.path().join("go"));
    let script = format!("echo $$ > {}; until [ -e {} ]; do sleep 0.01; done", file.display(), go.display());
    let (_renewer, lease) = lease(Duration::from_mins(10));
    let running = tokio::spawn(product::run(sh(&script), lease));
    until(|| number_in(&file).is_some()).await;
    let group = number_in(&file).unwrap();
    let guard = guard_of(me(), group).unwrap();
    for each in
        [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::USR1, Signal::ALARM]
    {
        signal(guard, each);
    }
    assert_eq!(guard_of(me(), group), Some(guard));
    fs::write(&go, "").unwrap();
    assert_eq!(within(running).await.unwrap().unwrap().exit, Exit::Code(0));
}

#[tokio::test]
async fn killed_owner_takes_the_command_with_it() {
    // Its stderr ends in a pipe that nobody reads any more.
    let script = "exec 2>/dev/null; trap 'echo 1 > $DIR/term; exit' TERM; echo $$ > $DIR/pid; \
                  while :; do sleep 0.01; done";
    let driver = Driver::new(script, LEASE);
    let begun = product::now_ms();
    let mut owner = driver.command().spawn().unwrap();
    until(|| driver.number("pid").is_some()).await;
    owner.kill().unwrap();
    owner.wait().unwrap();
    let command = driver.number("pid").unwrap();
    until(|| !is_alive(command)).await;
    // Asked to end, not killed, and at once.
    assert_eq!(driver.number("term"), Some(1));
    assert!(product::now_ms() < begun + ms(LEASE) - MARGIN_MS);
    until(|| marked(&driver.mark()).is_empty()).await;
}

#[tokio::test]
async fn command_of_a_killed_owner_is_killed_at_the_deadline_at_the_latest() {
    let driver = Driver::new("trap '' TERM; echo $$ > $DIR/pid; while :; do sleep 0.05; done", LEASE);
    let begun = product::now_ms();
    let mut owner = driver.command().spawn().unwrap();
    until(|| driver.number("pid").is_some()).await;
    owner.kill().unwrap();
    owner.wait().unwrap();
    until(|| marked(&driver.mark()).is_empty()).await;
    assert!(product::now_ms() < begun + ms(LEASE) + SLACK_MS);
}

#[tokio::test]
async fn frozen_owner_does_not_keep_the_command_alive() {
    let script = "trap 'exit 5' TERM; echo $$ > $DIR/pid; while :; do sleep 0.01; done";
    let driver = Driver::new(script, LEASE).renewed();
    let mut owner = driver.command().spawn().unwrap();
    until(|| driver.number("pid").is_some()).await;
    let pid = i32::try_from(owner.id()).unwrap();
    signal(pid, Signal::STOP);
    let frozen = product::now_ms();
    let command = driver.number("pid").unwrap();
    until(|| !is_alive(command)).await;
    assert!(product::now_ms() < frozen + ms(LEASE) + SLACK_MS);
    // Continued, it learns what was done to its command.
    assert_eq!(driver.result(), None);
    signal(pid, Signal::CONT);
    until(|| driver.result().is_some()).await;
    assert_eq!(driver.result().unwrap(), "Code(5) Some(LeaseLost) None");
    assert!(owner.wait().unwrap().success());
}

/// The moments between the starts of the owner, the guard and the command, passed through in small steps.
async fn nothing_survives(hit: Signal) {
    let mut rounds = tokio::task::JoinSet::new();
    for round in 0..25 {
        rounds.spawn(round_of(hit, Duration::from_micros(round * 400)));
        // As many as a small machine can take.
        while rounds.len() >= 5 {
            rounds.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(round) = rounds.join_next().await {
        round.unwrap();
    }
}

async fn round_of(hit: Signal, after: Duration) {
    let driver = Driver::new("trap '' TERM; while :; do sleep 0.05; done", Duration::from_secs(1));
    let mut owner = driver.command().spawn().unwrap();
    let pid = i32::try_from(owner.id()).unwrap();
    // From the moment the first helper is there. (On a busy machine it may all be over by then.)
    until(|| !children(pid).is_empty() || !is_alive(pid)).await;
    tokio::time::sleep(after).await;
    signal(pid, hit);
    let deadline = product::now_ms() + 1_000;
    let left = || marked(&driver.mark()).into_iter().filter(|&left| left != pid).collect::<Vec<_>>();
    // A frozen owner's helpers may wait for it; a command may not.
    let commands = || left().into_iter().filter(|&pid| !processes::is_helper(pid)).collect::<Vec<_>>();
    until(|| {
        product::now_ms() > deadline && (commands().is_empty() || product::now_ms() > deadline + SLACK_MS)
    })
    .await;
    assert_eq!(commands(), [0; 0], "{after:?}");
    owner.kill().unwrap();
    owner.wait().unwrap();
    until(|| left().is_empty()).await;
}

#[tokio::test]
async fn owner_killed_at_any_moment_leaves_nothing_behind() {
    nothing_survives(Signal::KILL).await;
}

#[tokio::test]
async fn owner_frozen_at_any_moment_leaves_no_command_behind() {
    nothing_survives(Signal::STOP).await;
}

#[tokio::test]
async fn signals_are_passed_on_as_often_as_they_come() {
    let script = "n=0; trap 'n=$((n+1)); echo $n > $DIR/n; [ $n = 3 ] && exit 9' INT; echo $$ > $DIR/pid; \
                  while :; do sleep 0.01; done";
    let driver = Driver::new(script, Duration::from_mins(10));
    let mut owner = driver.command().spawn().unwrap();
    until(|| driver.number("pid").is_some()).await;
    for n in 1..=3 {
        signal(i32::try_from(owner.id()).unwrap(), Signal::INT);
        until(|| driver.number("n") == Some(n)).await;
    }
    until(|| driver.result().is_some()).await;
    assert_eq!(driver.result().unwrap(), "Code(9) None Some(2)");
    assert!(owner.wait().unwrap().success());
}

#[tokio::test]
async fn each_signal_that_ends_programs_is_passed_on() {
    for (each, name) in [(Signal::TERM, 15), (Signal::HUP, 1), (Signal::QUIT, 3)] {
        let driver = Driver::new("echo $$ > $DIR/pid; exec sleep 1000", Duration::from_mins(10));
        let mut owner = driver.command().spawn().unwrap();
        until(|| driver.number("pid").is_some()).await;
        signal(i32::try_from(owner.id()).unwrap(), each);
        until(|| driver.result().is_some()).await;
        assert_eq!(driver.result().unwrap(), format!("Signal({name}) None Some({name})"));
        owner.wait().unwrap();
    }
}

#[tokio::test]
async fn signal_that_is_ignored_at_the_start_stays_ignored() {
    let driver =
        Driver::new("echo $$ > $DIR/pid; until [ -e $DIR/go ]; do sleep 0.01; done", Duration::from_mins(10));
    let inner = driver.command();
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    let mut owner = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    until(|| driver.number("pid").is_some()).await;
    signal(i32::try_from(owner.id()).unwrap(), Signal::HUP);
    signal(driver.number("pid").unwrap(), Signal::HUP);
    fs::write(driver.file("go"), "").unwrap();
    until(|| driver.result().is_some()).await;
    assert_eq!(driver.result().unwrap(), "Code(0) None None");
    owner.wait().unwrap();
}

#[tokio::test]
async fn worker_is_not_stopped_by_a_stopped_job() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {}; kill -STOP $$; echo on", file.display());
    let (_renewer, lease) = lease(PATIENCE * 2);
    let running = tokio::spawn(product::run(sh(&script), lease));
    until(|| number_in(&file).is_some_and(|pid| processes::state(pid) == Some('T'))).await;
    signal(number_in(&file).unwrap(), Signal::CONT);
    assert_eq!(text(&within(running).await.unwrap().unwrap().stdout.head), "on\n");
    assert!(run(sh("true")).await.is_ok());
}
