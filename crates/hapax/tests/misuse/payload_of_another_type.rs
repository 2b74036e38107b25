//! A payload that is none of the queue's.
mod shop;
use hapax::Queue;
use shop::EMAIL;

async fn add(queue: Queue) -> anyhow::Result<()> {
    queue.add(&EMAIL, &"ada").await?;
    Ok(())
}

fn main() {
    let _ = add;
}
