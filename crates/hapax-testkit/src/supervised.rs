//! A server that does not outlive its test.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// Starts the server and waits for a line, which names the signal to end it with. Where the input ends instead, the
/// test is gone: the folder goes too.
const SHELL: &str = r#"
"$@" </dev/null &
server=$!
echo "$server" >"$HAPAX_TESTKIT_PID"
if read -r signal; then
  kill -s "$signal" "$server" 2>/dev/null
  wait "$server"
else
  kill -s KILL "$server" 2>/dev/null
  wait "$server"
  rm -rf "$HAPAX_TESTKIT_FOLDER"
fi
"#;

/// A folder that is removed with the server.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("hapax-testkit-").tempdir().expect("a folder for a server")
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("the port").port()
}

/// How long a server lives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Life<'a> {
    /// As long as the test, or until it is ended.
    Test,
    /// As long as somebody holds the other end of this pipe.
    Pipe(&'a File),
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Supervised {
    shell: Child,
    is_left: bool,
    pid: PathBuf,
    log: PathBuf,
}

impl Supervised {
    /// Starts `program` in `folder`; what it says goes into `log` there.
    pub(crate) fn start(folder: &Path, name: &str, program: &str, args: &[String], life: Life<'_>) -> Self {
        let stdin = match life {
            Life::Test => Stdio::piped(),
            Life::Pipe(pipe) => pipe.try_clone().expect("the pipe").into(),
        };
        let (log, pid) = (folder.join(format!("{name}.log")), folder.join(format!("{name}.pid")));
        let out = File::options().create(true).append(true).open(&log).expect("a log");
        let err = out.try_clone().expect("the log");
        // Of the server that ran here before.
        let _ = fs::remove_file(&pid);
        let mut command = Command::new("sh");
        if let Life::Pipe(_) = life {
            // What ends the test that started it must not end it.
            command.process_group(0);
        }
        let shell = command
            .args(["-c", SHELL, "sh", program])
            .args(args)
            .env("HAPAX_TESTKIT_PID", &pid)
            .env("HAPAX_TESTKIT_FOLDER", folder)
            .current_dir(folder)
            .stdin(stdin)
            .stdout(out)
            .stderr(err)
            .spawn()
            .expect("sh starts");
        Self { shell, is_left: false, pid, log }
    }

    /// What the server said, where it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let pid: u32 = fs::read_to_string(&self.pid).ok()?.trim().parse().ok()?;
        let is_alive = Command::new("kill").args(["-0", &pid.to_string()]).stderr(Stdio::null()).status();
        (!is_alive.expect("kill starts").success()).then(|| self.log())
    }

    /// Lets it live on.
    pub(crate) fn leave(mut self) {
        self.is_left = true;
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal and goes on.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = fs::read_to_string(&self.pid).expect("the process id");
        let sent = Command::new("kill").args(["-s", signal, pid.trim()]).status().expect("kill starts");
        assert!(sent.success(), "no signal {signal}");
    }

    /// Ends the server by a signal and waits until it is gone. Its folder stays.
    pub(crate) fn end(mut self, signal: &str) {
        use std::io::Write as _;
        let mut stdin = self.shell.stdin.take().expect("a pipe");
        writeln!(stdin, "{signal}").expect("the shell reads");
        drop(stdin);
        self.shell.wait().expect("the shell ends");
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        // The end of the input ends both.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
