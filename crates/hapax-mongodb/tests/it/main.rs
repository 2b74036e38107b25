//! What is particular to the MongoDB store. What all stores promise is in the conformance suite.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod clocks;
mod concerns;
mod fake;
mod fences;
mod limits;
mod looks;
mod lost;
mod outages;
mod places;
mod support;
mod trips;
mod versions;

use hapax_testkit::mongodb::missing;
use libtest_mimic::{Arguments, Completion, Trial};
use std::process::ExitCode;

/// Lists the tests of a file. One that is not listed is dead code, so none is forgotten.
macro_rules! list {
    ($area:literal; $($test:ident),+ $(,)?) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![$($crate::trial(concat!($area, "::", stringify!($test)), || Box::pin($test()))),+]
        }
    };
}
pub(crate) use list;

type Test = fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// A test that shows as ignored where the programs are missing.
fn trial(name: &str, test: Test) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(why) = missing() {
            return Ok(Completion::ignored_with(why));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(test());
        Ok(Completion::Completed)
    })
}

fn main() -> ExitCode {
    let files = [
        clocks::tests(),
        concerns::tests(),
        fences::tests(),
        limits::tests(),
        looks::tests(),
        lost::tests(),
        outages::tests(),
        places::tests(),
        trips::tests(),
        versions::tests(),
    ];
    libtest_mimic::run(&Arguments::from_args(), files.into_iter().flatten().collect()).exit_code()
}
