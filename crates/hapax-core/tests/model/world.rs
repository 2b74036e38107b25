//! Owners, a resolver, a hand, and the network between them and one key.

use crate::{
    rules::{Cell, Rules, Who},
    statements,
};
use hapax_core::idempotency::{Dropped, Kind, Reserved, Resolved, Retaken};
use stateright::{Model, Property};

/// Where an owner is in its call. It makes one call under one token, and its next request follows from this.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    /// Reserves.
    Calling,
    /// Found an unknown outcome and retakes it.
    Retaking,
    /// Holds the key and waits for the verdict.
    Asking,
    /// Was told that it did not happen, and drops the unknown.
    Dropping,
    /// Its effect runs.
    Running,
    /// Its effect ended so.
    Completing(Kind),
    /// Its effect failed without effect, nobody could tell, or its reservation had no answer.
    Releasing,
    /// Answered, or dead.
    Ended,
}

/// A request that an owner sent at least once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Sent {
    Reserve,
    Retake,
    Drop,
    Happened,
    Unknown,
    Release,
    Extend,
}

const ALL: [Sent; 7] =
    [Sent::Reserve, Sent::Retake, Sent::Drop, Sent::Happened, Sent::Unknown, Sent::Release, Sent::Extend];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) phase: Phase,
    /// One bit for each of [`Sent`].
    pub(crate) sent: u8,
    /// Was granted the key, and no lease passed and nobody forced it out since.
    pub(crate) holds: bool,
}

/// What must not happen. The first one is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Broken {
    Overlap,
    ReservedOverResult,
    DidNotOverSuccess,
    HeldForEver,
    TakenByAnother,
    Revived,
}

/// The most owners in one world.
const OWNERS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) cell: Cell,
    pub(crate) owners: [Owner; OWNERS],
    /// The best outcome that the store acknowledged and that has neither ended nor been settled.
    pub(crate) acknowledged: Option<Kind>,
    /// Requests that may still arrive a second time.
    duplicates: u8,
    forced: u8,
    /// A verdict by hand that was sent: on which record, and what it says.
    verdict: Option<(Option<Who>, bool)>,
    verdicts: u8,
    pub(crate) broken: Option<Broken>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// An owner's next request is done and answered.
    Answered(Who),
    /// It is done, and its reply is lost: the owner sends it again.
    ReplyLost(Who),
    /// An owner stops asking for a reservation that had no answer.
    GivesUp(Who),
    /// An owner dies. What it was about to send may be on its way.
    Dies(Who),
    Effect(Who, Option<Kind>),
    /// The answer of whoever was asked: it happened, it did not, or nobody can tell.
    Told(Who, Option<bool>),
    Extends(Who),
    /// An earlier request arrives once more, however late.
    Again(Who, Sent),
    VerdictAgain,
    LeasePasses,
    ResultsEnd,
    Forced,
    Verdict(Option<Who>, bool),
}

/// How much of the world is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spine {
    pub(crate) rules: Rules,
    pub(crate) owners: u8,
    pub(crate) duplicates: u8,
    pub(crate) forced: u8,
    pub(crate) verdicts: u8,
}

impl World {
    fn owner(&mut self, who: Who) -> &mut Owner {
        &mut self.owners[usize::from(who)]
    }

    fn breaks(&mut self, rule: Broken) {
        self.broken.get_or_insert(rule);
    }

    /// `who` starts its effect: nobody else's may run, unless its lease passed or it was forced out.
    fn runs(&mut self, who: Who) {
        let others = self.owners.iter().enumerate().filter(|(n, _)| *n != usize::from(who));
        if others.into_iter().any(|(_, other)| other.holds && other.phase == Phase::Running) {
            self.breaks(Broken::Overlap);
        }
        self.owner(who).phase = Phase::Running;
    }

    fn has_sent(&mut self, who: Who, sent: Sent) {
        self.owner(who).sent |= 1 << sent as u8;
    }

    fn acknowledges(&mut self, kind: Kind) {
        if self.acknowledged != Some(Kind::Done) {
            self.acknowledged = Some(kind);
        }
    }

