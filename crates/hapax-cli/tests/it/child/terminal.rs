//! Job control, as an interactive shell sees it.

use super::{
    driver::Driver,
    processes::{foreground, is_stopped, signal},
    until,
};
use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use std::{
    fs::File,
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    process::{Child, Command},
    sync::{Arc, Mutex},
    time::Duration,
};

const LONG: Duration = Duration::from_mins(10);

/// A terminal, and a process that leads its session.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    leader: Child,
}

impl Terminal {
    pub(crate) fn new(program: &Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let theirs = File::options().read(true).write(true).open(path).unwrap();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap());
        }
        let stdio = || theirs.try_clone().unwrap();
        let leader = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();

        let keyboard = File::from(ours);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut from, to) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                to.lock().unwrap().extend(buffer.iter().take(n));
            }
        });
        Self { keyboard, screen, leader }
    }

    pub(crate) fn shell() -> Self {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ").env("TERM", "dumb");
        Self::new(&bash)
    }

    pub(crate) fn types(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn enters(&self, line: &str) {
        self.types(&format!("{line}\n"));
    }

    pub(crate) fn shows(&self, text: &str) -> bool {
        self.screen.lock().unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let screen = self.screen.lock().unwrap();
            let _ = std::io::stderr().write_all(&screen);
        }
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// Says who it is and reads a line.
const READS: &str = "echo $PPID > $DIR/owner; echo $$ > $DIR/pid; read line; echo $line > $DIR/line";

async fn both_are(driver: &Driver, stopped: bool) {
    until(|| driver.number("pid").is_some()).await;
    let (owner, command) = (driver.number("owner").unwrap(), driver.number("pid").unwrap());
    until(|| is_stopped(owner) == stopped && is_stopped(command) == stopped).await;
}

async fn both_stop(driver: &Driver) {
    both_are(driver, true).await;
}

async fn both_run(driver: &Driver) {
    both_are(driver, false).await;
}

async fn result(driver: &Driver) -> String {
    until(|| driver.result().is_some()).await;
    driver.result().unwrap()
}

#[tokio::test]
async fn command_reads_the_terminal_and_the_shell_gets_it_back() {
    let driver = Driver::new(READS, LONG);
    let terminal = Terminal::shell();
    terminal.enters(&driver.line());
    until(|| driver.number("pid").is_some()).await;
    terminal.enters("12");
    assert_eq!(result(&driver).await, "Code(0) None None");
    assert_eq!(driver.number("line"), Some(12));
    terminal.enters("echo back-$((6 * 7))");
    until(|| terminal.shows("back-42")).await;
}

#[tokio::test]
async fn keys_go_to_the_command_alone() {
    let script = "trap 'exit 3' INT; echo $$ > $DIR/pid; while :; do sleep 0.01; done";
    let driver = Driver::new(script, LONG);
    let terminal = Terminal::shell();
    terminal.enters(&driver.line());
    until(|| driver.number("pid").is_some()).await;
    terminal.types("\x03");
    assert_eq!(result(&driver).await, "Code(3) None None");
}

#[tokio::test]
async fn keys_are_passed_on_to_a_command_that_reads_something_else() {
    let script = "trap 'exit 3' INT; echo $$ > $DIR/pid; while :; do sleep 0.01; done";
    let driver = Driver::new(script, LONG);
    let terminal = Terminal::shell();
    terminal.enters(&format!("{} </dev/null", driver.line()));
    until(|| driver.number("pid").is_some()).await;
    terminal.types("\x03");
    assert_eq!(result(&driver).await, "Code(3) None Some(2)");
}

#[tokio::test]
async fn stop_of_the_command_stops_its_owner_and_fg_continues_both() {
    let driver = Driver::new(READS, LONG);
    let terminal = Terminal::shell();
    terminal.enters(&driver.line());
    until(|| driver.number("pid").is_some()).await;
    for _ in 0..2 {
        terminal.types("\x1a");
        both_stop(&driver).await;
        // The shell has the terminal.
        terminal.enters("fg");
        both_run(&driver).await;
    }
    terminal.enters("12");
    assert_eq!(result(&driver).await, "Code(0) None None");
    assert_eq!(driver.number("line"), Some(12));
}

#[tokio::test]
async fn stop_reaches_a_command_that_reads_something_else() {
    // It must not be in the middle of starting a program, which a stop can hold up for good.
    let script = "mkfifo $DIR/go; echo $PPID > $DIR/owner; echo $$ > $DIR/pid; read go < $DIR/go";
    let driver = Driver::new(script, LONG);
    let terminal = Terminal::shell();
    terminal.enters(&format!("{} </dev/null", driver.line()));
    until(|| driver.number("pid").is_some()).await;
    terminal.types("\x1a");
    both_stop(&driver).await;
    terminal.enters("fg");
    both_run(&driver).await;
    std::fs::write(driver.file("go"), "on\n").unwrap();
    assert_eq!(result(&driver).await, "Code(0) None None");
}

#[tokio::test]
async fn stop_reaches_the_script_that_started_the_owner() {
    let driver = Driver::new(READS, LONG);
    let script = driver.file("script");
    std::fs::write(&script, format!("{}\necho after > $DIR/after\n", driver.line())).unwrap();
    let terminal = Terminal::shell();
    terminal.enters(&format!("DIR={} sh {}", script.parent().unwrap().display(), script.display()));
    until(|| driver.number("pid").is_some()).await;
    terminal.types("\x1a");
    both_stop(&driver).await;
    terminal.enters("fg");
    both_run(&driver).await;
    terminal.enters("12");
    assert_eq!(result(&driver).await, "Code(0) None None");
    until(|| driver.file("after").exists()).await;
}

#[tokio::test]
async fn job_in_the_background_stops_when_it_reads_and_reads_when_it_is_in_front() {
    let driver = Driver::new(READS, LONG);
    let terminal = Terminal::shell();
    terminal.enters(&format!("{} &", driver.line()));
    both_stop(&driver).await;
    terminal.enters("fg");
    both_run(&driver).await;
    terminal.enters("12");
    assert_eq!(result(&driver).await, "Code(0) None None");
    assert_eq!(driver.number("line"), Some(12));
}

#[tokio::test]
async fn job_that_is_brought_to_the_front_while_it_runs_gets_the_terminal() {
    let script = "echo $PPID > $DIR/owner; echo $$ > $DIR/pid; until [ -e $DIR/go ]; do sleep 0.01; done; \
                  read line; echo $line > $DIR/line";
    let driver = Driver::new(script, LONG);
    let terminal = Terminal::shell();
    terminal.enters(&format!("{} &", driver.line()));
    until(|| driver.number("pid").is_some()).await;
    let (owner, command) = (driver.number("owner").unwrap(), driver.number("pid").unwrap());
    terminal.enters("fg");
    // Some shells say that a job which runs has been continued, this one does not.
    until(|| foreground(owner) == Some(owner)).await;
    signal(owner, Signal::CONT);
    until(|| foreground(command) == Some(command)).await;
    std::fs::write(driver.file("go"), "").unwrap();
    terminal.enters("12");
    assert_eq!(result(&driver).await, "Code(0) None None");
    assert_eq!(driver.number("line"), Some(12));
}

#[tokio::test]
async fn command_that_was_stopped_for_longer_than_its_lease_is_not_continued() {
    let script = "echo $PPID > $DIR/owner; echo $$ > $DIR/pid; read line; echo on > $DIR/on";
    let driver = Driver::new(script, Duration::from_secs(2)).renewed();
    let terminal = Terminal::shell();
    terminal.enters(&driver.line());
    until(|| driver.number("pid").is_some()).await;
    terminal.types("\x1a");
    both_stop(&driver).await;
    let command = driver.number("pid").unwrap();
    until(|| !super::processes::is_alive(command)).await;
    terminal.enters("fg");
    assert_eq!(result(&driver).await, "Signal(15) Some(LeaseLost) None");
    assert!(!driver.file("on").exists());
    terminal.enters("echo back-$((6 * 7))");
    until(|| terminal.shows("back-42")).await;
}

#[tokio::test]
async fn command_that_nobody_could_continue_is_not_left_stopped() {
    let driver = Driver::new(READS, LONG);
    // The owner leads the session: there is no shell.
    let terminal = Terminal::new(&driver.command());
    until(|| driver.number("pid").is_some()).await;
    terminal.types("\x1a");
    terminal.enters("12");
    assert_eq!(result(&driver).await, "Code(0) None None");
    assert_eq!(driver.number("line"), Some(12));
}

#[tokio::test]
async fn output_is_copied_to_a_terminal_that_the_command_has() {
    let driver = Driver::new("echo out-$((6 * 7)); read line; echo err-$((6 * 8)) >&2", LONG);
    let terminal = Terminal::shell();
    terminal.enters(&format!("stty tostop; {}", driver.line()));
    until(|| terminal.shows("out-42")).await;
    terminal.enters("");
    assert_eq!(result(&driver).await, "Code(0) None None");
    until(|| terminal.shows("err-48")).await;
}
