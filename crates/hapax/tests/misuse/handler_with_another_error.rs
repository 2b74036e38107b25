//! A handler whose error says nothing about its job.
mod shop;
use hapax::{Job, Queue};
use shop::{EMAIL, EmailJob, BankError};

async fn handler((): (), _job: Job<EmailJob>) -> Result<(), BankError> {
    Ok(())
}

async fn start(queue: Queue) -> anyhow::Result<()> {
    let worker = queue.worker(&EMAIL, (), handler).start().await?;
    worker.stop().await;
    Ok(())
}

fn main() {
    let _ = start;
}
