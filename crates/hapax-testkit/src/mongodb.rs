//! Servers of MongoDB: a `mongod` where one is installed, else a stand-in that speaks its protocol over SQLite.
//!
//! The stand-in is a program of Python, `nx-27017`, which `scripts/servers` installs. It is faithful in what the store
//! needs, except that it is a standalone without users and TLS, ignores collations and concerns, and does not say which
//! index a duplicate is of.

use crate::{
    shared::{self, Shared},
    supervised::{Life, Supervised, folder, free_port},
    wait,
};
use std::{
    env, fs,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    time::Duration,
};
use tempfile::TempDir;

/// The replica set of one that a `mongod` becomes.
const SET: &str = "hapax";

/// Why tests that need a server cannot run here; none where they can, and always none with `CI` set.
pub fn missing() -> Option<String> {
    if find().is_some() || env::var_os("CI").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    Some("not installed: mongod, and its stand-in neither (`scripts/servers`)".to_owned())
}

/// Whether the servers are those of the stand-in.
pub fn is_stand_in() -> bool {
    !matches!(find(), Some(Program::Mongod(_)))
}

/// What runs.
enum Program {
    Mongod(PathBuf),
    StandIn(PathBuf),
}

fn find() -> Option<Program> {
    let stand_in = || crate::cached("nx-27017/bin/nx-27017").map(Program::StandIn);
    crate::in_path("mongod").map(Program::Mongod).or_else(stand_in)
}

/// A server. It goes with the value.
#[derive(Debug)]
pub struct Mongo {
    folder: TempDir,
    port: u16,
    server: Option<Supervised>,
}

impl Mongo {
    /// Starts one with an empty folder for its data.
    pub fn start() -> Self {
        Self::living(Life::Test)
    }

    fn living(life: Life<'_>) -> Self {
        // Somebody else may have taken the port meanwhile.
        let mut last = String::new();
        for _ in 0..5 {
            let mut server = Self { folder: folder(), port: free_port(), server: None };
            match server.try_start(life) {
                Ok(()) => return server,
                Err(log) => last = log,
            }
        }
        panic!("no server of MongoDB started:\n{last}");
    }

    fn try_start(&mut self, life: Life<'_>) -> Result<(), String> {
        let (folder, port) = (self.folder.path(), self.port.to_string());
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("a folder for data");
        let data = data.display().to_string();
        let (program, args, is_real) = match find().expect("mongod, or its stand-in by `scripts/servers`") {
            Program::Mongod(path) => {
                let args = ["--dbpath", &data, "--port", &port, "--bind_ip", "127.0.0.1", "--replSet", SET]
                    .map(str::to_owned)
                    .to_vec();
                (path, [args, vec!["--nounixsocket".to_owned()]].concat(), true)
            }
            Program::StandIn(path) => {
                // Nobody starts it again where many tests share it.
                let data = if matches!(life, Life::Pipe(_)) { "memory".to_owned() } else { data };
                let file = |name: &str| folder.join(name).display().to_string();
                let (log, pid) = (file("nx.log"), file("nx.pid"));
                let args = ["--host", "127.0.0.1", "-p", &port, "--data-dir", &data, "--log-file", &log];
                let args = args.map(str::to_owned).to_vec();
                (path, [args, vec!["--pid-file".to_owned(), pid]].concat(), false)
            }
        };
        let mut server = Supervised::start(folder, "mongodb", &program.display().to_string(), &args, life);
        let port = self.port;
        wait::for_value("the server answers", || hello(port), || server.has_ended())?;
        if is_real {
            // Refused where it is one already.
            let _ = ask(port, &initiate(port));
        }
        let is_primary = || hello(port)?.contains("isWritablePrimary\0\u{1}").then_some(());
        wait::for_value("the server takes writes", is_primary, || server.has_ended())?;
        self.server = Some(server);
        Ok(())
    }

    /// `mongodb://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        self.server.as_ref().map(Supervised::log).unwrap_or_default()
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.end("KILL");
        }
    }

    /// Starts it again, at the same place with the same data.
    pub fn start_again(&mut self) {
        if let Err(log) = self.try_start(Life::Test) {
            panic!("the server did not start again:\n{log}");
        }
    }

    /// Lets it do nothing until [`thaw`](Self::thaw): it takes connections, and is silent.
    pub fn freeze(&self) {
        self.server.as_ref().expect("a server").signal("STOP");
    }

    /// Ends [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.server.as_ref().expect("a server").signal("CONT");
    }

    /// Lets it live on; where it listens.
    fn leave(mut self) -> u16 {
        if let Some(server) = self.server.take() {
            server.leave();
        }
        self.folder.disable_cleanup(true);
        self.port
    }
}

