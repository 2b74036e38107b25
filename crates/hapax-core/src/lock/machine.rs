//! The rules of each step, as pure functions over what lies under a name.
//!
//! A step takes the slot of one lock, changes it in place, and answers. A store wraps it in whatever makes it atomic.
//! Expiry is a comparison made here and nowhere else, on the clock of leases.

use super::{Acquire, Acquired, Extended, FENCE_KEPT, Fence, Grant, Holder, HolderInfo, LockInfo, Write};
use crate::{BootTime, Now, Span, Timestamp, Token};

/// What lies under one name.
pub type Slot = Option<Lock>;

/// A lock that was held once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The last fence given, or the seed of the next.
    pub fence: Fence,
    /// Who holds it, if its lease has not passed.
    pub held: Option<Held>,
    /// The last token that gave it back: its release, sent again, was carried out. Others come and go meanwhile.
    pub released: Option<Token>,
    /// The last grant, release or seed.
    pub used_at: Timestamp,
}

/// The holder of a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Its token.
    pub token: Token,
    /// The fence of its grant. A seed may have raised the lock's since.
    pub fence: Fence,
    /// What it says of itself.
    pub holder: Holder,
    /// Since when.
    pub since: Timestamp,
    /// The end of its lease.
    pub until: BootTime,
}

fn live<'a>(slot: &'a mut Slot, now: &Now) -> Option<&'a mut Held> {
    slot.as_mut()?.held.as_mut().filter(|held| held.until > now.boot)
}

/// Takes the lock for the request's token, unless another holds it.
pub fn acquire(slot: &mut Slot, req: &Acquire, now: &Now) -> Acquired {
    if let Some(held) = live(slot, now) {
        return if held.token == req.token {
            Acquired::Yours(Grant { fence: held.fence, until: now.wall_of(held.until) })
        } else {
            Acquired::Busy { rest: held.until.since(now.boot) }
        };
    }
    let fence = Fence::next(slot.as_ref().map(|lock| lock.fence), now.wall);
    let until = now.boot.after(req.lease.get());
    let held = Held { token: req.token, fence, holder: req.holder.clone(), since: now.wall, until };
    let released = slot.as_ref().and_then(|lock| lock.released).filter(|token| *token != req.token);
    *slot = Some(Lock { fence, held: Some(held), released, used_at: now.wall });
    Acquired::Yours(Grant { fence, until: now.wall_of(until) })
}

/// Makes the lease of `token` longer; never shortens it.
pub fn extend(slot: &mut Slot, token: &Token, lease: Span, now: &Now) -> Extended {
    match live(slot, now) {
        Some(held) if held.token == *token => {
            held.until = held.until.max(now.boot.after(lease.get()));
            Extended::Until(now.wall_of(held.until))
        }
        _ => Extended::Fenced,
    }
}

/// Gives the lock of `token` back.
pub fn release(slot: &mut Slot, token: &Token, now: &Now) -> Write {
    let holds = live(slot, now).is_some_and(|held| held.token == *token);
    match slot {
        Some(lock) if holds => {
            (lock.held, lock.released, lock.used_at) = (None, Some(*token), now.wall);
            Write::Applied
        }
        Some(lock) if lock.released == Some(*token) => Write::Applied,
        _ => Write::Fenced,
    }
}

/// Takes the lock from whoever holds it.
pub fn break_lock(slot: &mut Slot, now: &Now) -> Option<HolderInfo> {
    let held = live(slot, now).map(|held| info(held, now))?;
    if let Some(lock) = slot {
        (lock.held, lock.used_at) = (None, now.wall);
    }
    Some(held)
}

/// Makes the next fence larger than `least`.
pub fn seed_fence(slot: &mut Slot, least: Fence, now: &Now) -> Fence {
    match slot {
        Some(lock) => {
            (lock.fence, lock.used_at) = (lock.fence.max(least), now.wall);
            lock.fence
        }
        None => {
            *slot = Some(Lock { fence: least, held: None, released: None, used_at: now.wall });
            least
        }
    }
}

/// Who holds it, and its last fence.
pub fn show(slot: &Slot, now: &Now) -> LockInfo {
    let Some(lock) = slot else { return LockInfo::default() };
    LockInfo { held: holder(lock, now), fence: Some(lock.fence) }
}

/// Who holds it.
pub fn holder(lock: &Lock, now: &Now) -> Option<HolderInfo> {
    lock.held.as_ref().filter(|held| held.until > now.boot).map(|held| info(held, now))
}

fn info(held: &Held, now: &Now) -> HolderInfo {
    HolderInfo {
        holder: held.holder.clone(),
        fence: held.fence,
        since: held.since,
        until: now.wall_of(held.until),
    }
}

