//! Real mail servers: Postfix with the passwords of Dovecot, Dovecot's LMTP, Exim, and aiosmtpd; and moto, which stands in for Amazon
//! SES.
//!
//! Each server has the certificate of [`smtp::authority`](crate::smtp::authority), knows the user `ada` with the password `s3cret`, and
//! takes mail for `example.com`. All but aiosmtpd are started by root alone, which they need to be.

mod aiosmtpd;
mod dovecot;
mod exim;
mod moto;
mod postfix;

pub use self::{
    aiosmtpd::{Aiosmtpd, python},
    dovecot::Dovecot,
    exim::Exim,
    moto::Moto,
    postfix::Postfix,
};

use crate::supervised::folder;
use std::{
    env, fs,
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// The user that every server knows.
pub const USER: &str = "ada";
/// Its password.
pub const PASSWORD: &str = "s3cret";

const CERTIFICATE: &str = include_str!("smtp/server.pem");
const KEY: &str = include_str!("smtp/server.key");

/// Why tests that need a program cannot run here; none where they can, and always none with `CI` set.
fn missing(program: &str, is_found: bool, needs_root: bool) -> Option<String> {
    if env::var_os("CI").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    if !is_found {
        return Some(format!("not installed: {program} (`scripts/servers`)"));
    }
    (needs_root && !is_root()).then(|| format!("{program} has to be started by root"))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// The first of these that is there.
fn find(places: &[&str]) -> Option<PathBuf> {
    places.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// What `scripts/servers` put into the cache.
fn in_cache(path: &str) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("hapax").join(path)).filter(|path| path.is_file())
}

/// A folder with certificate and key, which the users of servers may enter.
fn home() -> TempDir {
    let home = folder();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("a folder");
    for (name, text) in [("server.pem", CERTIFICATE), ("server.key", KEY)] {
        fs::write(home.path().join(name), text).expect("a file");
    }
    home
}

/// A folder that belongs to that user.
fn folder_of(user: &str, path: &Path) {
    fs::create_dir_all(path).expect("a folder");
    let owned = Command::new("chown").arg(user).arg(path).status().expect("chown starts");
    assert!(owned.success(), "no folder for {user}");
}

fn is_open(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The mails in folders of the form maildir, wherever below.
fn maildir(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(maildir(&path));
        } else if path.parent().is_some_and(|parent| parent.ends_with("new")) {
            found.push(fs::read_to_string(&path).unwrap_or_default());
        }
    }
    found
}
