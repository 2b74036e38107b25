//! Whom a server runs as.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, chown},
    path::Path,
    process::Command,
};

/// Who runs the server where the test runs as root, which the server refuses.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    id: u32,
    group: u32,
}

impl User {
    /// The owner of the folder, and so of the test, where that is not root; else somebody else gets the folder.
    pub(super) fn of(folder: &Path) -> Option<Self> {
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
        user.owns(folder);
        Some(user)
    }

    /// Gives a file away.
    pub(super) fn owns(self, path: &Path) {
        chown(path, Some(self.id), Some(self.group)).expect("it can be given away");
    }

    /// Of `setpriv`.
    pub(super) fn options(self) -> [String; 3] {
        [format!("--reuid={}", self.id), format!("--regid={}", self.group), "--clear-groups".to_owned()]
    }

    /// The program as this user, or as ours.
    pub(super) fn command(user: Option<Self>, program: &str) -> Command {
        let Some(user) = user else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args(user.options()).arg(program);
        command
    }
}
