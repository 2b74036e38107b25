//! Everybody passes.
#![deny(unused_must_use)]
use hapax::{Limit, LimitError, RateLimiter};

async fn login(limits: &RateLimiter, limit: Limit) -> Result<(), LimitError> {
    limits.require(limit.clone());
    limits.check(limit).await?;
    Ok(())
}

fn main() {
    let _ = login;
}
