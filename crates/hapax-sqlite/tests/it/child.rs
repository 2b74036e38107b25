//! This test binary as another process.

use crate::{
    queue,
    support::{complete, file_in_env, is_yours, open, raw, reserve},
};
use hapax_core::idempotency::IdempotencyStore;
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

const ROLE: &str = "HAPAX_TEST_ROLE";
const PATH: &str = "HAPAX_TEST_PATH";
const MARK: &str = "child says: ";

/// A process with a role, which begins when told.
pub(crate) struct Process {
    child: Child,
    /// What it says. A thread listens all the time: one who says much must not wait for the test to do so.
    said: Receiver<String>,
}

impl Process {
    pub(crate) fn new(role: &str, path: &Path) -> Self {
        Self::spawn(&mut Self::command(role, path))
    }

    pub(crate) fn command(role: &str, path: &Path) -> Command {
        Self::command_of(&std::env::current_exe().unwrap(), role, path)
    }

    pub(crate) fn command_of(program: &Path, role: &str, path: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["child::plays_its_role", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(PATH, path).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (to, said) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap() > 0 {
                // The test harness of the child may have begun the line.
                if line.ends_with('\n')
                    && let Some((_, said)) = line.trim_end().split_once(MARK)
                    && to.send(said.to_owned()).is_err()
                {
                    return;
                }
                line.clear();
            }
        });
        Self { child, said }
    }

    pub(crate) fn begin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// The next thing it says; none when it has ended.
    pub(crate) fn hear(&self) -> Option<String> {
        self.said.recv().ok()
    }

    /// SIGKILL. Answers what it said before.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.hear()).collect()
    }

    pub(crate) fn end(mut self) -> Vec<String> {
        let said = self.said.iter().collect();
        self.child.wait().unwrap();
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already, most times.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{MARK}{text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn wait_for_end_of_input() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
#[ignore = "run by other tests, as another process"]
fn plays_its_role() {
    let (role, path) = (std::env::var(ROLE).unwrap(), file_in_env(PATH));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match role.as_str() {
        "reserve one key" => {
            wait_for_end_of_input();
            runtime.block_on(async {
                let answer = match hapax_sqlite_open(&path).await {
                    Ok(store) => store.reserve(&reserve("one")).await,
                    Err(error) => Err(error),
                };
                say(&match answer {
                    Ok(answer) if is_yours(&answer) => "yours".to_owned(),
                    Ok(_) => "held".to_owned(),
                    Err(error) => format!("{error}: {:?}", std::error::Error::source(&error)),
                });
            });
        }
        "open" => runtime.block_on(async {
            say(&match hapax_sqlite_open(&path).await {
                Ok(_) => "opened".to_owned(),
                Err(error) => format!("{:?}: {error}", error.kind()),
            });
        }),
        "hold a transaction" => {
            let conn = raw(&path);
            conn.execute_batch(
                "BEGIN IMMEDIATE; DELETE FROM hapax_idempotency; INSERT INTO hapax_meta VALUES ('half', 1)",
            )
            .unwrap();
            say("held");
            wait_for_end_of_input();
        }
        "settle keys" => runtime.block_on(async {
            let store = open(&path).await;
            for n in 0.. {
                let req = reserve(&format!("{}-{n}", std::process::id()));
                assert!(is_yours(&store.reserve(&req).await.unwrap()));
                let _ = store.complete(&complete(&req)).await.unwrap();
                say(req.name.key());
            }
        }),
        // Leases that nobody lives to see the end of, and such that the next process soon takes over.
        "work" | "work briefly" => {
            wait_for_end_of_input();
            let lease = if role == "work" { Duration::from_mins(1) } else { Duration::from_millis(150) };
            runtime.block_on(async { queue::work(&open(&path).await, lease, say).await });
        }
        "keep a secret" => {
            wait_for_end_of_input();
            let secret = runtime.block_on(async { open(&path).await.secret().await.unwrap().unwrap() });
            say(&format!("{secret:?}"));
        }
        other => unreachable!("no role {other}"),
    }
}

async fn hapax_sqlite_open(path: &Path) -> hapax_core::StoreResult<hapax_sqlite::SqliteStore> {
    let clock = std::sync::Arc::new(hapax_core::SystemClock);
    hapax_sqlite::SqliteStore::open(hapax_sqlite::SqliteOptions::new(path), clock).await
}
