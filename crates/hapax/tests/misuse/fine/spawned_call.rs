//! A call is a future that can be spawned as it is, settings and all.
use std::{convert::Infallible, time::Duration};

#[tokio::main]
async fn main() {
    let idem = hapax::Hapax::memory().idempotency("shop");
    let call = idem.run("k", &1, async || Ok::<_, Infallible>(1)).wait(Duration::from_secs(1)).detailed();
    let answer = tokio::spawn(call).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.value, 1);
}
