//! What holds in every state of the world.

use crate::{
    rules::Cell,
    world::{Broken, Owner, Phase, Sent, Spine, World},
};
use hapax_core::idempotency::Kind;
use stateright::Property;

// That every call returns needs no statement: the steps are plain functions without loops.
pub(crate) const ONE_HOLDER: &str = "at most one live token holds the key, and no other takes it away";
pub(crate) const NO_OVERLAP: &str = "effects overlap only after a lease passed or was forced";
pub(crate) const NO_RESERVATION_OVER_RESULTS: &str = "no reservation starts over an acknowledged result";
pub(crate) const VERDICTS_RESPECT_SUCCESS: &str = "no verdict takes an acknowledged success away";
pub(crate) const SUCCESS_IS_KEPT: &str = "an acknowledged success is kept until its time is over";
pub(crate) const UNKNOWN_IS_KEPT: &str =
    "an acknowledged unknown is kept until it is settled or its time is over";
pub(crate) const LEASES_PASS: &str = "nobody holds the key longer than a lease";

/// Whether it has to hold in every state, and not only in some.
pub(crate) fn must_hold(statement: &str) -> bool {
    let all = [
        ONE_HOLDER,
        NO_OVERLAP,
        NO_RESERVATION_OVER_RESULTS,
        VERDICTS_RESPECT_SUCCESS,
        SUCCESS_IS_KEPT,
        UNKNOWN_IS_KEPT,
        LEASES_PASS,
    ];
    all.contains(&statement)
}

pub(crate) fn all() -> Vec<Property<Spine>> {
    fn not(world: &World, rule: Broken) -> bool {
        world.broken != Some(rule)
    }
    fn keeps(world: &World, kind: Kind) -> bool {
        world.acknowledged != Some(kind) || world.cell.keeps(kind)
    }
    vec![
        Property::always(ONE_HOLDER, |_, world: &World| {
            let holders = world.owners.iter().filter(|owner| owner.holds).count();
            holders <= 1 && not(world, Broken::TakenByAnother) && not(world, Broken::Revived)
        }),
        Property::always(NO_OVERLAP, |_, world| not(world, Broken::Overlap)),
        Property::always(NO_RESERVATION_OVER_RESULTS, |_, world| not(world, Broken::ReservedOverResult)),
        Property::always(VERDICTS_RESPECT_SUCCESS, |_, world| not(world, Broken::DidNotOverSuccess)),
        Property::always(SUCCESS_IS_KEPT, |_, world| keeps(world, Kind::Done)),
        Property::always(UNKNOWN_IS_KEPT, |_, world| keeps(world, Kind::Unknown)),
        Property::always(LEASES_PASS, |_, world| not(world, Broken::HeldForEver)),
        // So that a world in which nothing happens is seen.
        Property::sometimes("a late success becomes the record", |_, world: &World| {
            matches!(world.cell, Cell::Pending { live: false, .. })
                && matches!(world.cell.seen(), Cell::Settled(outcome) if outcome.kind == Kind::Done)
        }),
        Property::sometimes("an effect runs after a verdict", |_, world: &World| {
            let dropped = |owner: &Owner| owner.sent & (1 << Sent::Drop as u8) != 0;
            world.owners.iter().any(|owner| owner.phase == Phase::Running && dropped(owner))
        }),
    ]
}
