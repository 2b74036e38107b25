//! Running a program under a lease: the module as the command has it, with the real binary as its helpers.

#[allow(dead_code, unused_imports, unreachable_pub, reason = "the binary uses all of it")]
#[path = "../../../src/child/mod.rs"]
mod product;

mod driver;
mod ends;
mod leases;
pub(crate) mod processes;
mod streams;
pub(crate) mod terminal;

use product::{Ended, Input, LeaseState, NotStarted, Output, Spec};
use std::time::Duration;
use tokio::sync::watch;

/// Far more than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);
const LIMIT: usize = 64 << 10;

/// `/bin/sh -c SCRIPT`, recorded.
fn sh(script: &str) -> Spec {
    command("/bin/sh", &["-c", script])
}

fn command(program: &str, args: &[&str]) -> Spec {
    Spec {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: Vec::new(),
        stdin: Input::Null,
        output: Output::Record { limit: LIMIT },
        timeout: None,
        foreground: false,
    }
}

/// A lease that begins now. Keep the sender: it renews.
fn lease(length: Duration) -> (watch::Sender<LeaseState>, watch::Receiver<LeaseState>) {
    watch::channel(from_now(length))
}

fn from_now(length: Duration) -> LeaseState {
    LeaseState::held(product::now_ms() + u64::try_from(length.as_millis()).unwrap(), length)
}

/// Runs under a lease that outlives every test.
async fn run(spec: Spec) -> Result<Ended, NotStarted> {
    let (_renewer, lease) = lease(Duration::from_mins(10));
    within(product::run(spec, lease)).await
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

/// Looks until it is so.
async fn until(mut so: impl FnMut() -> bool) {
    let look = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(look).await;
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
