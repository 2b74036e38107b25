//! Mails as jobs: what a receipt makes of its job, and the key that ends with it.

use crate::support::plain;
use hapax_core::{
    Backend, Namespace, SystemClock,
    memory::{MemoryQueues, MemoryStore},
    queue::{DeadReason, JobInfo, JobState, ListJobs, Redrive},
};
use hapax_engine::{
    Idempotency, Keeper,
    queue::{Queue, Ran, RawQueue},
};
use hapax_mail::{
    Act, Failure, MailCategory, Mailer, Message, RawMessage, Receipt, Stub,
    jobs::{MailJobs, QueuedMail},
};
use std::{sync::Arc, time::Duration};

/// One store of queues and keys, and what delivers.
struct Office {
    backend: Backend,
    stub: Stub,
}

impl Office {
    fn new() -> Self {
        let keys = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let queues = MemoryQueues::new(Arc::new(SystemClock)).with_keys(Arc::clone(&keys));
        let backend = Backend::new("memory", keys as _).with_queue(Arc::new(queues));
        Self { backend, stub: Stub::new() }
    }

    fn idempotency(&self) -> Idempotency {
        Idempotency::on(Keeper::of(&self.backend, Duration::from_secs(5)), Ok(Namespace::default()), "mail")
    }

    fn queue(&self) -> RawQueue {
        Queue::of(&self.backend, Duration::from_secs(5)).raw("mail").unwrap()
    }

    async fn add(&self, mail: impl Into<QueuedMail>, attempts: u32) {
        self.queue().add(mail.into().to_payload()).max_attempts(attempts).await.unwrap();
    }

    /// Takes one job.
    async fn works(&self) -> Ran {
        let mailer = Mailer::via(self.stub.clone()).idempotent(&self.idempotency()).scope("mail");
        let jobs = MailJobs::new(mailer.build().unwrap());
        self.queue().worker(jobs).run_once().await.unwrap()
    }

    async fn listed(&self, state: JobState) -> Vec<JobInfo> {
        let req = ListJobs { queue: self.queue().id().clone(), group: None, state, after: None, limit: 9 };
        self.backend.queue.as_ref().unwrap().list(&req).await.unwrap().jobs
    }

    /// Why the only dead letter is dead.
    async fn dead(&self) -> (DeadReason, String) {
        let dead = self.listed(JobState::Dead).await.remove(0);
        (dead.reason.unwrap(), dead.error.unwrap())
    }
}

fn keyed() -> Message {
    plain().idempotency_key("k").build().unwrap()
}

#[tokio::test]
async fn a_mail_is_sent_once_however_many_jobs_it_has() {
    let office = Office::new();
    for replayed in [0, 1] {
        office.add(keyed(), 5).await;
        let ran = office.works().await;
        assert_eq!((ran.done, ran.replayed), (1, replayed));
    }
    assert_eq!(office.stub.handed(), 1);
    // Attachments and all.
    assert_eq!(office.stub.sent()[0].to_json_line(), keyed().to_json_line());
}

#[tokio::test]
async fn a_mail_without_a_key_has_that_of_its_job() {
    let office = Office::new();
    office.add(plain().build().unwrap(), 5).await;
    let raw = b"From: shop@example.com\r\nTo: ada@example.com\r\n\r\nHello.\r\n";
    office.add(RawMessage::new("shop@example.com", ["ada@example.com"], &raw[..]), 5).await;
    for _ in 0..2 {
        assert_eq!(office.works().await.done, 1);
    }
    let calls = office.stub.calls();
    let key = calls[0].message.as_ref().unwrap().idempotency_key().unwrap().as_str().to_owned();
    let raw_key = calls[1].raw.as_ref().unwrap().idempotency_key.clone().unwrap();
    assert!(key.len() == 32 && raw_key.len() == 32 && key != raw_key);
}

