//! aiosmtpd, from an environment of Python that `scripts/servers` makes.

use super::{in_cache, is_open, missing};
use crate::{
    supervised::{Life, Supervised, folder, free_port},
    wait,
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// An aiosmtpd that prints what it gets. It goes with the value.
#[derive(Debug)]
pub struct Aiosmtpd {
    _server: Supervised,
    home: TempDir,
    port: u16,
}

impl Aiosmtpd {
    /// Why it cannot be had here.
    pub fn missing() -> Option<String> {
        missing("aiosmtpd", python().is_some(), false)
    }

    /// Starts it, with SMTPUTF8 and without TLS.
    pub fn start() -> Self {
        let (home, port) = (folder(), free_port());
        let program = python().expect("aiosmtpd").display().to_string();
        let mail = home.path().join("mail").display().to_string();
        let listen = format!("127.0.0.1:{port}");
        let args = ["-m", "aiosmtpd", "-n", "-u", "-l", &listen, "-c", "aiosmtpd.handlers.Mailbox", &mail]
            .map(str::to_owned);
        let mut server = Supervised::start(home.path(), "aiosmtpd", &program, &args, Life::Test);
        let is_up = || is_open(port).then_some(());
        wait::for_value("aiosmtpd listens", is_up, || server.has_ended())
            .unwrap_or_else(|why| panic!("{why}"));
        Self { _server: server, home, port }
    }

    /// Where it takes mail.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it got.
    pub fn mails(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.home.path().join("mail/new")) else { return Vec::new() };
        entries.flatten().map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }
}

/// The Python that knows aiosmtpd and dkimpy.
pub fn python() -> Option<PathBuf> {
    in_cache("mail/bin/python")
}