    /// A request arrives at the store, and changes the world there. Its answer is that of the step.
    fn arrives(&mut self, rules: Rules, who: Who, request: Sent) -> Answer {
        let before = self.cell;
        let cell = &mut self.cell;
        let answer = match request {
            Sent::Reserve => Answer::Reserved(rules.reserve(cell, who)),
            Sent::Retake => Answer::Retaken(rules.retake(cell, who)),
            Sent::Drop => Answer::Dropped(rules.drop_unknown(cell, who)),
            Sent::Happened => {
                let _any = rules.complete(cell, who, Kind::Done);
                Answer::Completed
            }
            Sent::Unknown => {
                let _any = rules.complete(cell, who, Kind::Unknown);
                Answer::Completed
            }
            Sent::Release => {
                let _any = rules.release(cell, who);
                Answer::Write
            }
            Sent::Extend => {
                let _any = rules.extend(cell, who);
                Answer::Extended
            }
        };
        let held = |cell: Cell| match cell {
            Cell::Pending { who, live: true, .. } => Some(who),
            _ => None,
        };
        // A token changes nothing of another's reservation but what lies beside it.
        if held(before).is_some_and(|holder| holder != who && held(self.cell) != Some(holder)) {
            self.breaks(Broken::TakenByAnother);
        }
        let granted = held(self.cell) == Some(who) && held(before) != Some(who);
        match &answer {
            Answer::Reserved(Reserved::Yours { .. }) if granted && self.acknowledged.is_some() => {
                self.breaks(Broken::ReservedOverResult);
            }
            Answer::Retaken(Retaken::Yours { .. }) if granted && self.acknowledged == Some(Kind::Done) => {
                self.breaks(Broken::ReservedOverResult);
            }
            Answer::Extended if granted => self.breaks(Broken::Revived),
            Answer::Dropped(Dropped::Dropped) => {
                if self.acknowledged == Some(Kind::Done) {
                    self.breaks(Broken::DidNotOverSuccess);
                }
                self.acknowledged = self.acknowledged.filter(|kind| *kind == Kind::Done);
            }
            Answer::Completed => {
                self.acknowledges(if request == Sent::Happened { Kind::Done } else { Kind::Unknown });
            }
            _ => {}
        }
        answer
    }

    /// What an owner makes of the answer to its request.
    fn told(&mut self, who: Who, answer: &Answer) {
        let phase = match answer {
            Answer::Reserved(Reserved::Yours { .. }) => {
                self.owner(who).holds = true;
                return self.runs(who);
            }
            Answer::Reserved(Reserved::Held(_)) => match self.cell {
                Cell::Settled(outcome) if outcome.kind == Kind::Unknown && outcome.who != who => {
                    Phase::Retaking
                }
                _ => Phase::Ended,
            },
            Answer::Retaken(Retaken::Yours { .. }) => {
                self.owner(who).holds = true;
                Phase::Asking
            }
            Answer::Dropped(Dropped::Dropped) => return self.runs(who),
            Answer::Dropped(Dropped::Refused) => Phase::Releasing,
            _ => Phase::Ended,
        };
        self.owner(who).phase = phase;
    }

    /// What was sent matters as long as it can arrive again; until then one world is like another.
    fn forgets_what_cannot_matter(&mut self) {
        if self.duplicates > 0 {
            return;
        }
        self.verdict = None;
        for owner in &mut self.owners {
            let asks = matches!(owner.phase, Phase::Calling | Phase::Retaking);
            // That there was a request, and that the unknown was dropped, is asked for elsewhere.
            let dropped = owner.sent & (1 << Sent::Drop as u8);
            owner.sent = if asks { u8::from(owner.sent != 0) } else { dropped };
            if owner.phase == Phase::Ended {
                owner.sent = 0;
            }
        }
    }

    fn resolved(&mut self, rules: Rules, hand: Who, (seen, happened): (Option<Who>, bool)) {
        if rules.resolve(&mut self.cell, hand, seen, happened) == Resolved::Applied {
            if self.acknowledged == Some(Kind::Done) && !happened {
                self.breaks(Broken::DidNotOverSuccess);
            }
            self.acknowledged = happened.then_some(Kind::Done);
        }
    }
}

enum Answer {
    Reserved(Reserved),
    Retaken(Retaken),
    Dropped(Dropped),
    Completed,
    Write,
    Extended,
}

impl Phase {
    fn request(self) -> Option<Sent> {
        Some(match self {
            Self::Calling => Sent::Reserve,
            Self::Retaking => Sent::Retake,
            Self::Dropping => Sent::Drop,
            Self::Completing(Kind::Done) => Sent::Happened,
            Self::Completing(Kind::Unknown) => Sent::Unknown,
            Self::Releasing => Sent::Release,
            Self::Asking | Self::Running | Self::Ended => return None,
        })
    }
}

