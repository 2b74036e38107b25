//! A worker that outlives what it borrows.
mod shop;
use hapax::Queue;
use shop::EMAIL;

async fn start(queue: Queue) -> anyhow::Result<()> {
    let greeting = String::from("hello");
    let worker = queue.worker(&EMAIL, &greeting, async |greeting, _job| Ok(greeting.len())).start().await?;
    worker.stop().await;
    Ok(())
}

fn main() {
    let _ = start;
}
