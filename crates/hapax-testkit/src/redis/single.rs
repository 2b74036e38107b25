//! One server.

use super::{PROGRAM, ask};
use crate::{
    supervised::{Life, Supervised, folder, free_port},
    wait,
};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A `redis-server` that ends with its test.
#[derive(Debug)]
pub struct Redis {
    server: Option<Supervised>,
    folder: TempDir,
    options: Vec<String>,
    port: u16,
}

impl Redis {
    /// With an append-only file, so that it keeps its data over a [`restart`](Self::restart).
    pub fn start() -> Self {
        Self::with(&["--appendonly", "yes", "--appendfsync", "no"])
    }

    /// With options of the command line.
    pub fn with(options: &[&str]) -> Self {
        Self::living(folder(), options, Life::Test)
    }

    /// Lives as long as a pipe.
    pub(crate) fn by(pipe: &std::fs::File, options: &[&str]) -> Self {
        Self::living(folder(), options, Life::Pipe(pipe))
    }

    /// Lets it live on; where it listens.
    pub(crate) fn leave(self) -> u16 {
        let _ = self.folder.keep();
        if let Some(server) = self.server {
            server.leave();
        }
        self.port
    }

    /// In a folder that holds files for the options: `FOLDER` in them is its path.
    pub fn beside(folder: TempDir, options: &[&str]) -> Self {
        Self::living(folder, options, Life::Test)
    }

    fn living(folder: TempDir, options: &[&str], life: Life<'_>) -> Self {
        let path = folder.path().display().to_string();
        let options = options.iter().map(|option| option.replace("FOLDER", &path)).collect();
        let mut redis = Self { server: None, folder, options, port: 0 };
        // Another program may take the port before the server does.
        for _ in 0..10 {
            redis.port = free_port();
            match redis.try_start(life) {
                Ok(()) => return redis,
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("{PROGRAM} did not start:\n{log}"),
            }
        }
        panic!("no port is free for {PROGRAM}")
    }

    fn try_start(&mut self, life: Life<'_>) -> Result<(), String> {
        let mut args: Vec<String> = ["--bind", "127.0.0.1", "--save", "", "--unixsocket", "redis.sock"]
            .into_iter()
            .chain(["--repl-diskless-sync-delay", "0"])
            .map(str::to_owned)
            .collect();
        args.extend(["--dir".to_owned(), self.folder.path().display().to_string()]);
        // With TLS there is a port of its own, and none without.
        let is_tls = self.options.iter().any(|option| option == "--tls-cert-file");
        let port = if is_tls { "--tls-port" } else { "--port" };
        args.extend([port.to_owned(), self.port.to_string()]);
        if is_tls {
            args.extend(["--port".to_owned(), "0".to_owned()]);
        }
        args.extend(self.options.iter().cloned());
        let mut server = Supervised::start(self.folder.path(), "redis", PROGRAM, &args, life);
        let (port, socket) = (self.port, self.socket());
        wait::for_value(
            "redis-server answers",
            || is_up(port, &socket, is_tls).then_some(()),
            || server.has_ended(),
        )?;
        self.server = Some(server);
        Ok(())
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens too.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        self.server.as_ref().map(Supervised::log).unwrap_or_default()
    }

    /// Ends it in order, so that its data is on the disk.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.end("TERM");
        }
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
            panic!("{PROGRAM} did not start again:\n{log}");
        }
    }

    /// [`stop`](Self::stop) and [`start_again`](Self::start_again).
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Stops its process, or lets it go on: `STOP`, `CONT`.
    pub fn signal(&self, signal: &str) {
        if let Some(server) = &self.server {
            server.signal(signal);
        }
    }

    /// Sends one command, written as one line; the first part of the answer as it comes over the wire.
    pub fn ask(&self, line: &str) -> String {
        ask(self.port, line).unwrap_or_default()
    }
}

/// It answers, whatever it says. Behind TLS its socket is asked for.
fn is_up(port: u16, socket: &Path, is_tls: bool) -> bool {
    if is_tls {
        return std::os::unix::net::UnixStream::connect(socket).is_ok();
    }
    ask(port, "PING").is_some_and(|answer| !answer.is_empty() && !answer.starts_with("-LOADING"))
}
