//! The program that a command runs in its own place: what `once`, `lock run` and `limit run` share.

use crate::{
    child::{Ended, Input, LeaseState, NotStarted, Output as Recording, Prepared, Recorded, Spec},
    commands::Context,
    exit::Exit,
    failure::Failure,
    interrupt::Interrupts,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use hapax::protocol::LeaseView;
use nix::sys::signal::Signal;
use serde::Serialize;
use std::{ffi::OsString, time::Duration};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// With `--json`, so much of stdout, and of stderr, is put into the object.
const RECORD: usize = 64 << 10;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: OsString,
    pub(crate) args: Vec<OsString>,
}

impl Program {
    pub(crate) fn new(command: Vec<OsString>) -> Result<Self, Failure> {
        let mut words = command.into_iter();
        let name = words.next().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Failure::usage("the command to run is empty"))?;
        Ok(Self { name, args: words.collect() })
    }

    /// Runs it with these variables, for as long as the lease is held. It has the descriptors of this process, unless stdout
    /// is for an object.
    pub(crate) async fn run(
        &self,
        context: &Context,
        env: &[(&str, String)],
        lease: watch::Receiver<LeaseState>,
    ) -> Result<Ended, NotStarted> {
        let namespace = ("HAPAX_NAMESPACE", context.settings.namespace.clone());
        let env = env.iter().chain([&namespace]);
        let spec = Spec {
            program: self.name.clone(),
            args: self.args.clone(),
            env: env.map(|(name, value)| ((*name).into(), value.into())).collect(),
            stdin: Input::Inherit,
            output: if context.output.json {
                Recording::Record { limit: RECORD }
            } else {
                Recording::Inherit
            },
            timeout: None,
            foreground: true,
        };
        Prepared::start(spec)?.run(&[], lease).await
    }
}

/// From here on a signal does not end hapax: what it holds has to be given back, and it says what was run.
pub(crate) fn listen() -> Result<Interrupts, Failure> {
    Interrupts::listen().map_err(|error| {
        Failure::new(Exit::Bug, "command.internal", format!("signals cannot be heard: {error}"))
    })
}

/// A signal came before the command began.
pub(crate) fn interrupted(signal: i32) -> Failure {
    let message = format!("{} came before the command was started: nothing was run", name_of(signal));
    Failure::new(Exit::Signal(signal), "command.interrupted", message)
}

/// Something is wrong with the command. `help` says what becomes of what it was to run under.
pub(crate) fn not_started(not_started: &NotStarted, help: &str) -> Failure {
    let code = match not_started.code {
        127 => "command.not_found",
        _ => "command.not_executable",
    };
    Failure::new(Exit::Command(not_started.code), code, &not_started.reason).help(help)
}

/// `SIGTERM` for 15.
pub(crate) fn name_of(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

/// Tells the guard of a command each new deadline, and the loss, until the second is dropped.
pub(crate) fn follow(
    mut view: watch::Receiver<LeaseView>,
    length: Duration,
) -> (watch::Receiver<LeaseState>, AbortOnDropHandle<()>) {
    let state = move |view: LeaseView| LeaseState {
        until_ms: view.deadline.as_millis(),
        length,
        lost: view.lost.is_some(),
    };
    let (tell, lease) = watch::channel(state(*view.borrow_and_update()));
    let follower = tokio::spawn(async move {
        while view.changed().await.is_ok() {
            tell.send_replace(state(*view.borrow_and_update()));
        }
    });
    (lease, AbortOnDropHandle::new(follower))
}

/// As text; where it is none, nearly so, and in base64.
pub(crate) fn of_bytes(bytes: &[u8]) -> (String, Option<String>) {
    match str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(BASE64_STANDARD.encode(bytes))),
    }
}

/// What was written, for the object of `--json`. The names of its fields are stable.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Written {
    stdout: String,
    stderr: String,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
}

impl Written {
    pub(crate) fn of(stdout: &Recorded, stderr: &Recorded) -> Self {
        let truncated = stdout.is_cut() || stderr.is_cut();
        let (stdout, stdout_base64) = of_bytes(&stdout.head);
        let (stderr, stderr_base64) = of_bytes(&stderr.head);
        Self { stdout, stderr, truncated, stdout_base64, stderr_base64 }
    }
}
