//! The faults of a proxy, one after another.

use crate::{Fault, Proxy};
use hapax_conformance::Faults;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Puts the next of some faults on each step of an [`Insisting`](hapax_conformance::Insisting) client.
#[derive(Debug)]
pub struct Rotation {
    proxy: Proxy,
    faults: &'static [Fault],
    nth: AtomicUsize,
    is_sparse: bool,
}

/// So many of the first steps of a client meet a fault in any case,
const FIRST: usize = 8;
/// and one in so many of the others.
const SPARSE: usize = 32;

impl Rotation {
    /// Each step through this proxy.
    pub fn new(proxy: Proxy, faults: &'static [Fault]) -> Self {
        Self { proxy, faults, nth: AtomicUsize::new(0), is_sparse: false }
    }

    /// Few of the steps of a client that takes many, unless the full counts are asked for.
    #[must_use]
    pub fn sparse(self) -> Self {
        Self { is_sparse: !crate::is_long(), ..self }
    }
}

impl Faults for Rotation {
    fn arm(&self) {
        let nth = self.nth.fetch_add(1, Ordering::Relaxed);
        if self.is_sparse && nth >= FIRST && !nth.is_multiple_of(SPARSE) {
            return;
        }
        if let Some(fault) = self.faults.get(nth % self.faults.len().max(1)) {
            self.proxy.arm(*fault);
        }
    }

    fn disarm(&self) {
        self.proxy.disarm();
    }

    fn happened(&self) -> usize {
        self.proxy.happened()
    }
}

/// What a lost answer could make a difference to. The other cases of queues are run with `HAPAX_TEST_LONG`.
const CUT_AREAS: [&str; 6] = [
    "queue::add::",
    "queue::faults::",
    "queue::fence::",
    "queue::joint::",
    "queue::lease::",
    "queue::outcome::",
];

/// Cases that tell lost jobs from ready ones.
const TAKEN_OVER: [&str; 2] = ["::a_beat_tells_what_was_lost", "::new_jobs_keep_places_beside_lost_ones"];

/// Why a case of queues is not run through a proxy that cuts.
pub fn skips_cut_queues(case: &str, is_long: bool) -> Option<&'static str> {
    if case.contains("::races::") || case.contains("::model::") {
        return Some("what a caller makes of an answer holds where it is alone");
    }
    if TAKEN_OVER.iter().any(|statement| case.ends_with(statement)) {
        return Some("what was handed out in a lost answer was taken over by it, and is ready again");
    }
    if case.starts_with("queue::history::") {
        return Some("what a lost answer did, and what was done again, is told as well");
    }
    let is_run = is_long || CUT_AREAS.iter().any(|area| case.starts_with(area));
    (!is_run).then_some("through a proxy with HAPAX_TEST_LONG=1 alone")
}
