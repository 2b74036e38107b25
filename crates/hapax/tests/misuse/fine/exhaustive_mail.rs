//! Three outcomes, and a type for those who want `?`.
#![deny(unused_must_use)]
use hapax::mail::{Mailer, Message, Outcome, Stub};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let idem = hapax::Hapax::memory().idempotency("shop");
    let mailer = Mailer::via(Stub::new()).idempotent(&idem).build()?;
    let builder = Message::builder().from("a@example.com").to("b@example.com").subject("hi").text("hi");
    let message = builder.idempotency_key("k").build()?;
    match mailer.send(&message).await.outcome {
        Outcome::Accepted => {}
        Outcome::Failed(failure) | Outcome::Unknown(failure) => anyhow::bail!("{failure}"),
    }
    assert!(mailer.send(&message).await.into_result()?.replayed);
    let again = mailer.clone();
    tokio::spawn(async move { again.send(&message).await.into_result() }).await??;
    Ok(())
}
