//! The heartbeat: it renews every job of a worker in one call a tick, on the queue's own thread, so that a handler that
//! blocks its thread, or a runtime that has ended, costs no lease.

use super::core::Core;
use crate::{protocol::call, queue::raw::Halt};
use hapax_core::{
    BootTime, Timestamp,
    queue::{Beat, Uid},
};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// A clock that a test moves wakes nobody.
pub(in crate::queue) const MANUAL_PAUSE: Duration = Duration::from_millis(5);

/// What is known from beat to beat.
struct Pulse {
    next: BootTime,
    /// The store's clock as the last beat was answered.
    since: Option<Timestamp>,
}

pub(super) async fn keep(core: Weak<Core>) {
    let Some(mut pulse) = core.upgrade().map(|core| Pulse { next: core.clock.boot(), since: None }) else {
        return;
    };
    while let Some(this) = core.upgrade() {
        let now = this.clock.boot();
        if now >= pulse.next && this.held.needs_beat() {
            beat(&this, &mut pulse).await;
        } else if now >= pulse.next {
            // An idle worker says nothing; what the store showed long ago is not the last answer any more.
            (pulse.next, pulse.since) = (now.after(this.tick()), None);
        }
        for (uid, delivery) in this.held.overdue(this.clock.boot().after(this.margin())) {
            tracing::warn!(code = "queue.lease_lost", "job {uid} could not be renewed in time");
            this.held.halt(&uid, delivery, Halt::Lost);
        }
        let pause = pulse.next.since(this.clock.boot()).clamp(Duration::from_millis(1), this.again());
        let pause = if this.clock.is_manual() { pause.min(MANUAL_PAUSE) } else { pause };
        drop(this);
        tokio::time::sleep(pause).await;
    }
}

async fn beat(core: &Arc<Core>, pulse: &mut Pulse) {
    let asked = core.clock.boot();
    let req = Beat {
        queue: core.queue.clone(),
        group: core.group.clone(),
        consumer: core.consumer.clone(),
        held: core.held.list(),
        lease: core.lease,
        since: pulse.since,
        progress: core.held.said(),
    };
    let answer = call::one(core.call_limit(), "renew jobs", core.store.beat(&req)).await;
    core.figures.answered("beat", &answer);
    match answer {
        Ok(beaten) => {
            core.held.renew(&req.held, asked.after(core.lease.get()));
            let listed = |uids: &[Uid]| {
                let is_meant = |(uid, _): &&(Uid, u64)| uids.contains(uid);
                req.held.iter().filter(is_meant).copied().collect::<Vec<_>>()
            };
            for (uid, delivery) in listed(&beaten.lost) {
                // The beat may have met the end of a job: it is not lost, and its own answer says so.
                if core.held.runs(&uid, delivery) {
                    tracing::warn!(code = "queue.lease_lost", "job {uid} is another worker's by now");
                }
                core.held.halt(&uid, delivery, Halt::Lost);
            }
            for (uid, delivery) in listed(&beaten.cancelled) {
                core.held.halt(&uid, delivery, Halt::Cancelled);
            }
            core.held.beaten();
            (pulse.next, pulse.since) = (asked.after(core.tick()), Some(beaten.now));
        }
        Err(error) => {
            core.held.unsaid(&req.progress);
            tracing::debug!(queue = %core.queue.name, %error, "jobs could not be renewed yet");
            pulse.next = core.clock.boot().after(core.again());
        }
    }
}
