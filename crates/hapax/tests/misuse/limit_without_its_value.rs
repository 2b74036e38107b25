//! A template names what is no argument, and another has an argument that it does not name.
use hapax::{Quota, define_limit};
use std::{net::IpAddr, time::Duration};

define_limit! {
    fn by_user(user: &str) = "login:{name:string}", Quota::fixed_window(5, Duration::from_secs(1));
    fn by_ip(ip: IpAddr) = "login", Quota::fixed_window(5, Duration::from_secs(1));
}

fn main() {
    let address = IpAddr::from([127, 0, 0, 1]);
    let _ = (by_user("ada"), by_ip(address));
}
