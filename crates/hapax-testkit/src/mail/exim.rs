//! Exim.

use super::{PASSWORD, USER, find, home, in_cache, is_open, missing};
use crate::{
    supervised::{Life, Supervised, free_port},
    wait,
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// An Exim that keeps what it takes in its queue. It goes with the value.
#[derive(Debug)]
pub struct Exim {
    server: Option<Supervised>,
    home: TempDir,
    port: u16,
}

fn program() -> Option<PathBuf> {
    find(&["/usr/sbin/exim4", "/usr/sbin/exim"]).or_else(|| in_cache("exim/usr/sbin/exim4"))
}

impl Exim {
    /// Why it cannot be had here.
    pub fn missing() -> Option<String> {
        missing("exim4", program().is_some(), true)
    }

    /// Starts it: only who logs in, encrypted, may send, and nobody to `nobody@example.com`.
    pub fn start() -> Self {
        let mut exim = Self { server: None, home: home(), port: free_port() };
        let path = exim.home.path();
        for name in ["spool", "log"] {
            fs::create_dir(path.join(name)).expect("a folder");
        }
        let (here, port) = (path.display(), exim.port);
        let settings = format!(
            "exim_user = root\nexim_group = root\nkeep_environment =\nqueue_only\nprimary_hostname = mail.example\n\
             spool_directory = {here}/spool\nlog_file_path = {here}/log/%slog\ntls_certificate = {here}/server.pem\n\
             tls_privatekey = {here}/server.key\ntls_advertise_hosts = *\nsmtputf8_advertise_hosts = *\n\
             auth_advertise_hosts = ${{if def:tls_in_cipher {{*}}}}\ndaemon_smtp_ports = {port}\n\
             local_interfaces = 127.0.0.1\nacl_smtp_rcpt = rcpt\nacl_smtp_data = data\nbegin acl\n\
             rcpt:\n deny !authenticated = *\n message = log in first\n\
             deny local_parts = nobody\n message = no such user\n accept\n\
             data:\n accept\nbegin routers\nbegin transports\nbegin authenticators\n\
             plain:\n driver = plaintext\n public_name = PLAIN\n server_prompts = :\n\
             server_condition = ${{if and{{{{eq{{$auth2}}{{{USER}}}}}{{eq{{$auth3}}{{{PASSWORD}}}}}}}}}\n\
             login:\n driver = plaintext\n public_name = LOGIN\n server_prompts = Username:: : Password::\n\
             server_condition = ${{if and{{{{eq{{$auth1}}{{{USER}}}}}{{eq{{$auth2}}{{{PASSWORD}}}}}}}}}\n"
        );
        let file = path.join("exim.conf");
        fs::write(&file, settings).expect("a file");
        let pid = path.join("exim.own-pid").display().to_string();
        let args = ["-C", &file.display().to_string(), "-bdf", "-q1h", "-oP", &pid].map(str::to_owned);
        let program = program().expect("exim4").display().to_string();
        let mut server = Supervised::start(path, "exim", &program, &args, Life::Test);
        let is_up = || is_open(port).then_some(());
        wait::for_value("exim listens", is_up, || server.has_ended()).unwrap_or_else(|why| panic!("{why}"));
        exim.server = Some(server);
        exim
    }

    /// Where it takes mail, with STARTTLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it took: for each mail the file with its envelope and header, and the one with its body.
    pub fn mails(&self) -> Vec<String> {
        let input = self.home.path().join("spool/input");
        let Ok(entries) = fs::read_dir(&input) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let ids: Vec<String> = names.filter_map(|name| name.strip_suffix("-H").map(str::to_owned)).collect();
        let read =
            |id: &str, part: &str| fs::read_to_string(input.join(format!("{id}-{part}"))).unwrap_or_default();
        ids.iter().map(|id| read(id, "H") + &read(id, "D")).collect()
    }
}

impl Drop for Exim {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.end("TERM");
        }
    }
}
