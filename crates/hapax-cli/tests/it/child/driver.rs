//! A process that runs a program, to be killed, frozen, signalled and put into a terminal: this test binary again.

use super::{
    LIMIT, from_now, lease, product,
    product::{Input, Output},
    sh,
};
use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const LENGTH: &str = "DRIVER_LEASE_MS";
const SCRIPT: &str = "DRIVER_SCRIPT";
const FOLDER: &str = "DIR";
const RENEW: &str = "DRIVER_RENEW";
const UNTOUCHED: &str = "DRIVER_UNTOUCHED";

/// The driver, and where it leaves its traces.
pub(super) struct Driver {
    folder: TempDir,
    env: HashMap<&'static str, String>,
}

impl Driver {
    /// Runs a script. `$DIR` in it is a folder for its files.
    pub(super) fn new(script: &str, length: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        let env = HashMap::from([
            (FOLDER, path),
            (SCRIPT, script.to_owned()),
            (LENGTH, length.as_millis().to_string()),
        ]);
        Self { folder, env }
    }

    /// The lease is renewed at each third.
    pub(super) fn renewed(mut self) -> Self {
        self.env.insert(RENEW, "yes".into());
        self
    }

    /// The output is passed through, not copied.
    pub(super) fn untouched(mut self) -> Self {
        self.env.insert(UNTOUCHED, "yes".into());
        self
    }

    /// A file of the script.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A number that the script wrote to a file.
    pub(super) fn number(&self, name: &str) -> Option<i32> {
        super::processes::number_in(&self.file(name))
    }

    /// How the run ended.
    pub(super) fn result(&self) -> Option<String> {
        fs::read_to_string(self.file("result")).ok()?.strip_suffix('\n').map(str::to_owned)
    }

    /// What is in the environment of every process that comes of it, and of no other.
    pub(super) fn mark(&self) -> String {
        format!("{FOLDER}={}", self.folder.path().display())
    }

    /// Ready to be spawned.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child::driver::drive", "--ignored", "--nocapture"]).envs(&self.env);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// As a line for a shell.
    pub(super) fn line(&self) -> String {
        let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let env: Vec<_> = self.env.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect();
        let exe = std::env::current_exe().unwrap();
        let exe = quote(exe.to_str().unwrap());
        format!("{} {exe} --exact child::driver::drive --ignored --nocapture", env.join(" "))
    }
}

#[tokio::test]
#[ignore = "a process for other tests"]
async fn drive() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let length = Duration::from_millis(std::env::var(LENGTH).unwrap().parse().unwrap());
    let (renewer, lease) = lease(length);
    if std::env::var(RENEW).is_ok() {
        tokio::spawn(async move {
            let mut thirds = tokio::time::interval(length / 3);
            loop {
                thirds.tick().await;
                renewer.send_replace(from_now(length));
            }
        });
    }
    let mut spec = sh(&script);
    (spec.stdin, spec.output, spec.foreground) = (Input::Inherit, Output::Copy { limit: LIMIT }, true);
    if std::env::var(UNTOUCHED).is_ok() {
        spec.output = Output::Inherit;
    }
    let ended = product::run(spec, lease).await.unwrap();
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    fs::write(folder.join("ended"), ended.stdout.total.to_string() + "\n").unwrap();
    let result = format!("{:?} {:?} {:?}\n", ended.exit, ended.by, ended.passed_on);
    ended.copied.wait().await;
    // Whole or not at all.
    fs::write(folder.join("result.new"), result).unwrap();
    fs::rename(folder.join("result.new"), folder.join("result")).unwrap();
}