#[tokio::test]
async fn what_is_unknown_is_dead_and_is_not_sent_until_it_is_settled() {
    let office = Office::new();
    office.stub.then(Receipt::unknown("smtp.lost"));
    office.add(keyed(), 5).await;
    assert_eq!(office.works().await.dead, 1);
    assert_eq!(office.dead().await, (DeadReason::Unknown, "smtp.lost".to_owned()));
    let redrive = async || {
        let uids = office.listed(JobState::Dead).await.iter().map(|dead| dead.uid).collect();
        let req = Redrive { queue: office.queue().id().clone(), group: None, uids, force: false };
        office.backend.queue.as_ref().unwrap().redrive(&req).await.unwrap();
    };
    redrive().await;
    assert_eq!((office.works().await.dead, office.stub.handed()), (1, 1));
    office.idempotency().resolve("k").did_not().await.unwrap();
    redrive().await;
    assert_eq!((office.works().await.done, office.stub.handed()), (1, 2));
}

#[tokio::test]
async fn failures_are_tried_again_or_dead_at_once() {
    let office = Office::new();
    let busy = || Failure::new(MailCategory::Service, "smtp.busy").with_retry_after(Duration::from_millis(1));
    office.stub.then(Receipt::not_sent(busy())).then(Receipt::not_sent(busy()));
    office.add(keyed(), 2).await;
    assert_eq!(office.works().await.retried, 1);
    // It is due in a millisecond.
    let again = async { while office.works().await.dead == 0 {} };
    tokio::time::timeout(Duration::from_mins(1), again).await.unwrap();
    assert_eq!(office.dead().await, (DeadReason::Exhausted, "smtp.busy".to_owned()));

    let office = Office::new();
    office.stub.then(Receipt::failed(MailCategory::Rejected, "smtp.no").with_response("550 nobody"));
    office.add(keyed(), 5).await;
    assert_eq!(office.works().await.dead, 1);
    assert_eq!(office.dead().await, (DeadReason::Refused, "smtp.no: 550 nobody".to_owned()));
    // Its key is free.
    office.add(keyed(), 5).await;
    assert_eq!((office.works().await.done, office.stub.handed()), (1, 2));
}

#[tokio::test]
async fn another_mail_under_the_key_is_dead_and_one_in_flight_is_put_off() {
    let office = Office::new();
    office.add(keyed(), 5).await;
    office.works().await;
    office.add(plain().subject("other").idempotency_key("k").build().unwrap(), 5).await;
    office.works().await;
    assert_eq!(office.dead().await.0, DeadReason::KeyReused);

    let office = Office::new();
    let never = async || std::future::pending::<Result<u8, std::convert::Infallible>>().await;
    let held = tokio::spawn(office.idempotency().run("k", &1, never));
    tokio::task::yield_now().await;
    office.add(keyed(), 5).await;
    let ran = office.works().await;
    held.abort();
    // What holds it is no mail: the fingerprint tells, before the flight does.
    assert_eq!((ran.dead, office.dead().await.0, office.stub.handed()), (1, DeadReason::KeyReused, 0));

    let office = Office::new();
    let signal = Arc::new(tokio::sync::Notify::new());
    office.stub.then_act([Act::Wait(Arc::clone(&signal))]);
    let mailer = Mailer::via(office.stub.clone()).idempotent(&office.idempotency()).scope("mail");
    let first = tokio::spawn(mailer.build().unwrap().send(&keyed()));
    while office.stub.handed() == 0 {
        tokio::task::yield_now().await;
    }
    office.add(keyed(), 5).await;
    let ran = office.works().await;
    assert_eq!((ran.snoozed, office.listed(JobState::Delayed).await[0].counts.attempts), (1, 0));
    signal.notify_one();
    assert!(first.await.unwrap().is_accepted());
}

#[tokio::test]
async fn a_time_out_before_anything_could_be_delivered_is_a_failure() {
    for (acts, dead) in [(vec![Act::Hang], 0), (vec![Act::Commit, Act::Hang], 1)] {
        let office = Office::new();
        office.stub.then_act(acts);
        let payload = QueuedMail::from(keyed()).to_payload();
        office.queue().add(payload).timeout(Duration::from_millis(20)).await.unwrap();
        let ran = office.works().await;
        assert_eq!((ran.retried, ran.dead), (1 - dead, dead));
    }
}
