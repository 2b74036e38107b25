//! One step of a random list.

use crate::{
    faulty::Request,
    fixture::Fixture,
    requests::{name_in, print, receipt, span, token},
};
use hapax_core::{
    Key, Name, Scope, Span, Token,
    idempotency::{Complete, Kind, List, Reserve, Resolution, Resolve, Retake, StateFilter},
};
use proptest::prelude::*;
use std::time::Duration;

/// A step on one of three keys under one of four tokens, as short as it can be printed.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Reserve {
        key: u8,
        token: char,
        lease: u8,
    },
    Complete {
        key: u8,
        token: char,
        kind: Kind,
        ttl: u8,
    },
    Release {
        key: u8,
        token: char,
    },
    Extend {
        key: u8,
        token: char,
        lease: u8,
    },
    Retake {
        key: u8,
        token: char,
        lease: u8,
    },
    Drop {
        key: u8,
        token: char,
    },
    Resolve {
        key: u8,
        token: char,
        seen: Option<char>,
        happened: Option<u8>,
    },
    Forget {
        key: u8,
        token: char,
        seen: Option<char>,
    },
    Force {
        key: u8,
    },
    /// The same request as that many steps before.
    Again {
        back: u8,
    },
    Read {
        key: u8,
    },
    List {
        prefix: &'static str,
        state: Option<StateFilter>,
        after: Option<u8>,
        limit: u8,
    },
    Prune,
    Elapse {
        by: u8,
    },
    /// A batch of reservations, completions, extensions or releases, in this order by `kind`.
    Batch {
        kind: u8,
        of: Vec<(u8, char)>,
    },
}

/// A step and which client makes it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) second_client: bool,
    pub(super) op: Op,
}

/// How often the kinds of steps come.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    pub(super) again: u32,
    pub(super) batch: u32,
}

pub(super) fn lists(weights: Weights) -> impl Strategy<Value = Vec<Call>> {
    let part = prop_oneof![12 => op(weights).prop_map(|op| vec![op]), 1 => scene()];
    let part = (any::<bool>(), part).prop_map(|(second_client, part)| {
        part.into_iter().map(move |op| Call { second_client, op }).collect::<Vec<_>>()
    });
    prop::collection::vec(part, 1..50).prop_map(|parts| parts.concat())
}

/// Steps that lead to a state which single ones rarely reach: a result beside a newer owner, an outcome being asked about.
fn scene() -> impl Strategy<Value = Vec<Op>> {
    let kind = prop_oneof![Just(Kind::Done), Just(Kind::Unknown)];
    let tokens = Just(vec!['A', 'B', 'C', 'R']).prop_shuffle();
    (0u8..2, tokens, kind, any::<bool>()).prop_map(|(key, tokens, kind, asks)| {
        let [first, second] = [tokens.first(), tokens.get(1)].map(|token| token.copied().unwrap_or('A'));
        let reserve = |token, lease| Op::Reserve { key, token, lease };
        let complete = |kind| Op::Complete { key, token: first, kind, ttl: 9 };
        if asks {
            vec![reserve(first, 2), complete(Kind::Unknown), Op::Retake { key, token: second, lease: 3 }]
        } else {
            vec![reserve(first, 1), Op::Elapse { by: 1 }, reserve(second, 3), complete(kind)]
        }
    })
}