impl Model for Spine {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let owner = Owner { phase: Phase::Calling, sent: 0, holds: false };
        vec![World {
            cell: Cell::Vacant,
            owners: [owner; OWNERS],
            acknowledged: None,
            duplicates: self.duplicates,
            forced: self.forced,
            verdict: None,
            verdicts: self.verdicts,
            broken: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (who, owner) in (0..self.owners).zip(&world.owners) {
            if let Some(_request) = owner.phase.request() {
                actions.extend([Action::Answered(who), Action::ReplyLost(who)]);
            }
            match owner.phase {
                Phase::Running => actions.extend(
                    [Some(Kind::Done), Some(Kind::Unknown), None].map(|outcome| Action::Effect(who, outcome)),
                ),
                Phase::Asking => {
                    actions.extend([Some(true), Some(false), None].map(|verdict| Action::Told(who, verdict)));
                }
                Phase::Calling | Phase::Retaking if owner.sent != 0 => actions.push(Action::GivesUp(who)),
                _ => {}
            }
            if matches!(owner.phase, Phase::Running | Phase::Asking) {
                actions.push(Action::Extends(who));
            }
            if owner.phase != Phase::Ended {
                actions.push(Action::Dies(who));
            }
            if world.duplicates > 0 {
                let sent = ALL.into_iter().filter(|sent| owner.sent & (1 << *sent as u8) != 0);
                actions.extend(sent.map(|sent| Action::Again(who, sent)));
            }
            // Owners are alike, so they call in their order.
            if owner.phase == Phase::Calling && owner.sent == 0 {
                break;
            }
        }
        match world.cell {
            Cell::Pending { live: true, .. } => {
                actions.push(Action::LeasePasses);
                if world.forced > 0 {
                    actions.push(Action::Forced);
                }
            }
            Cell::Pending { live: false, .. } | Cell::Settled(_) | Cell::Vacant => {}
        }
        match world.cell {
            Cell::Pending { late: Some(outcome), .. } | Cell::Settled(outcome) if !outcome.over => {
                actions.push(Action::ResultsEnd);
            }
            _ => {}
        }
        if let (Cell::Settled(outcome), 1..) = (world.cell.seen(), world.verdicts)
            && outcome.kind == Kind::Unknown
        {
            // Sent now, it may find something else when it arrives: see `VerdictAgain`.
            for happened in [true, false] {
                actions
                    .extend([Action::Verdict(None, happened), Action::Verdict(Some(outcome.who), happened)]);
            }
        }
        // Without a version it means whatever is unknown when it arrives, so only one with a version may come late.
        if world.duplicates > 0 && world.verdict.is_some_and(|(seen, _)| seen.is_some()) {
            actions.push(Action::VerdictAgain);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = *before;
        match action {
            Action::Answered(who) | Action::ReplyLost(who) => {
                let request = world.owners.get(usize::from(who))?.phase.request()?;
                world.has_sent(who, request);
                if matches!(request, Sent::Happened | Sent::Unknown | Sent::Release) {
                    world.owner(who).holds = false;
                }
                let answer = world.arrives(self.rules, who, request);
                if matches!(action, Action::Answered(_)) {
                    world.told(who, &answer);
                }
            }
            Action::GivesUp(who) => world.owner(who).phase = Phase::Releasing,
            Action::Dies(who) => {
                let owner = world.owner(who);
                let on_its_way = owner.phase.request();
                (owner.phase, owner.holds) = (Phase::Ended, false);
                if let Some(request) = on_its_way {
                    world.has_sent(who, request);
                }
            }
            Action::Effect(who, outcome) => {
                world.owner(who).phase = outcome.map_or(Phase::Releasing, Phase::Completing);
            }
            Action::Told(who, verdict) => {
                world.owner(who).phase = match verdict {
                    Some(true) => Phase::Completing(Kind::Done),
                    Some(false) => Phase::Dropping,
                    None => Phase::Releasing,
                };
            }
            Action::Extends(who) => {
                world.has_sent(who, Sent::Extend);
                let _learns_of_its_loss = world.arrives(self.rules, who, Sent::Extend);
            }
            Action::Again(who, sent) => {
                world.duplicates -= 1;
                let _unread = world.arrives(self.rules, who, sent);
            }
            Action::LeasePasses => {
                let Cell::Pending { who, live, .. } = &mut world.cell else { return None };
                *live = false;
                let who = *who;
                world.owner(who).holds = false;
                if world.cell.reads_pending() {
                    world.breaks(Broken::HeldForEver);
                }
            }
            Action::ResultsEnd => {
                match &mut world.cell {
                    Cell::Pending { late: Some(outcome), .. } | Cell::Settled(outcome) => outcome.over = true,
                    _ => return None,
                }
                world.acknowledged = None;
            }
            Action::Forced => {
                world.forced -= 1;
                if let Cell::Pending { who, .. } = world.cell {
                    world.owner(who).holds = false;
                }
                let _applied = self.rules.force_release(&mut world.cell);
            }
            Action::Verdict(seen, happened) => {
                world.verdicts -= 1;
                world.verdict = Some((seen, happened));
                world.resolved(self.rules, self.owners, (seen, happened));
            }
            Action::VerdictAgain => {
                world.duplicates -= 1;
                world.resolved(self.rules, self.owners, world.verdict?);
            }
        }
        world.forgets_what_cannot_matter();
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        statements::all()
    }
}