impl Drop for Mongo {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server for test processes that ask, each with databases of its own.
#[derive(Debug)]
pub struct SharedMongo(Shared);

impl SharedMongo {
    /// Uses the one that is there, or starts it.
    pub fn join() -> Self {
        let is_up = |state: &str| state.parse().is_ok_and(|port| hello(port).is_some());
        // A stand-in serves everybody with one thread: of two, each has half of the tests.
        let kind = format!("mongodb-{}", std::process::id() % 2);
        Self(shared::join(&kind, is_up, |pipe| Mongo::living(Life::Pipe(pipe)).leave().to_string()))
    }

    /// `mongodb://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        url(self.port())
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.0.state.parse().expect("a port")
    }
}

fn url(port: u16) -> String {
    format!("mongodb://127.0.0.1:{port}")
}

/// What a server says of itself, as the bytes of its answer.
fn hello(port: u16) -> Option<String> {
    let reply = ask(port, &[int("hello", 1), text("$db", "admin")].concat()).ok()?;
    Some(String::from_utf8_lossy(&reply).into_owned())
}

/// The elements of a command that makes a replica set of one.
fn initiate(port: u16) -> Vec<u8> {
    let member = [int("_id", 0), text("host", &format!("127.0.0.1:{port}"))].concat();
    let config = [text("_id", SET), nested(4, "members", &nested(3, "0", &member))].concat();
    [nested(3, "replSetInitiate", &config), text("$db", "admin")].concat()
}

/// Sends a command and reads the answer, without a driver: two commands are all that is needed here.
fn ask(port: u16, elements: &[u8]) -> io::Result<Vec<u8>> {
    const OP_MSG: i32 = 2013;
    let body = document(elements);
    let length = i32::try_from(16 + 4 + 1 + body.len()).expect("a short command");
    let header = [length, 1, 0, OP_MSG, 0].map(i32::to_le_bytes).concat();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(&[header.as_slice(), &[0], &body].concat())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let rest = usize::try_from(i32::from_le_bytes(length)).ok().and_then(|length| length.checked_sub(4));
    let rest = rest.filter(|rest| *rest < 1024 * 1024).ok_or(io::ErrorKind::InvalidData)?;
    let mut reply = vec![0; rest];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

fn document(elements: &[u8]) -> Vec<u8> {
    let length = i32::try_from(elements.len() + 5).expect("a short document");
    [&length.to_le_bytes(), elements, &[0]].concat()
}

fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], value].concat()
}

fn int(name: &str, value: i32) -> Vec<u8> {
    element(16, name, &value.to_le_bytes())
}

fn text(name: &str, value: &str) -> Vec<u8> {
    let length = i32::try_from(value.len() + 1).expect("a short text");
    element(2, name, &[&length.to_le_bytes(), value.as_bytes(), &[0]].concat())
}

/// 3 is a document, 4 an array.
fn nested(kind: u8, name: &str, elements: &[u8]) -> Vec<u8> {
    element(kind, name, &document(elements))
}

/// A URL with another database, whatever else it says.
pub fn in_database(url: &str, database: &str) -> String {
    let (place, options) = url.split_once('?').map_or((url, None), |(place, options)| (place, Some(options)));
    let (scheme, rest) = place.split_once("://").expect("a URL");
    let hosts = rest.split('/').next().unwrap_or_default();
    format!(
        "{scheme}://{hosts}/{database}?{}",
        options.map(|options| format!("{options}&")).unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the encoder of another language writes it.
    #[test]
    fn commands_are_encoded_as_they_must_be() {
        let expected = b"\x6e\0\0\0\x03replSetInitiate\0\x49\0\0\0\x02_id\0\x06\0\0\0hapax\0\
            \x04members\0\x2c\0\0\0\x030\0\x24\0\0\0\x10_id\0\0\0\0\0\x02host\0\x0c\0\0\0\x3127.0.0.1:7\0\0\0\0\
            \x02$db\0\x06\0\0\0admin\0\0";
        assert_eq!(document(&initiate(7)), expected);
    }

    #[test]
    fn a_url_keeps_its_options() {
        assert_eq!(in_database("mongodb://h:1", "x"), "mongodb://h:1/x?");
        assert_eq!(in_database("mongodb://h:1/old?w=1", "x"), "mongodb://h:1/x?w=1&");
    }
}
