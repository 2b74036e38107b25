//! Examples that need a server.

#![expect(clippy::unwrap_used, reason = "tests")]

use hapax_testkit::postgres::{Postgres, missing};
use libtest_mimic::{Arguments, Completion, Trial};
use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let trial = Trial::ignorable_test("orders_commit_with_their_receipt", || {
        if let Some(why) = missing() {
            return Ok(Completion::ignored_with(why));
        }
        orders_commit_with_their_receipt();
        Ok(Completion::Completed)
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// Where cargo put the example: beside the folder of this test.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn orders_commit_with_their_receipt() {
    let server = Postgres::start();
    let example = built("orders_postgres");
    assert!(example.exists(), "not built: `cargo build -p hapax --all-features --examples`");
    // The second time everything is a replay, but what was refused.
    for _ in 0..2 {
        let output = Command::new(&example).env("DATABASE_URL", server.url()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}{err}", output.status);
        assert_eq!(out, "ordered: order 1\nthe same again: order 1\ntoo many: sold out\nleft: 1\n");
    }
}
