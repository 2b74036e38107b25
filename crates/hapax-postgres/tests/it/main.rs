//! What is particular to the PostgreSQL store. What all stores promise is in the conformance suite.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod crowds;
mod doctor;
mod encrypted;
mod fences;
mod kills;
mod limits;
mod locks;
mod lost;
mod naming;
mod outages;
mod places;
mod queue;
mod rights;
mod settings;
mod standbys;
mod support;
mod trips;
mod versions;
mod within;

use hapax_testkit::postgres::missing_beside;
use libtest_mimic::{Arguments, Completion, Trial};
use std::process::ExitCode;

/// Lists the tests of a file. One that is not listed is dead code, so none is forgotten.
macro_rules! list {
    ($area:literal; $($test:ident),+ $(,)?) => { $crate::list!($area, &[]; $($test),+); };
    ($area:literal, $needs:expr; $($test:ident),+ $(,)?) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![$($crate::trial(concat!($area, "::", stringify!($test)), $needs, || Box::pin($test()))),+]
        }
    };
}
pub(crate) use list;

type Test = fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// A test that shows as ignored where the programs are missing.
fn trial(name: &str, needs: &'static [&'static str], test: Test) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(why) = missing_beside(needs) {
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
        doctor::tests(),
        encrypted::tests(),
        fences::tests(),
        kills::tests(),
        limits::tests(),
        locks::tests(),
        lost::tests(),
        naming::tests(),
        outages::tests(),
        places::tests(),
        queue::tests(),
        rights::tests(),
        settings::tests(),
        standbys::tests(),
        trips::tests(),
        versions::tests(),
        within::tests(),
    ];
    libtest_mimic::run(&Arguments::from_args(), files.into_iter().flatten().collect()).exit_code()
}
