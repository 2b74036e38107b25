//! The store knows how many keys it holds, whatever happens to them.

use crate::requests::{complete, name, reserve, retake, span, token};
use hapax_core::{
    BootTime, ManualClock, Name, Now, Timestamp,
    idempotency::{
        Complete, IdempotencyStore, Kind, List, Reserve, Resolution, Resolve, Retake,
        machine::{self, Slot},
    },
    memory::MemoryStore,
};
use proptest::prelude::*;
use std::{collections::HashMap, sync::Arc, time::Duration};

#[derive(Clone, Debug)]
enum Op {
    Reserve(u8, u8, u64),
    Complete(u8, u8, bool, u64),
    Release(u8, u8),
    Extend(u8, u8, u64),
    Retake(u8, u8, u64),
    Drop(u8, u8),
    DidNot(u8, u8),
    Force(u8),
    Elapse(u64),
    Prune(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let (key, owner, time) = (|| 0u8..40, || 1u8..4, || 1u64..20);
    prop_oneof![
        6 => (key(), owner(), time()).prop_map(|(k, o, t)| Op::Reserve(k, o, t)),
        6 => (key(), owner(), any::<bool>(), time()).prop_map(|(k, o, done, t)| Op::Complete(k, o, done, t)),
        2 => (key(), owner()).prop_map(|(k, o)| Op::Release(k, o)),
        2 => (key(), owner(), time()).prop_map(|(k, o, t)| Op::Extend(k, o, t)),
        2 => (key(), owner(), time()).prop_map(|(k, o, t)| Op::Retake(k, o, t)),
        1 => (key(), owner()).prop_map(|(k, o)| Op::Drop(k, o)),
        1 => (key(), owner()).prop_map(|(k, o)| Op::DidNot(k, o)),
        1 => key().prop_map(Op::Force),
        4 => (1u64..8).prop_map(Op::Elapse),
        1 => (0usize..10).prop_map(Op::Prune),
    ]
}

/// The slots that the store should have, those that are over included.
struct Reference {
    slots: HashMap<Name, Slot>,
    now: Now,
}

impl Reference {
    fn step<A>(&mut self, key: u8, step: impl FnOnce(&mut Slot, &Now) -> A) {
        let slot = self.slots.entry(name(&key.to_string())).or_default();
        let _answer = step(slot, &self.now);
        self.slots.retain(|_, slot| slot.is_some());
    }

    fn live(&self) -> usize {
        self.slots.values().filter(|slot| machine::read(slot, &self.now).is_some()).count()
    }
}

fn ms(ms: u64) -> hapax_core::Span {
    span(Duration::from_millis(ms))
}

async fn run(ops: &[Op]) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let store = MemoryStore::new(Arc::new(clock.clone()));
    let now = Now { wall: Timestamp::from_millis(1_000), boot: BootTime::from_millis(1_000) };
    let mut expected = Reference { slots: HashMap::new(), now };
    for op in ops {
        match *op {
            Op::Reserve(k, o, t) => {
                let req = Reserve { lease: ms(t), ..reserve(&k.to_string(), o) };
                let _ = store.reserve(&req).await.unwrap();
                expected.step(k, |slot, now| machine::reserve(slot, &req, now));
            }
            Op::Complete(k, o, done, t) => {
                let kind = if done { Kind::Done } else { Kind::Unknown };
                let req = Complete { ttl: ms(t), ..complete(&k.to_string(), o, kind) };
                let _ = store.complete(&req).await.unwrap();
                expected.step(k, |slot, now| machine::complete(slot, &req, now));
            }
            Op::Release(k, o) => {
                let _ = store.release(&name(&k.to_string()), &token(o)).await.unwrap();
                expected.step(k, |slot, now| machine::release(slot, &token(o), now));
            }
            Op::Extend(k, o, t) => {
                let _ = store.extend(&name(&k.to_string()), &token(o), ms(t)).await.unwrap();
                expected.step(k, |slot, now| machine::extend(slot, &token(o), ms(t), now));
            }
            Op::Retake(k, o, t) => {
                let req = Retake { lease: ms(t), ..retake(&k.to_string(), o) };
                let _ = store.retake_unknown(&req).await.unwrap();
                expected.step(k, |slot, now| machine::retake_unknown(slot, &req, now));
            }
            Op::Drop(k, o) => {
                let _ = store.drop_unknown(&name(&k.to_string()), &token(o)).await.unwrap();
                expected.step(k, |slot, now| machine::drop_unknown(slot, &token(o), now));
            }
            Op::DidNot(k, o) => {
                let name = name(&k.to_string());
                let req = Resolve { name, token: token(o), version: None, resolution: Resolution::DidNot };
                let _ = store.resolve(&req).await.unwrap();
                expected.step(k, |slot, now| machine::resolve(slot, &req, now));
            }
            Op::Force(k) => {
                let _ = store.force_release(&name(&k.to_string())).await.unwrap();
                expected.step(k, machine::force_release);
            }
            Op::Elapse(t) => {
                clock.advance(Duration::from_millis(t));
                let by = Duration::from_millis(t);
                expected.now = Now { wall: expected.now.wall.after(by), boot: expected.now.boot.after(by) };
            }
            Op::Prune(limit) => {
                let over = expected.slots.len() - expected.live();
                prop_assert_eq!(store.prune(limit).await.unwrap(), over.min(limit));
                // Which ones went is not said, so all go here.
                let rest = store.prune(usize::MAX).await.unwrap();
                prop_assert_eq!(rest, over.saturating_sub(limit));
                let now = expected.now;
                expected.slots.values_mut().for_each(|slot| machine::settle(slot, &now));
                expected.slots.retain(|_, slot| slot.is_some());
            }
        }
        prop_assert_eq!(store.len(), expected.slots.len());
        prop_assert_eq!(store.is_empty(), expected.slots.is_empty());
    }
    let page =
        store.list(&List { limit: usize::MAX, ..List::new(hapax_core::Namespace::default()) }).await.unwrap();
    prop_assert_eq!(page.records.len(), expected.live());
    let over = store.prune(usize::MAX).await.unwrap();
    prop_assert_eq!(over, expected.slots.len() - expected.live());
    prop_assert_eq!(store.len(), expected.live());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_count_is_that_of_a_plain_map(ops in prop::collection::vec(op(), 1..300)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(&ops))?;
    }
}
