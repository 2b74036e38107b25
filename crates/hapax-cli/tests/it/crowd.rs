//! Many processes on one key.

use crate::sandbox::{Ran, Sandbox};

#[test]
fn one_of_a_hundred_processes_runs() {
    let sandbox = Sandbox::new();
    // The store is made in the same rush.
    let start = |_| sandbox.sh_command(&["once", "k"], "echo x >> ran; echo out; sleep 0.5").spawn().unwrap();
    let calls: Vec<_> = (0..100).map(start).collect();
    let ended: Vec<_> = calls.into_iter().map(|call| Ran::of(call.wait_with_output().unwrap())).collect();
    for ran in &ended {
        match ran.code {
            0 => assert_eq!(ran.stdout, "out\n"),
            75 => assert!(ran.stderr.contains("idempotency.in_flight"), "{ran:?}"),
            _ => panic!("{ran:?}"),
        }
        assert!(!ran.stderr.contains("locked"), "{ran:?}");
    }
    assert!(ended.iter().any(|ran| ran.code == 0));
    assert_eq!(sandbox.read("ran").lines().count(), 1);
}

#[test]
fn all_of_a_hundred_processes_that_wait_are_answered() {
    let sandbox = Sandbox::new();
    let start = |_| {
        let flags = ["once", "k", "--wait", "50s", "--store", "sqlite:shared.db"];
        sandbox.sh_command(&flags, "echo x >> ran; echo out").spawn().unwrap()
    };
    let calls: Vec<_> = (0..100).map(start).collect();
    for call in calls {
        let ran = Ran::of(call.wait_with_output().unwrap()).exits(0);
        assert_eq!(ran.stdout, "out\n");
    }
    assert_eq!(sandbox.read("ran").lines().count(), 1);
}
