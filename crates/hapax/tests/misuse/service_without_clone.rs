//! Everybody who loads a service gets it: it is shared by cloning, in an `Arc` where it cannot be.
use hapax::{BoxError, service::Ctx};

struct Server;

async fn server(_: Ctx) -> Result<Server, BoxError> {
    Ok(Server)
}

async fn user(ctx: Ctx) -> Result<u8, BoxError> {
    ctx.load(server).await?;
    Ok(1)
}

fn main() {
    let _ = user;
}
