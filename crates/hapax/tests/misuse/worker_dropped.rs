//! A worker that ends as soon as it has begun.
#![deny(unused_must_use)]
mod shop;
use hapax::Queue;
use shop::EMAIL;

async fn start(queue: Queue) -> anyhow::Result<()> {
    queue.worker(&EMAIL, (), async |(), _job| Ok(())).start().await?;
    Ok(())
}

fn main() {
    let _ = start;
}
