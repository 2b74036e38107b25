//! Random lists of steps, answered like a plain map answers them. A list that is not is made as short as it gets.

mod facts;
mod op;
mod reference;

use self::{
    facts::Facts,
    op::{Batch, Call, Op, Scale, Weights, lists},
    reference::Reference,
};
use crate::{
    cases::list,
    faulty::{Answer, Request},
    fixture::{Fixture, Stop, Verdict, failed},
    harness::Client,
    suite::{long, seed},
};
use hapax_core::StoreError;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::fmt::Write as _;

list!("model":
    random_steps_are_answered_like_a_plain_map,
    random_steps_and_resends_are_answered_like_a_plain_map,
    random_batches_are_answered_like_a_plain_map,
);

async fn random_steps_are_answered_like_a_plain_map(fx: Fixture) -> Verdict {
    explore(&fx, "steps", [200, 10_000], Weights { again: 1, batch: 1 }).await
}

async fn random_steps_and_resends_are_answered_like_a_plain_map(fx: Fixture) -> Verdict {
    explore(&fx, "resends", [100, 3_000], Weights { again: 30, batch: 1 }).await
}

async fn random_batches_are_answered_like_a_plain_map(fx: Fixture) -> Verdict {
    explore(&fx, "batches", [100, 3_000], Weights { again: 1, batch: 30 }).await
}

/// How many shorter lists are tried when one is answered wrongly.
const SHRINKS: usize = 2_000;

async fn explore(fx: &Fixture, what: &'static str, [short, full]: [usize; 2], weights: Weights) -> Verdict {
    let count = match (long(), fx.is_slow()) {
        (false, false) => short,
        (false, true) => short / 4,
        (true, false) => full,
        (true, true) => full / 10,
    };
    let seed = seed()?;
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(seed.to_be_bytes()).for_each(|(to, from)| *to = from);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (lists, mut checker) = (lists(weights), Checker { fx, what, number: 0 });
    for _ in 0..count {
        let mut tree = lists.new_tree(&mut runner).map_err(failed)?;
        if let Err(stop) = checker.check(&tree.current()).await {
            let (stop, list) = checker.shrink(&mut tree, stop).await;
            return Err(reported(stop, &list, seed));
        }
    }
    Ok(())
}

/// Checks lists, each under names of its own.
struct Checker<'a> {
    fx: &'a Fixture,
    what: &'static str,
    number: usize,
}

