//! None of them could be first.
use hapax::{
    BoxError,
    service::{App, Ctx},
};

async fn chicken(ctx: Ctx) -> Result<u8, BoxError> {
    Ok(ctx.load(egg).await?)
}

async fn egg(ctx: Ctx) -> Result<u8, BoxError> {
    Ok(ctx.load(chicken).await?)
}

fn main() {
    let _ = App::new().boot("chicken", chicken);
}
