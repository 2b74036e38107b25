//! A worker that is never started.
#![deny(unused_must_use)]
mod shop;
use hapax::Queue;
use shop::EMAIL;

fn start(queue: &Queue) {
    queue.worker(&EMAIL, (), async |(), _job| Ok(())).concurrency(8);
}

fn main() {
    let _ = start;
}
