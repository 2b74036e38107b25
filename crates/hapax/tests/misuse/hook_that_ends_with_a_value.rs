//! Whether that was a failure, nobody knows.
use hapax::{BoxError, service::Ctx};

async fn server(ctx: Ctx) -> Result<u8, BoxError> {
    ctx.on_stop(async || -> bool { false });
    Ok(1)
}

fn main() {
    let _ = server;
}
