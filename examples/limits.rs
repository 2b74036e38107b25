//! Rate limits of a login page. `cargo run -p hapax --example limits`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use hapax::{
    Coded, Hapax, LimitError, Quota, Secret, define_limit,
    limit::headers::{Legacy, headers},
};
use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

const MINUTE: Duration = Duration::from_mins(1);

define_limit! {
    /// Five tries a minute from one address.
    fn login_by_ip(ip: IpAddr) = "login:{ip:ip}", Quota::sliding_window(5, MINUTE);
    /// Ten an hour for one user, whose name stays here.
    fn login_by_user(user: Secret<&str>) = "login:{user:secret}", Quota::token_bucket(10, Duration::from_hours(1));
    fn site() = "site", Quota::sliding_counter(100_000, MINUTE);
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let hapax = Hapax::memory();
    let limits = hapax.limits();
    let ip = IpAddr::from(Ipv4Addr::new(203, 0, 113, 7));

    // One decision: a try counts for all three, or for none.
    for _ in 0..5 {
        let permit = limits.require_all([login_by_ip(ip), login_by_user(Secret("ada")), site()]).await?;
        println!("{} left", permit.decision().remaining());
    }
    match limits.require_all([login_by_ip(ip), login_by_user(Secret("ada")), site()]).await {
        Err(LimitError::Limited(decision)) => {
            println!("no: {}", decision.violated().collect::<Vec<_>>().join(", "));
            for (name, value) in headers(&decision, Legacy::None) {
                println!("{name}: {value}");
            }
        }
        other => drop(other?),
    }

    let decision = limits.check(login_by_user(Secret("ada"))).cost(3).dry_run().await?;
    println!("three more for ada: {}, {} left then", decision.allowed(), decision.remaining());
    let never = limits.require(login_by_user(Secret("ada"))).cost(11).await;
    println!("eleven: {}", never.map_or_else(|error| error.code(), |_| "allowed"));
    Ok(())
}
