//! What is particular to the Redis store. What all stores promise is in the conformance suite.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod crowds;
mod failover;
mod limits;
mod lists;
mod load;
mod locks;
mod lost;
mod many;
mod outages;
mod places;
#[expect(clippy::indexing_slicing, reason = "a wrong answer may end a test")]
mod queue_faults;
#[expect(clippy::indexing_slicing, reason = "a wrong answer may end a test")]
mod queues;
mod records;
mod rights;
mod room;
mod support;
mod trips;

use hapax_testkit::{missing, redis::PROGRAM};
use libtest_mimic::{Arguments, Completion, Trial};
use std::process::ExitCode;

/// Lists the tests of a file. One that is not listed is dead code, so none is forgotten.
macro_rules! list {
    ($area:literal, $needs:expr; $($test:ident),+ $(,)?) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![$($crate::trial(concat!($area, "::", stringify!($test)), $needs, || Box::pin($test()))),+]
        }
    };
}
pub(crate) use list;

type Test = fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// A test that shows as ignored where a program is missing.
fn trial(name: &str, needs: &'static [&'static str], test: Test) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(why) = missing(&[&[PROGRAM], needs].concat()) {
            return Ok(Completion::ignored_with(why));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(test());
        Ok(Completion::Completed)
    })
}

fn main() -> ExitCode {
    let files = [
        crowds::tests(),
        failover::tests(),
        limits::tests(),
        lists::tests(),
        load::tests(),
        locks::tests(),
        lost::tests(),
        many::tests(),
        outages::tests(),
        places::tests(),
        queue_faults::tests(),
        queues::tests(),
        records::tests(),
        rights::tests(),
        room::tests(),
        trips::tests(),
    ];
    libtest_mimic::run(&Arguments::from_args(), files.into_iter().flatten().collect()).exit_code()
}
