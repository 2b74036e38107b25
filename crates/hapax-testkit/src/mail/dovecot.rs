//! Dovecot: LMTP, and passwords for others.

use super::{PASSWORD, find, folder_of, home, is_open, maildir, missing};
use crate::{
    supervised::{Life, Supervised, free_port},
    wait,
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

const PROGRAM: &str = "/usr/sbin/dovecot";

/// A Dovecot that delivers into a folder. It goes with the value.
#[derive(Debug)]
pub struct Dovecot {
    server: Option<Supervised>,
    home: TempDir,
    port: u16,
}

impl Dovecot {
    /// Why it cannot be had here.
    pub fn missing() -> Option<String> {
        let lmtp = find(&["/usr/lib/dovecot/lmtp", "/usr/libexec/dovecot/lmtp"]);
        missing("dovecot with LMTP", find(&[PROGRAM]).and(lmtp).is_some(), true)
    }

    /// Starts it.
    pub fn start() -> Self {
        let home = home();
        let mut dovecot = Self { server: None, home, port: free_port() };
        folder_of("dovecot", &dovecot.mail());
        let path = dovecot.home.path();
        let (here, port) = (path.display(), dovecot.port);
        let settings = format!(
            "base_dir = {here}/run\nstate_dir = {here}/state\nlog_path = {here}/dovecot.log\nprotocols = lmtp\n\
             listen = 127.0.0.1\nssl = yes\nssl_cert = <{here}/server.pem\nssl_key = <{here}/server.key\n\
             mail_location = maildir:{here}/mail/%u\nfirst_valid_uid = 1\nauth_mechanisms = plain login\n\
             passdb {{\n driver = static\n args = password={PASSWORD}\n}}\n\
             userdb {{\n driver = static\n args = uid=dovecot gid=dovecot home={here}/mail/%u allow_all_users=yes\n}}\n\
             service auth {{\n unix_listener {here}/auth {{\n mode = 0666\n }}\n}}\n\
             service lmtp {{\n inet_listener lmtp {{\n address = 127.0.0.1\n port = {port}\n }}\n \
             unix_listener {here}/lmtp {{\n mode = 0666\n }}\n}}\n"
        );
        let file = path.join("dovecot.conf");
        fs::write(&file, settings).expect("a file");
        let args = ["-F", "-c", &file.display().to_string()].map(str::to_owned);
        let mut server = Supervised::start(path, "dovecot", PROGRAM, &args, Life::Test);
        let is_up = || is_open(port).then_some(());
        let log = path.join("dovecot.log");
        let ended = || server.has_ended().map(|said| said + &fs::read_to_string(&log).unwrap_or_default());
        wait::for_value("dovecot listens", is_up, ended).unwrap_or_else(|why| panic!("{why}"));
        dovecot.server = Some(server);
        dovecot
    }

    /// Where it takes LMTP; it offers STARTTLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The same as a socket of this machine.
    pub fn socket(&self) -> PathBuf {
        self.home.path().join("lmtp")
    }

    /// Where it answers who may log in.
    pub(super) fn auth(&self) -> PathBuf {
        self.home.path().join("auth")
    }

    fn mail(&self) -> PathBuf {
        self.home.path().join("mail")
    }

    /// What it delivered.
    pub fn mails(&self) -> Vec<String> {
        maildir(&self.mail())
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        // Its parts end with it.
        if let Some(server) = self.server.take() {
            server.end("TERM");
        }
    }
}
