//! A lock: one report at a time, and nobody writes whose time is over. `cargo run -p hapax --example lock`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use hapax::{Hapax, LockError};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A place that remembers the largest fence it has seen, and refuses a smaller one.
#[derive(Clone, Default)]
struct Archive(Arc<Mutex<(u64, Vec<String>)>>);

impl Archive {
    fn write(&self, fence: u64, report: &str) -> anyhow::Result<()> {
        let mut archive = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(fence >= archive.0, "a newer holder has written");
        *archive = (fence, [archive.1.as_slice(), &[report.to_owned()]].concat());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let hapax = Hapax::memory();
    let (locks, archive) = (hapax.locks(), Archive::default());

    // The first `?` is for the lock, the second for the work.
    locks
        .with_lock("report:2026-01", |lock| {
            let archive = archive.clone();
            async move {
                tokio::select! {
                    written = async { archive.write(lock.fence().get(), "January") } => written,
                    cause = lock.lost() => Err(anyhow::anyhow!("lost: {cause:?}")),
                }
            }
        })
        .ttl(Duration::from_secs(30))
        .wait(Duration::from_secs(5))
        .await??;
    println!("written");

    let Some(guard) = locks.try_lock("report:2026-02").await? else { return Ok(()) };
    match locks.with_lock("report:2026-02", async |_| println!("two at once")).await {
        Err(LockError::Busy { retry_after, .. }) => println!("busy for up to {} s", retry_after.as_secs()),
        other => other?,
    }

    // Somebody takes it away; the holder's next write is refused where fences are compared.
    locks.break_lock("report:2026-02").await?;
    let next = locks.lock("report:2026-02", Duration::from_secs(1)).await?;
    archive.write(next.fence().get(), "February")?;
    let late = archive.write(guard.fence().get(), "February, late");
    println!("late: {}", late.map_or_else(|error| error.to_string(), |()| "written".to_owned()));
    next.release().await?;
    match guard.release().await {
        Err(LockError::Lost { cause, .. }) => println!("lost: {cause:?}"),
        other => other?,
    }
    let closed = hapax.close().await;
    anyhow::ensure!(closed.is_clean(), "{closed:?}");
    Ok(())
}
