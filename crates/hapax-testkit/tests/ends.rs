//! A server does not outlive its test, however that ends.

use hapax_testkit::{
    missing,
    redis::{PROGRAM, Redis},
    until,
};
use std::{
    io::{BufRead as _, BufReader},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
};

fn is_up(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Run by the other test, in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn child() {
    let server = Redis::start();
    println!("server {} {}", server.port(), server.folder().display());
    // Until somebody ends this process.
    let _ = std::io::stdin().lines().count();
}

#[test]
fn a_server_ends_when_its_test_is_killed() {
    if missing(&[PROGRAM]).is_some() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line =
        lines.find_map(|line| line.unwrap().split_once("server ").map(|(_, rest)| rest.to_owned())).unwrap();
    let (port, folder) = line.split_once(' ').unwrap();
    let port = port.parse().unwrap();
    assert!(is_up(port) && Path::new(folder).is_dir());
    child.kill().unwrap();
    child.wait().unwrap();
    until("the server and its folder are gone", || !is_up(port) && !Path::new(folder).exists());
}

#[test]
fn a_server_ends_with_its_value() {
    if missing(&[PROGRAM]).is_some() {
        return;
    }
    let mut server = Redis::start();
    let (port, folder) = (server.port(), server.folder().to_owned());
    assert!(server.ask("SET k v").starts_with("+OK"));
    server.restart();
    assert_eq!(server.ask("GET k"), "$1\r\nv\r\n");
    drop(server);
    assert!(!is_up(port) && !folder.exists());
}
