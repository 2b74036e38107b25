//! Postfix.

use super::{Dovecot, find, folder_of, home, is_open, maildir, missing};
use crate::{
    supervised::{Life, Supervised, free_port},
    wait,
};
use std::{fs, path::PathBuf, process::Command};
use tempfile::TempDir;

const MASTER: &[&str] = &["/usr/lib/postfix/sbin/master", "/usr/libexec/postfix/master"];

/// What it consists of, but for what listens.
const PARTS: &str = "\
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
virtual unix - n n - - virtual
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
";

/// A Postfix that delivers into a folder, and takes mail from those who log in, encrypted. It goes with the value.
#[derive(Debug)]
pub struct Postfix {
    server: Option<Supervised>,
    home: TempDir,
    port: u16,
    tls_port: u16,
    /// Knows the passwords.
    dovecot: Dovecot,
}

impl Postfix {
    /// Why it cannot be had here.
    pub fn missing() -> Option<String> {
        missing("postfix", find(MASTER).is_some(), true).or_else(Dovecot::missing)
    }

    /// Starts it, strict about lone line ends.
    pub fn start() -> Self {
        let (dovecot, home) = (Dovecot::start(), home());
        let (port, tls_port) = (free_port(), free_port());
        let master = find(MASTER).expect("postfix");
        let mut postfix = Self { server: None, home, port, tls_port, dovecot };
        let path = postfix.home.path();
        for name in ["data", "mail"] {
            folder_of("postfix", &path.join(name));
        }
        for name in ["spool", "conf"] {
            fs::create_dir(path.join(name)).expect("a folder");
        }
        let id = |flag: &str| {
            let id = Command::new("id").args([flag, "postfix"]).output().expect("id starts").stdout;
            String::from_utf8_lossy(&id).trim().to_owned()
        };
        let (here, daemons, auth) =
            (path.display(), master.parent().expect("a folder").display(), postfix.dovecot.auth());
        let settings = format!(
            "compatibility_level = 3.6\nqueue_directory = {here}/spool\ndata_directory = {here}/data\n\
             daemon_directory = {daemons}\ncommand_directory = /usr/sbin\nmail_owner = postfix\n\
             setgid_group = postdrop\ninet_protocols = ipv4\nmyhostname = mail.example\nmydestination =\n\
             alias_maps =\nalias_database =\nvirtual_mailbox_domains = example.com\n\
             virtual_mailbox_base = {here}/mail\nvirtual_mailbox_maps = static:all/\nvirtual_minimum_uid = 1\n\
             virtual_uid_maps = static:{}\nvirtual_gid_maps = static:{}\nmaillog_file = {here}/postfix.log\n\
             maillog_file_prefixes = {}\nsmtpd_tls_cert_file = {here}/server.pem\nsmtpd_tls_key_file = {here}/server.key\n\
             smtpd_tls_security_level = may\nsmtpd_tls_auth_only = yes\nsmtpd_sasl_auth_enable = yes\n\
             smtpd_sasl_type = dovecot\nsmtpd_sasl_path = {}\nsmtpd_forbid_bare_newline = yes\nsmtputf8_enable = yes\n\
             smtpd_recipient_restrictions = permit_sasl_authenticated, reject\nmessage_size_limit = 1000000\n\
             smtpd_sender_restrictions = check_sender_access inline:{{ blocked@example.com=REJECT }}\n",
            id("-u"),
            id("-g"),
            std::env::temp_dir().display(),
            auth.display(),
        );
        fs::write(path.join("conf/main.cf"), settings).expect("a file");
        let listen = format!(
            "127.0.0.1:{port} inet n - n - - smtpd\n\
             127.0.0.1:{tls_port} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes\n"
        );
        fs::write(path.join("conf/master.cf"), listen + PARTS).expect("a file");
        let conf = path.join("conf").display().to_string();
        // Makes the folders of the queue.
        let checked =
            Command::new("/usr/sbin/postfix").args(["-c", &conf, "check"]).status().expect("postfix starts");
        assert!(checked.success(), "postfix does not like its settings");
        let args = ["-c", &conf, "-d"].map(str::to_owned);
        let program = master.display().to_string();
        let mut server = Supervised::start(path, "master", &program, &args, Life::Test);
        let log = path.join("postfix.log");
        let is_up = || (is_open(port) && is_open(tls_port)).then_some(());
        let ended = || server.has_ended().map(|said| said + &fs::read_to_string(&log).unwrap_or_default());
        wait::for_value("postfix listens", is_up, ended).unwrap_or_else(|why| panic!("{why}"));
        postfix.server = Some(server);
        postfix
    }

    /// Where it takes mail, with STARTTLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it takes mail over TLS from the first byte on.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// What it delivered.
    pub fn mails(&self) -> Vec<String> {
        maildir(&self.home.path().join("mail"))
    }

    /// What it wrote down.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("postfix.log")
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // Its parts end with it.
        if let Some(server) = self.server.take() {
            server.end("TERM");
        }
    }
}