fn op(weights: Weights) -> impl Strategy<Value = Op> {
    // Most steps meet on one key.
    let key = || prop_oneof![6 => Just(0u8), 2 => Just(1), 1 => Just(2)];
    let token = || prop::sample::select(vec!['A', 'B', 'C', 'R']);
    let lease = || prop_oneof![9 => 1u8..5, 1 => Just(FOR_LONG)];
    let ttl = || prop_oneof![9 => 2u8..12, 1 => Just(FOR_LONG)];
    let kind = prop_oneof![Just(Kind::Done), Just(Kind::Unknown)];
    let state = prop::sample::select(vec![StateFilter::Pending, StateFilter::Done, StateFilter::Unknown]);
    prop_oneof![
        6 => (key(), token(), lease()).prop_map(|(key, token, lease)| Op::Reserve { key, token, lease }),
        6 => (key(), token(), kind, ttl()).prop_map(|(key, token, kind, ttl)| Op::Complete { key, token, kind, ttl }),
        3 => (key(), token()).prop_map(|(key, token)| Op::Release { key, token }),
        3 => (key(), token(), lease()).prop_map(|(key, token, lease)| Op::Extend { key, token, lease }),
        3 => (key(), token(), lease()).prop_map(|(key, token, lease)| Op::Retake { key, token, lease }),
        3 => (key(), token()).prop_map(|(key, token)| Op::Drop { key, token }),
        2 => (key(), token(), prop::option::of(token()), prop::option::of(ttl()))
            .prop_map(|(key, token, seen, happened)| Op::Resolve { key, token, seen, happened }),
        1 => (key(), token(), prop::option::of(token())).prop_map(|(key, token, seen)| Op::Forget { key, token, seen }),
        1 => key().prop_map(|key| Op::Force { key }),
        weights.again => (1u8..20).prop_map(|back| Op::Again { back }),
        2 => key().prop_map(|key| Op::Read { key }),
        2 => (prop::sample::select(vec!["", "k", "k1", "K"]), prop::option::of(state), prop::option::of(0u8..3), 1u8..4)
            .prop_map(|(prefix, state, after, limit)| Op::List { prefix, state, after, limit }),
        1 => Just(Op::Prune),
        4 => (1u8..4).prop_map(|by| Op::Elapse { by }),
        weights.batch => (0u8..4, prop::collection::vec((key(), token()), 0..7))
            .prop_map(|(kind, of)| Op::Batch { kind, of }),
    ]
}

/// Stands for the longest duration that there is.
const FOR_LONG: u8 = u8::MAX;

/// What the numbers of a list mean on one store.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) namespace: String,
    exact: bool,
}

impl Scale {
    pub(super) fn new(fx: &Fixture, namespace: String) -> Self {
        Self { namespace, exact: fx.exact() }
    }

    /// Time that passes. On a store whose clock runs by itself it passes in steps so long that what is over is over by
    /// minutes, and what is not is not by minutes.
    pub(super) fn elapsed(&self, by: u8) -> Duration {
        if self.exact { Duration::from_millis(by.into()) } else { Duration::from_mins(10) * by.into() }
    }

    /// A lease or ttl: on a store whose clock runs by itself, half a step off all sums of passing time.
    fn span(&self, of: u8) -> Span {
        match of {
            FOR_LONG => Span::MAX,
            _ if self.exact => span(self.elapsed(of)),
            _ => span(self.elapsed(of) + Duration::from_mins(5)),
        }
    }

    pub(super) fn name(&self, key: u8) -> Name {
        name_in(&self.namespace, "model", &key_text(key))
    }

    /// The place after a key, for a list.
    pub(super) fn after(key: u8) -> Option<(Scope, Key)> {
        Some((Scope::new("model").ok()?, Key::new(&key_text(key)).ok()?))
    }

    fn reserve(&self, key: u8, letter: char, lease: u8) -> Reserve {
        Reserve {
            name: self.name(key),
            token: token(letter),
            fingerprint: print_of(letter),
            lease: self.span(lease),
        }
    }

    fn complete(&self, at: usize, key: u8, letter: char, kind: Kind, ttl: u8) -> Complete {
        // Each step has a text of its own, so that it shows whose result is kept.
        let (name, receipt) = (self.name(key), receipt(&format!("by step {at}")));
        Complete {
            name,
            token: token(letter),
            fingerprint: print_of(letter),
            kind,
            receipt,
            ttl: self.span(ttl),
        }
    }

