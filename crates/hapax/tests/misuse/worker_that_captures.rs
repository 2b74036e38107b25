//! A handler that takes along what it should be given as state.
mod shop;
use hapax::{Idempotency, Queue};
use shop::EMAIL;

async fn start(queue: Queue, idem: Idempotency) -> anyhow::Result<()> {
    let handler = async move |(), job: hapax::Job<shop::EmailJob>| {
        idem.get(job.key()).await?;
        Ok(())
    };
    let worker = queue.worker(&EMAIL, (), handler).start().await?;
    worker.stop().await;
    Ok(())
}

fn main() {
    let _ = start;
}
