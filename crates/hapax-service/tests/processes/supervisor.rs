//! What a supervisor is told.

use crate::child::{Process, program};
use rustix::process::Signal;
use std::{os::unix::net::UnixDatagram, time::Duration};

pub(crate) const CASES: &[(&str, fn())] = &[
    (
        "supervisor_is_told_when_everything_is_ready_and_when_it_stops",
        supervisor_is_told_when_everything_is_ready_and_when_it_stops,
    ),
    #[cfg(target_os = "linux")]
    ("supervisor_is_told_at_an_abstract_address", supervisor_is_told_at_an_abstract_address),
    ("supervisor_that_is_not_there_changes_nothing", supervisor_that_is_not_there_changes_nothing),
];

/// Runs `orderly` under a supervisor that listens there.
fn listen(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let told = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut command = program("orderly");
    command.env("NOTIFY_SOCKET", name);
    let mut process = Process::start(command);
    // Not before the last of them is there.
    assert!(told().lines().any(|line| line == "READY=1"));
    for line in ["+store", "+worker", "ready"] {
        process.expect(line);
    }
    process.signal(Signal::TERM);
    assert!(told().lines().any(|line| line == "STOPPING=1"));
    assert_eq!(process.ended().code, Some(0));
}

fn supervisor_is_told_when_everything_is_ready_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    listen(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
}

#[cfg(target_os = "linux")]
fn supervisor_is_told_at_an_abstract_address() {
    use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};
    let name = format!("hapax-service-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    listen(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

fn supervisor_that_is_not_there_changes_nothing() {
    for name in ["/nowhere/at/all", "vsock:2:1", "@"] {
        let mut command = program("orderly");
        command.env("NOTIFY_SOCKET", name);
        let mut process = Process::start(command);
        for line in ["+store", "+worker", "ready"] {
            process.expect(line);
        }
        process.signal(Signal::TERM);
        assert_eq!(process.ended().code, Some(0), "{name}");
    }
}
