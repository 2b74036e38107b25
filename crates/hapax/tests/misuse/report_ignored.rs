//! Nothing runs, or the exit code is lost.
#![deny(unused_must_use)]
use hapax::{
    BoxError,
    service::{App, Ctx},
};

async fn server(_: Ctx) -> Result<u8, BoxError> {
    Ok(1)
}

async fn start() {
    App::new().boot("server", server);
    App::new().boot("server", server).run();
    App::new().boot("server", server).run().await;
}

fn main() {
    let _ = start;
}