    /// The request of a writing step that is not a batch.
    pub(super) fn request(&self, at: usize, op: &Op) -> Option<Request> {
        Some(match *op {
            Op::Reserve { key, token, lease } => Request::Reserve(self.reserve(key, token, lease)),
            Op::Complete { key, token, kind, ttl } => {
                Request::Complete(self.complete(at, key, token, kind, ttl))
            }
            Op::Release { key, token: letter } => Request::Release(self.name(key), token(letter)),
            Op::Extend { key, token: letter, lease } => {
                Request::Extend(self.name(key), token(letter), self.span(lease))
            }
            Op::Retake { key, token: letter, lease } => Request::RetakeUnknown(Retake {
                name: self.name(key),
                token: token(letter),
                fingerprint: print_of(letter),
                lease: self.span(lease),
            }),
            Op::Drop { key, token: letter } => Request::DropUnknown(self.name(key), token(letter)),
            Op::Resolve { key, token: letter, seen, happened } => Request::Resolve(Resolve {
                name: self.name(key),
                token: token(letter),
                version: seen.map(|letter| token(letter).version()),
                resolution: match happened {
                    Some(ttl) => Resolution::Happened {
                        receipt: receipt(&format!("by step {at}")),
                        ttl: self.span(ttl),
                    },
                    None => Resolution::DidNot,
                },
            }),
            Op::Forget { key, token: letter, seen } => Request::Resolve(Resolve {
                name: self.name(key),
                token: token(letter),
                version: seen.map(|letter| token(letter).version()),
                resolution: Resolution::Forget,
            }),
            Op::Force { key } => Request::ForceRelease(self.name(key)),
            _ => return None,
        })
    }

    /// The requests of a batch.
    pub(super) fn batch(&self, at: usize, kind: u8, of: &[(u8, char)]) -> Vec<Request> {
        let one = |(n, &(key, letter)): (usize, &(u8, char))| match kind {
            0 => Request::Reserve(self.reserve(key, letter, 3)),
            1 => {
                let kind = if n % 2 == 0 { Kind::Done } else { Kind::Unknown };
                Request::Complete(self.complete(at * 100 + n, key, letter, kind, 6))
            }
            2 => Request::Extend(self.name(key), token(letter), self.span(4)),
            _ => Request::Release(self.name(key), token(letter)),
        };
        of.iter().enumerate().map(one).collect()
    }
}

fn key_text(key: u8) -> String {
    format!("k{key}")
}

fn print_of(letter: char) -> hapax_core::Fingerprint {
    print(&letter.to_string())
}

/// For the lists of a batch: each kind of request in the form that the store takes.
pub(super) struct Batch {
    pub(super) reserves: Vec<Reserve>,
    pub(super) completes: Vec<Complete>,
    pub(super) extends: Vec<(Name, Token, Span)>,
    pub(super) releases: Vec<(Name, Token)>,
}

impl Batch {
    pub(super) fn of(requests: &[Request]) -> Self {
        let mut batch = Self { reserves: vec![], completes: vec![], extends: vec![], releases: vec![] };
        for request in requests.iter().cloned() {
            match request {
                Request::Reserve(req) => batch.reserves.push(req),
                Request::Complete(req) => batch.completes.push(req),
                Request::Extend(name, token, lease) => batch.extends.push((name, token, lease)),
                Request::Release(name, token) => batch.releases.push((name, token)),
                _ => {}
            }
        }
        batch
    }
}

impl Op {
    /// The list that a `List` step asks for.
    pub(super) fn list(&self, scale: &Scale) -> Option<List> {
        let Self::List { prefix, state, after, limit } = self else { return None };
        let namespace = hapax_core::Namespace::new(&scale.namespace).ok()?;
        Some(List {
            scope: None,
            prefix: (*prefix).into(),
            state: *state,
            after: after.and_then(Scale::after),
            limit: (*limit).into(),
            ..List::new(namespace)
        })
    }
}