/// Whether it may be forgotten: nobody holds it, and the clock has been past its fence and its last use for
/// [`FENCE_KEPT`], so that the next fence is larger without it.
pub fn may_forget(lock: &Lock, now: &Now) -> bool {
    let last = lock.fence.as_time().max(lock.used_at);
    holder(lock, now).is_none() && now.wall > last.after(FENCE_KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Key, ManualClock, Name, Namespace, Scope};
    use proptest::prelude::*;
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(10);

    fn token(n: u8) -> Token {
        Token::from_bytes([n; 16])
    }

    fn request(n: u8) -> Acquire {
        let name = Name::new(&Namespace::default(), &Scope::new("lock").unwrap(), &Key::new("k").unwrap());
        Acquire { name, token: token(n), lease: Span::new(LEASE).unwrap(), holder: Holder::default() }
    }

    fn fence(answer: Acquired) -> Option<Fence> {
        match answer {
            Acquired::Yours(grant) => Some(grant.fence),
            Acquired::Busy { .. } => None,
        }
    }

    #[test]
    fn a_lost_counter_does_not_make_the_fence_smaller() {
        let clock = ManualClock::new();
        let mut slot = None;
        let first = fence(acquire(&mut slot, &request(1), &clock.read())).unwrap();
        let _ = release(&mut slot, &token(1), &clock.read());
        let second = fence(acquire(&mut slot, &request(2), &clock.read())).unwrap();
        assert_eq!(second.get(), first.get() + 1);
        clock.advance(Duration::from_millis(1));
        assert!(fence(acquire(&mut None, &request(3), &clock.read())).unwrap() > second);
    }

    #[test]
    fn a_seed_above_the_clock_is_kept_until_the_clock_has_passed_it() {
        let clock = ManualClock::new();
        let mut slot = None;
        let ahead = Fence::new(Fence::next(None, clock.now()).get() + 86_400_000_000).unwrap();
        assert_eq!(seed_fence(&mut slot, ahead, &clock.read()), ahead);
        clock.advance(FENCE_KEPT + Duration::from_hours(1));
        assert!(!may_forget(slot.as_ref().unwrap(), &clock.read()));
        clock.advance(Duration::from_hours(24));
        assert!(may_forget(slot.as_ref().unwrap(), &clock.read()));
        assert!(fence(acquire(&mut None, &request(1), &clock.read())).unwrap() > ahead);
    }

    #[test]
    fn fences_have_bounds() {
        assert!(Fence::new(0).is_err());
        assert!(Fence::new(1 << 53).is_err());
        assert_eq!(Fence::next(Some(Fence::MAX), Timestamp::default()), Fence::MAX);
        assert_eq!(Holder::new(&"ü".repeat(150)).as_str().len(), 200);
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Acquire(u8),
        Extend(u8),
        Release(u8),
        Break,
        Elapse(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..3_u8).prop_map(Op::Acquire),
            2 => (0..3_u8).prop_map(Op::Extend),
            2 => (0..3_u8).prop_map(Op::Release),
            1 => Just(Op::Break),
            2 => (0..9_000_u64).prop_map(Op::Elapse),
        ]
    }

    proptest! {
        /// A plain account of who holds the lock until when agrees with every answer, and fences only grow.
        #[test]
        fn steps_follow_a_plain_account(ops in prop::collection::vec(op(), 1..60)) {
            let clock = ManualClock::new();
            let (mut slot, mut last) = (None, None::<Fence>);
            let mut held: Option<(u8, u64, Fence)> = None;
            let (mut released, mut at) = (None, 0);
            for op in ops {
                held = held.filter(|(_, until, _)| *until > at);
                let now = clock.read();
                match op {
                    Op::Acquire(who) => match (acquire(&mut slot, &request(who), &now), held) {
                        (Acquired::Busy { rest }, Some((holder, until, _))) => {
                            prop_assert!(holder != who && rest == Duration::from_millis(until - at));
                        }
                        (Acquired::Yours(grant), Some((holder, until, fence))) => {
                            prop_assert_eq!((holder, fence), (who, grant.fence));
                            prop_assert_eq!(grant.until, now.wall.after(Duration::from_millis(until - at)));
                        }
                        (Acquired::Yours(grant), None) => {
                            prop_assert!(last.is_none_or(|last| grant.fence > last));
                            last = Some(grant.fence);
                            held = Some((who, at + 10_000, grant.fence));
                            released = released.filter(|released| *released != who);
                        }
                        (answer, None) => prop_assert!(false, "free, and yet {answer:?}"),
                    },
                    Op::Extend(who) => {
                        let answer = extend(&mut slot, &token(who), Span::new(LEASE).unwrap(), &now);
                        match &mut held {
                            Some((holder, until, _)) if *holder == who => {
                                *until = at + 10_000;
                                prop_assert_eq!(answer, Extended::Until(now.wall.after(LEASE)));
                            }
                            _ => prop_assert_eq!(answer, Extended::Fenced),
                        }
                    }
                    Op::Release(who) => {
                        let answer = release(&mut slot, &token(who), &now);
                        if held.is_some_and(|(holder, ..)| holder == who) {
                            (held, released) = (None, Some(who));
                        }
                        prop_assert_eq!(answer == Write::Applied, released == Some(who));
                    }
                    Op::Break => {
                        let broken = break_lock(&mut slot, &now).map(|info| info.fence);
                        prop_assert_eq!(broken, held.take().map(|(_, _, fence)| fence));
                    }
                    Op::Elapse(ms) => {
                        at += ms;
                        clock.advance(Duration::from_millis(ms));
                    }
                }
            }
        }
    }
}
