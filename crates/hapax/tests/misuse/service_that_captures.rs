//! A service that holds something of its own: no other could load it.
use hapax::{
    BoxError,
    service::{App, Ctx},
};

fn build(port: u16) -> App {
    App::new().boot("server", async move |_ctx: Ctx| -> Result<u16, BoxError> { Ok(port) })
}

fn main() {
    let _ = build;
}
