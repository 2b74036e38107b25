//! Nothing runs under the lock, and the guard is dropped at once.
#![deny(unused_must_use)]
use hapax::{LockError, Locks};
use std::time::Duration;

async fn report(locks: &Locks) -> Result<(), LockError> {
    locks.with_lock("report", |_| async {});
    locks.lock("report", Duration::from_secs(1)).await?;
    Ok(())
}

fn main() {
    let _ = report;
}
