//! What could not be stored is overlooked.
#![deny(unused_must_use)]
use hapax::Hapax;

async fn end(hapax: &Hapax) {
    hapax.close().await;
}

fn main() {
    let _ = end;
}
