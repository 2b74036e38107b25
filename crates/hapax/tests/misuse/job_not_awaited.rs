//! A job that is never added.
#![deny(unused_must_use)]
mod shop;
use hapax::Queue;
use shop::{EMAIL, EmailJob};

fn add(queue: &Queue, job: &EmailJob) {
    queue.add(&EMAIL, job).job_id("welcome:ada");
}

fn main() {
    let _ = add;
}
