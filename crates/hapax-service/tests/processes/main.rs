//! Programs made of services, as processes that are signalled. They are this program, started again with the name of what it
//! should be.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests, and the programs that they start"
)]
#![cfg_attr(not(unix), allow(dead_code, unused_imports, missing_docs, reason = "there are no such signals"))]

#[cfg(unix)]
mod child;
#[cfg(unix)]
mod programs;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
mod supervisor;

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    use libtest_mimic::{Arguments, Trial};
    if let Some(name) = std::env::var_os(child::PROGRAM) {
        return programs::run(name.to_str().unwrap());
    }
    let cases: Vec<(&str, fn())> = [signals::CASES, supervisor::CASES].concat();
    let trials = cases.into_iter().map(|(name, case)| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}
