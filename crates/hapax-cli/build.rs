//! How the command is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HAPAX_PIE");
    let is = |name, wanted| env::var(name).is_ok_and(|value| value == wanted);
    let on_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // At a fixed address there is nothing to relocate: `hapax once` starts this program three times, and each start would
    // write 27,000 addresses to a hundred pages. Libraries, heap and stack still lie at random.
    if on_glibc && is("PROFILE", "release") && !is("HAPAX_PIE", "1") {
        println!("cargo::rustc-link-arg-bin=hapax=-no-pie");
    }
}
