//! Handlers with keys of their own that end with their jobs.

use super::{Post, faulty::Fault};
use crate::support::secs;
use hapax_core::{
    Fingerprint, Name, Namespace, Scope, async_trait,
    idempotency::{IdempotencyStore, Kind, Receipt, RecordState},
};
use hapax_engine::{
    Keeper,
    protocol::{Begun, Terms},
    queue::raw::{Handler, Outcome, RawJob, Settled},
};
use std::{sync::Arc, time::Duration};

/// Runs its effect under a key in a scope of its own.
struct Keyed {
    keeper: Keeper,
    /// What fails once the effect has run.
    store: Arc<super::Unsteady>,
    faults: &'static [Fault],
}

fn name() -> Name {
    let key = hapax_core::Key::new("k").unwrap();
    Name::new(&Namespace::default(), &Scope::new("own").unwrap(), &key)
}

#[async_trait]
impl Handler for Keyed {
    async fn handle(&self, job: RawJob) -> Outcome {
        self.settle(job).await.alone().await
    }

    async fn settle(&self, _: RawJob) -> Settled {
        let terms = Terms::new(secs(30), secs(60), secs(60)).unwrap();
        let done = Settled::from(Outcome::Done { result: None });
        match self.keeper.reserve(&name(), Fingerprint::of_bytes(b"1"), &terms).await.unwrap() {
            Begun::Mine(reservation) => {
                self.store.fail(self.faults);
                done.with_key(reservation, Kind::Done, Receipt::new("own/1", &b"sent"[..]))
            }
            Begun::Settled(_) => done.replayed(),
        }
    }

    fn keys(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }
}

impl Post {
    fn keyed(&self, faults: &'static [Fault]) -> Keyed {
        let keeper = Keeper::of(&self.backend(), secs(5));
        Keyed { keeper, store: Arc::clone(&self.store), faults }
    }

    /// Whether the key is done; otherwise it is pending.
    async fn key_is_done(&self) -> bool {
        let record = self.keys.read(&name()).await.unwrap().unwrap();
        matches!(record.state, RecordState::Settled { kind: Kind::Done, .. })
    }
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_key_ends_in_the_step_of_its_job() {
    let post = Post::new();
    post.raw().add("1").await.unwrap();
    let worker = post.raw().worker(post.keyed(&[Fault::Before, Fault::Before])).start().await.unwrap();
    // The first step that was to end both has failed, and the next is not sent yet.
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!((post.key_is_done().await, post.figures().await), (false, [0, 0, 1, 0]));
    while post.stats().await.done == 0 {
        tokio::time::sleep(secs(1)).await;
    }
    assert!(post.key_is_done().await);
    assert_eq!(worker.stop().await.done, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_ends_neither_twice() {
    let post = Post::new();
    post.raw().add("1").await.unwrap();
    let ran = post.raw().worker(post.keyed(&[Fault::LostReply])).run_once().await.unwrap();
    assert_eq!((ran.done, ran.lost, post.key_is_done().await), (1, 0, true));
    // Another job of the same effect is answered for.
    post.raw().add("1").await.unwrap();
    let ran = post.raw().worker(post.keyed(&[])).run_once().await.unwrap();
    assert_eq!((ran.done, ran.replayed), (1, 1));
}
