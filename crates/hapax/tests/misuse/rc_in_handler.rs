//! A handler that cannot cross threads.
mod shop;
use hapax::Queue;
use shop::EMAIL;
use std::rc::Rc;

async fn start(queue: Queue) -> anyhow::Result<()> {
    let handler = async |(), _job| {
        let shared = Rc::new(1);
        tokio::task::yield_now().await;
        Ok(*shared)
    };
    let worker = queue.worker(&EMAIL, (), handler).start().await?;
    worker.stop().await;
    Ok(())
}

fn main() {
    let _ = start;
}
