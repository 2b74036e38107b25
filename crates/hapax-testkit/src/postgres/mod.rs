//! `postgres`: alone, with TLS, as a standby, and behind a pooler.

mod pgbouncer;
mod single;
mod user;

pub use pgbouncer::{PROGRAM as PGBOUNCER, Pgbouncer};
pub use single::{Postgres, SharedPostgres};

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    process::Command,
    sync::OnceLock,
    time::Duration,
};

const PROGRAMS: [&str; 2] = ["postgres", "initdb"];
/// Where some systems keep the programs of each version, out of the path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Where some systems keep servers, out of the path.
const SERVERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// The role that must give a password over TCP; whoever wants it creates it. All others are trusted.
pub const GUARDED: &str = "guarded";

/// Why tests that need a server cannot run here; none where they can, and none with `CI` set.
pub fn missing() -> Option<String> {
    missing_beside(&[])
}

/// The same for tests that need these programs, too.
pub fn missing_beside(beside: &[&str]) -> Option<String> {
    let needed: Vec<_> = PROGRAMS.iter().chain(beside).copied().collect();
    let gone: Vec<_> = needed.into_iter().filter(|program| find(program).is_none()).collect();
    crate::missing(&gone)
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// Asks whether it speaks TLS, to which a server has an answer of one letter, and so has a pooler.
fn answers(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47])?;
        let mut letter = [0];
        stream.read_exact(&mut letter).map(|()| letter)
    };
    matches!(ask(), Ok([b'N' | b'S']))
}

/// In the path, or else of the newest version, or among the servers of the system.
fn find(program: &str) -> Option<PathBuf> {
    crate::in_path(program)
        .or_else(|| elsewhere().iter().map(|folder| folder.join(program)).find(|path| path.is_file()))
}

/// The folders that are not in the path, as they were at the first look.
fn elsewhere() -> &'static [PathBuf] {
    static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOLDERS.get_or_init(|| {
        let mut versions: Vec<_> = fs::read_dir(VERSIONS).into_iter().flatten().flatten().collect();
        let number =
            |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        versions.sort_by_key(|entry| std::cmp::Reverse(number(entry)));
        let versions = versions.into_iter().map(|entry| entry.path().join("bin"));
        versions.chain(SERVERS.map(PathBuf::from)).collect()
    })
}

/// The program as it is to be called.
fn program(name: &str) -> String {
    find(name).map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

/// Runs a program to its end, which has to be a good one.
fn run(command: &mut Command) {
    let ended = command.output().expect("the program starts");
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Another program may take a port before the server does.
fn with_port(what: &str, mut start: impl FnMut(u16) -> Result<(), String>) -> u16 {
    for _ in 0..10 {
        let port = crate::supervised::free_port();
        match start(port) {
            Ok(()) => return port,
            Err(log) if log.contains("Address already in use") => {}
            Err(log) => panic!("{what} did not start:\n{log}"),
        }
    }
    panic!("no port is free for {what}")
}
