//! One server of one's own, or one for all test processes.

use super::{GUARDED, answers, program, run, url, user::User, with_port};
use crate::{
    shared::{self, Shared},
    supervised::{Life, Supervised, folder},
    wait,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Runs the server so that it ends in order, and gives back its shared memory, even where this shell is killed. TERM
/// cuts off its sessions, USR1 is a crash: a shell in the background hears neither INT nor QUIT.
const SHELL: &str = r#"
setpriv --pdeathsig QUIT "$@" &
server=$!
trap 'kill -s INT "$server"' TERM
trap 'kill -s QUIT "$server"' USR1
while kill -0 "$server" 2>/dev/null; do wait "$server"; done
"#;
/// A server that ends with its test. It keeps its data over a [`restart`](Self::restart), though not over a loss of
/// power: nothing is synced.
#[derive(Debug)]
pub struct Postgres {
    server: Option<Supervised>,
    folder: TempDir,
    user: Option<User>,
    port: u16,
    settings: Vec<String>,
}

impl Postgres {
    /// A new cluster with the superuser `postgres`.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With more settings: `name=value`.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::new(settings).living(Life::Test)
    }

    /// Over TCP it speaks TLS alone. Its certificate, for `localhost` and 127.0.0.1, is of the authority in
    /// [`authority`](Self::authority). Needs the program `openssl`.
    pub fn start_encrypted() -> Self {
        let mut postgres = Self::new(&[]);
        postgres.make_certificates();
        postgres.allow("hostssl all all 127.0.0.1/32 trust\nlocal all all trust\n");
        let file = |name: &str| postgres.folder.path().join(name).display().to_string();
        let settings = [
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.crt")),
            format!("ssl_key_file={}", file("server.key")),
        ];
        postgres.settings.extend(settings);
        postgres.living(Life::Test)
    }

    /// A standby of this server, which follows it. Needs the program `pg_basebackup`.
    #[must_use]
    pub fn standby(&self) -> Self {
        let standby = Self::bare(&[]);
        let mut command = User::command(standby.user, &program("pg_basebackup"));
        let from = self.url();
        command.args([
            "--write-recovery-conf",
            "--no-sync",
            "--checkpoint=fast",
            "--dbname",
            &from,
            "--pgdata",
        ]);
        run(command.arg(standby.data()).current_dir(standby.folder.path()));
        standby.living(Life::Test)
    }

    /// Nothing in its folder.
    fn bare(settings: &[&str]) -> Self {
        let folder = folder();
        let user = User::of(folder.path());
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self { server: None, folder, user, port: 0, settings }
    }

    fn new(settings: &[&str]) -> Self {
        let postgres = Self::bare(settings);
        let mut command = User::command(postgres.user, &program("initdb"));
        command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
        run(command.arg(postgres.data()).current_dir(postgres.folder.path()));
        postgres.allow(&format!(
            "host all {GUARDED} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n\
             host replication all 127.0.0.1/32 trust\n"
        ));
        postgres
    }

    fn living(mut self, life: Life<'_>) -> Self {
        self.port = with_port("postgres", |port| {
            self.port = port;
            self.try_start(life)
        });
        self
    }

    /// Who may connect.
    fn allow(&self, rules: &str) {
        fs::write(self.data().join("pg_hba.conf"), rules).expect("the rules of access");
    }

    fn make_certificates(&self) {
        let folder = self.folder.path();
        let openssl = |args: &str| run(Command::new("openssl").args(args.split(' ')).current_dir(folder));
        fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").expect("a file");
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&format!("req -x509 {key} -keyout ca.key -out ca.crt -subj /CN=authority -days 2"));
        openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"));
        openssl(
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile names",
        );
        if let Some(user) = self.user {
            user.owns(&folder.join("server.key"));
        }
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
        let settings = settings.into_iter().chain(self.settings.iter().cloned());
        args.extend(settings.flat_map(|setting| ["-c".to_owned(), setting]));
        let shell = ["-c", SHELL, "sh"].map(str::to_owned).into_iter();
        let user = self.user.into_iter().flat_map(User::options);
        let args: Vec<_> = shell.chain(user).chain([program("postgres")]).chain(args).collect();
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

    /// The certificate of the authority that its own is of, where it is [encrypted](Self::start_encrypted).
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
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

    /// Starts it again as a standby, which follows nobody.
    pub fn demote(&mut self) {
        self.stop();
        fs::write(self.data().join("standby.signal"), "").expect("a file");
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
        Self(shared::join("postgres", is_up, |pipe| {
            Postgres::new(&[]).living(Life::Pipe(pipe)).leave().to_string()
        }))
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
