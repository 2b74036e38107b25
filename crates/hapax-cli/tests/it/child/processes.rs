//! Looking at processes from outside.

use crate::sandbox::until;
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, path::Path};

/// Sends a signal to one process. A stop is not at once: a thread goes on until it next leaves the system, by then perhaps
/// with a lock. So whoever stops a process goes on when it stands.
pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    if signal == Signal::STOP {
        until("it stands still", || is_stopped(pid) || !is_alive(pid));
    }
}

/// Whether a process runs: a zombie does not.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// The letter that `ps` shows.
pub(crate) fn state(pid: i32) -> Option<char> {
    state_in(&format!("/proc/{pid}/stat"))
}

/// Whether a process is stopped: its parent is told when the last of its threads is.
pub(crate) fn is_stopped(pid: i32) -> bool {
    let Ok(mut threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.all(|thread| state_in(&format!("{}/stat", thread.unwrap().path().display())) == Some('T'))
}

fn state_in(stat: &str) -> Option<char> {
    fs::read_to_string(stat).ok()?.rsplit_once(") ")?.1.chars().next()
}

/// The group that is in the foreground of the terminal of a process.
pub(crate) fn foreground(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(5)?.parse().ok()
}

/// A line of `/proc/PID/status`.
pub(crate) fn status(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
}

/// The children of a process that run, with their command lines.
pub(crate) fn children(parent: i32) -> Vec<(i32, String)> {
    let of_parent = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ppid = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        ppid == Some(parent) && is_alive(*pid)
    };
    all().filter(of_parent).map(|pid| (pid, command_line(pid))).collect()
}

/// The processes that have these bytes in their environment, which they hand down to their children.
pub(crate) fn marked(mark: &str) -> Vec<i32> {
    let has_mark = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        is_alive(*pid) && environ.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    all().filter(has_mark).collect()
}

/// The guard that a process has started for a group.
pub(crate) fn guard_of(parent: i32, group: i32) -> Option<i32> {
    let wanted = format!("__guard {group}");
    children(parent).into_iter().find(|(_, line)| line.contains(&wanted)).map(|(pid, _)| pid)
}

/// A number that a command writes to a file, once it is there, newline and all.
pub(crate) fn number_in(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()
}

fn all() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn command_line(pid: i32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

/// Whether it is hapax under a hidden subcommand.
pub(crate) fn is_helper(pid: i32) -> bool {
    let line = command_line(pid);
    line.contains(" __exec ") || line.contains(" __guard ")
}

/// Our descriptors that do not close on `exec`.
pub(crate) fn inheritable() -> Vec<u32> {
    const CLOEXEC: u32 = 0o2_000_000;
    let fds = fs::read_dir("/proc/self/fdinfo").unwrap();
    let open = |path: &Path| {
        let info = fs::read_to_string(path).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        (u32::from_str_radix(flags.trim(), 8).ok()? & CLOEXEC == 0).then_some(())
    };
    fds.filter_map(|fd| {
        let path = fd.ok()?.path();
        open(&path)?;
        path.file_name()?.to_str()?.parse().ok()
    })
    .collect()
}