impl Checker<'_> {
    async fn check(&mut self, list: &[Call]) -> Verdict {
        self.number += 1;
        check(self.fx, list, &Scale::new(self.fx, format!("{} {}", self.what, self.number))).await
    }

    /// The shortest and simplest list found that is still answered wrongly, and how it is.
    async fn shrink(
        &mut self,
        tree: &mut impl ValueTree<Value = Vec<Call>>,
        first: Stop,
    ) -> (Stop, Vec<Call>) {
        let (mut stop, mut list) = (first, tree.current());
        let (mut tries, mut going) = (0, tree.simplify());
        while going && tries < SHRINKS {
            tries += 1;
            going = match self.check(&tree.current()).await {
                Err(simpler) => {
                    (stop, list) = (simpler, tree.current());
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        // A step again, written out: then the one before it may not be needed.
        for at in 0..list.len() {
            let Some(Op::Again { back }) = list.get(at).map(|call| &call.op) else { continue };
            for before in (0..at).rev().skip(usize::from(*back).saturating_sub(1)) {
                let mut plain = list.clone();
                let Some(op) = plain.get(before).map(|call| call.op.clone()) else { break };
                if let Some(call) = plain.get_mut(at) {
                    call.op = op;
                }
                if let Err(still) = self.check(&plain).await {
                    (stop, list) = (still, plain);
                    break;
                }
            }
        }
        // Steps that were needed until others became simpler.
        let mut at = 0;
        while at < list.len() {
            let mut shorter = list.clone();
            shorter.remove(at);
            match self.check(&shorter).await {
                Err(still) => (stop, list, at) = (still, shorter, 0),
                Ok(()) => at += 1,
            }
        }
        (stop, list)
    }
}

fn reported(stop: Stop, list: &[Call], seed: u64) -> Stop {
    let Stop::Failed(what) = stop else { return stop };
    let mut text = format!("{what}\nin this list (HAPAX_TEST_SEED={seed} gives the long one again):\n");
    for (at, call) in list.iter().enumerate() {
        let client = if call.second_client { "b" } else { "a" };
        let _ = writeln!(text, "{at:4} {client} {:?}", call.op);
    }
    Stop::Failed(text)
}

/// Runs a list on the store and on the reference.
async fn check(fx: &Fixture, list: &[Call], scale: &Scale) -> Verdict {
    let mut run = Run { fx, scale, reference: Reference::new(), offset: 0, sent: Vec::new() };
    run.align().await?;
    for (at, call) in list.iter().enumerate() {
        let store = if call.second_client { &fx.b } else { &fx.a };
        run.step(store, at, &call.op).await.map_err(|stop| match stop {
            Stop::Failed(what) => Stop::Failed(format!("step {at}, {:?}: {what}", call.op)),
            skipped @ Stop::Skipped(_) => skipped,
        })?;
    }
    // What is left after all of it.
    for key in 0..3 {
        run.read(&fx.a, key).await?;
    }
    Ok(())
}

struct Run<'a> {
    fx: &'a Fixture,
    scale: &'a Scale,
    reference: Reference,
    /// How much more the store's clock shows, in milliseconds.
    offset: i64,
    sent: Vec<Request>,
}

impl Run<'_> {
    async fn align(&mut self) -> Verdict {
        self.offset = self.fx.now().await?.as_millis() - self.reference.now().as_millis();
        Ok(())
    }

    async fn step(&mut self, store: &Client, at: usize, op: &Op) -> Verdict {
        match op {
            Op::Again { back } => {
                let before = self.sent.len().checked_sub(usize::from(*back));
                let Some(request) = before.and_then(|at| self.sent.get(at)).cloned() else { return Ok(()) };
                self.send(store, request).await
            }
            Op::Read { key } => self.read(store, *key).await,
            Op::List { .. } => self.list(store, op).await,
            Op::Prune => {
                // How many go depends on what other lists left behind.
                let _some = store.prune(1_000_000).await?;
                Ok(())
            }
            Op::Elapse { by } => {
                let by = self.scale.elapsed(*by);
                self.fx.elapse(by).await;
                self.reference.elapse(by);
                // A clock that runs by itself has run on.
                if self.fx.exact() { Ok(()) } else { self.align().await }
            }
            Op::Batch { kind, of } => self.batch(store, self.scale.batch(at, *kind, of)).await,
            op => match self.scale.request(at, op) {
                Some(request) => self.send(store, request).await,
                None => Err(failed("this step has no request")),
            },
        }
    }

    async fn send(&mut self, store: &Client, request: Request) -> Verdict {
        let got = request.send(store).await?;
        let expected = self.reference.apply(&request);
        self.compare(&request, &got, &expected)?;
        self.sent.push(request);
        Ok(())
    }

    fn compare(&self, request: &Request, got: &Answer, expected: &[Answer]) -> Verdict {
        let first_at_counts = self.reference.knows_first_at(request.name());
        let mut why = Vec::new();
        for expected in expected {
            let expected = Facts::of_answer(expected);
            match Facts::of_answer(got).differ(&expected, self.offset, self.fx, first_at_counts) {
                None => return Ok(()),
                Some(difference) => why.push(difference),
            }
        }
        Err(failed(why.join("\nor ")))
    }

    async fn batch(&mut self, store: &Client, requests: Vec<Request>) -> Verdict {
        let batch = Batch::of(&requests);
        let mut answers: Vec<Result<Answer, StoreError>> = Vec::new();
        if !batch.reserves.is_empty() {
            let got = store.reserve_many(&batch.reserves).await;
            answers.extend(got.into_iter().map(|answer| answer.map(Answer::Reserved)));
        }
        if !batch.completes.is_empty() {
            let got = store.complete_many(&batch.completes).await;
            answers.extend(got.into_iter().map(|answer| answer.map(Answer::Completed)));
        }
        if !batch.extends.is_empty() {
            let got = store.extend_many(&batch.extends).await;
            answers.extend(got.into_iter().map(|answer| answer.map(Answer::Extended)));
        }
        if !batch.releases.is_empty() {
            let got = store.release_many(&batch.releases).await;
            answers.extend(got.into_iter().map(|answer| answer.map(Answer::Write)));
        }
        if answers.len() != requests.len() {
            return Err(failed(format!("{} answers to {} requests", answers.len(), requests.len())));
        }
        for (n, (request, got)) in requests.into_iter().zip(answers).enumerate() {
            let expected = self.reference.apply(&request);
            self.compare(&request, &got?, &expected).map_err(|stop| match stop {
                Stop::Failed(what) => Stop::Failed(format!("item {n}: {what}")),
                skipped @ Stop::Skipped(_) => skipped,
            })?;
            self.sent.push(request);
        }
        Ok(())
    }

    async fn read(&self, store: &Client, key: u8) -> Verdict {
        let name = self.scale.name(key);
        let got = Facts::of_record(store.read(&name).await?.as_ref());
        let expected = Facts::of_record(self.reference.read(&name).as_ref());
        match got.differ(&expected, self.offset, self.fx, self.reference.knows_first_at(&name)) {
            None => Ok(()),
            Some(difference) => Err(failed(format!("key {key} holds something else: {difference}"))),
        }
    }

    async fn list(&self, store: &Client, op: &Op) -> Verdict {
        let Some(request) = op.list(self.scale) else { return Ok(()) };
        let page = store.list(&request).await?;
        let all = self.reference.list(&request);
        let names = |records: &[(hapax_core::Name, _)]| -> Vec<_> {
            records.iter().map(|(name, _)| name.key().to_owned()).collect()
        };
        let limit = request.limit.min(all.len());
        let expected = all.get(..limit).unwrap_or_default();
        if names(&page.records) != names(expected) {
            return Err(failed(format!("expected {:?}, got {:?}", names(expected), names(&page.records))));
        }
        if all.len() > limit && !page.more {
            return Err(failed("there are more, and the page says that there are not"));
        }
        for ((name, got), (_, expected)) in page.records.iter().zip(expected) {
            let (got, expected) = (Facts::of_record(Some(got)), Facts::of_record(Some(expected)));
            let counts = self.reference.knows_first_at(name);
            if let Some(difference) = got.differ(&expected, self.offset, self.fx, counts) {
                return Err(failed(format!("{} is listed otherwise: {difference}", name.key())));
            }
        }
        Ok(())
    }
}
