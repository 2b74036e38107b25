//! A verdict by hand, without the verdict.
#![deny(unused_must_use)]
use hapax::Idempotency;

fn settle(idem: &Idempotency) {
    idem.resolve("k");
}

fn main() {
    let _ = settle;
}
