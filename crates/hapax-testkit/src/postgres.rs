//! `postgres`: a server of one's own, or one for all test processes.

use crate::{
    shared::{self, Shared},
    supervised::{Life, Supervised, folder, free_port},
    wait,
};
use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

const PROGRAMS: [&str; 2] = ["postgres", "initdb"];
/// Where some systems keep the programs of each version, out of the path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Runs the server so that it ends in order, and gives back its shared memory, even where this shell is killed. TERM
/// cuts off its sessions, USR1 is a crash: a shell in the background hears neither INT nor QUIT.
const SHELL: &str = r#"
setpriv --pdeathsig QUIT "$@" &
server=$!
trap 'kill -s INT "$server"' TERM
trap 'kill -s QUIT "$server"' USR1
while kill -0 "$server" 2>/dev/null; do wait "$server"; done
"#;
/// The role that must give a password over TCP; whoever wants it creates it. All others are trusted.
pub const GUARDED: &str = "guarded";

/// Why tests that need a server cannot run here; none where they can, and none with `CI` set.
pub fn missing() -> Option<String> {
    let why = crate::missing(&PROGRAMS)?;
    PROGRAMS.iter().any(|program| find(program).is_none()).then_some(why)
}

/// A server that ends with its test. It keeps its data over a [`restart`](Self::restart), though not over a loss of
/// power: nothing is synced.
#[derive(Debug)]
pub struct Postgres {
    server: Option<Supervised>,
    folder: TempDir,
    user: Option<User>,
    port: u16,
}

impl Postgres {
    /// A new cluster with the superuser `postgres`.
    pub fn start() -> Self {
        Self::living(Life::Test)
    }

    fn living(life: Life<'_>) -> Self {
        let folder = folder();
        let user = User::of(folder.path());
        let mut postgres = Self { server: None, folder, user, port: 0 };
        postgres.init();
        // Another program may take the port before the server does.
        for _ in 0..10 {
            postgres.port = free_port();
            match postgres.try_start(life) {
                Ok(()) => return postgres,
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("postgres did not start:\n{log}"),
            }
        }
        panic!("no port is free for postgres")
    }

    fn init(&self) {
        let args = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        let mut args: Vec<_> = args.into_iter().map(str::to_owned).collect();
        args.push(self.data().display().to_string());
        let program = find("initdb").unwrap_or_else(|| "initdb".into());
        let mut command = Command::new(&program);
        if let Some(user) = &self.user {
            command = Command::new("setpriv");
            command.args(user.options()).arg(&program);
        }
        let made = command.args(args).current_dir(self.folder.path()).output();
        let made = made.expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let rules = format!(
            "host all {GUARDED} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n"
        );
        fs::write(self.data().join("pg_hba.conf"), rules).expect("the rules of access");
    }

    fn try_start(&mut self, life: Life<'_>) -> Result<(), String> {
        let status = self.data().join("postmaster.pid");
        // Of the server that ran here before.
        let _ = fs::remove_file(&status);
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={}", self.folder.path().display()),
            "max_connections=400".to_owned(),
            "fsync=off".to_owned(),
            "full_page_writes=off".to_owned(),
            "max_wal_size=256MB".to_owned(),
        ];
        let mut args =
            vec!["-D".to_owned(), self.data().display().to_string(), "-p".to_owned(), self.port.to_string()];
        args.extend(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
        let program =
            find("postgres").map_or_else(|| "postgres".to_owned(), |path| path.display().to_string());
        let shell = ["-c", SHELL, "sh"].map(str::to_owned).into_iter();
        let user = self.user.iter().flat_map(User::options);
        let args: Vec<_> = shell.chain(user).chain([program]).chain(args).collect();
        let mut server = Supervised::start(self.folder.path(), "postgres", "sh", &args, life);
        let is_ready = || {
            let status = fs::read_to_string(&status).unwrap_or_default();
            status.lines().nth(7).is_some_and(|line| line.trim() == "ready").then_some(())
        };
        wait::for_value("postgres is ready", is_ready, || server.has_ended())?;
        self.server = Some(server);
        Ok(())
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        self.server.as_ref().map(Supervised::log).unwrap_or_default()
    }

    /// Ends it in order; its sessions are cut off.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.end("TERM");
        }
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.end("USR1");
        }
    }

    /// Starts it again, at the same place with the same data.
    pub fn start_again(&mut self) {
        if let Err(log) = self.try_start(Life::Test) {
            panic!("postgres did not start again:\n{log}");
        }
    }

    /// [`stop`](Self::stop) and [`start_again`](Self::start_again).
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
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

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One server for every test process that asks, each with schemas of its own.
#[derive(Debug)]
pub struct SharedPostgres(Shared);

impl SharedPostgres {
    /// Uses the one that is there, or starts it.
    pub fn join() -> Self {
        let is_up = |state: &str| state.parse().is_ok_and(answers);
        Self(shared::join("postgres", is_up, |pipe| Postgres::living(Life::Pipe(pipe)).leave().to_string()))
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        url(self.port())
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.0.state.parse().expect("a port")
    }
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// Asks whether it speaks TLS, to which a server has an answer of one letter.
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

/// Who runs the server where the test runs as root, which the server refuses.
#[derive(Debug)]
struct User {
    id: u32,
    group: u32,
}

impl User {
    /// The owner of the folder, and so of the test, where that is not root; else somebody else gets the folder.
    fn of(folder: &Path) -> Option<Self> {
        if fs::metadata(folder).expect("the folder").uid() != 0 {
            return None;
        }
        let known = fs::read_to_string("/etc/passwd").expect("the users of the system");
        let named = |name: &str| {
            let line = known.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut numbers = line.split(':').skip(2).map(str::parse);
            Some(Self { id: numbers.next()?.ok()?, group: numbers.next()?.ok()? })
        };
        let user = named("postgres").or_else(|| named("nobody")).expect("a user that is not root");
        chown(folder, Some(user.id), Some(user.group)).expect("the folder can be given away");
        Some(user)
    }

    /// Of `setpriv`.
    fn options(&self) -> [String; 3] {
        [format!("--reuid={}", self.id), format!("--regid={}", self.group), "--clear-groups".to_owned()]
    }
}

/// In the path, or else of the newest version.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = env::split_paths(&path).collect();
    let mut versions: Vec<_> = fs::read_dir(VERSIONS).into_iter().flatten().flatten().collect();
    let number = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
    versions.sort_by_key(|entry| std::cmp::Reverse(number(entry)));
    folders.extend(versions.into_iter().map(|entry| entry.path().join("bin")));
    folders.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file())
}
