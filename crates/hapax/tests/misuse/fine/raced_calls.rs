//! `select!`, `timeout` and `join!` take calls as they are.
#![deny(unused_must_use)]
use std::{convert::Infallible, time::Duration};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let idem = hapax::Hapax::memory().idempotency("shop");
    tokio::select! {
        answer = idem.run("a", &1, async || Ok::<_, Infallible>(1)) => { answer??; }
        () = tokio::time::sleep(Duration::from_secs(60)) => anyhow::bail!("slow"),
    }
    let limit = Duration::from_secs(60);
    assert_eq!(tokio::time::timeout(limit, idem.run("a", &1, async || Ok::<_, Infallible>(2))).await???, 1);
    let (b, c) = tokio::join!(
        idem.run("b", &1, async || Ok::<_, Infallible>(2)),
        idem.run("c", &1, async || Ok::<_, Infallible>(3)),
    );
    assert_eq!((b??, c??), (2, 3));
    Ok(())
}
