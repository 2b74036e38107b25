//! `hapax mail`: the real command on real files.

mod bad_input;
mod eml;
mod keys;
mod kills;
mod mail_servers;
mod others;
mod outages;
mod providers;
mod queued;
mod report;
mod send;
mod table;
mod terminal;

use crate::sandbox::{Ran, Sandbox};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Stdio},
};

/// A line for the file, with a key of its own.
fn line(n: usize) -> String {
    format!(
        r#"{{"from":"Shop <shop@example.com>","to":"user{n}@example.com","subject":"Mail {n}","text":"Hello {n}.","idempotency_key":"mail:{n}"}}"#
    )
}

fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |mut all, n| {
        let _ = writeln!(all, "{}", line(n));
        all
    })
}

/// `hapax mail send` with these arguments.
fn send(sandbox: &Sandbox, args: &[&str]) -> Ran {
    sandbox.hapax(&[&["mail", "send"], args].concat())
}

/// The same, with that on its standard input.
fn send_stdin(sandbox: &Sandbox, args: &[&str], stdin: &[u8]) -> Ran {
    let mut child =
        sandbox.command(&[&["mail", "send"], args].concat()).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    end(child)
}

fn end(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}

/// The mails in a folder; hidden files are not among them.
fn mails(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| !name.starts_with('.'));
    names.map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect()
}

/// The mails that are there for each `To`, each of which may be there once.
fn recipients(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for mail in mails(folder) {
        let to = mail.lines().find_map(|line| line.strip_prefix("To: ")).unwrap().to_owned();
        assert!(all.insert(to.clone()), "two mails to {to}");
    }
    all
}

/// The counts in the last line.
#[track_caller]
fn counts(ran: &Ran, expected: &str) {
    assert_eq!(ran.stderr.lines().last(), Some(expected), "{ran:?}");
}
