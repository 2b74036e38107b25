//! What stands in the writer's queue: the steps of one call, and the way back to its caller.

use crate::{
    error::Failure,
    patience::real_time,
    step::{Moment, Step, Unwanted},
    writer::Writer,
};
use hapax_core::{Name, StoreResult};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::oneshot};

/// The steps of one call, whatever they are. Steps are run in order; a commit may end between two of them.
pub(crate) trait Unit: Send {
    /// Whether anybody waits for it.
    fn is_wanted(&self) -> bool;
    /// When its caller stops waiting.
    fn deadline(&self) -> Instant;
    /// Marks it as on its way, after which its caller can't take it back. `false`: the caller is gone already.
    fn depart(&self) -> bool;
    /// The name and weight of the next step; none when all have run.
    fn next(&self) -> Option<(Option<&Name>, Load)>;
    /// Runs the next step in the open transaction.
    fn run(&mut self, tx: &Moment<'_>) -> rusqlite::Result<()>;
    /// The transaction was committed. Answers whether somebody who waits for jobs, or for a lock, may get one.
    fn keep(&mut self) -> bool;
    /// The transaction was undone: its steps are still to be run.
    fn undo(&mut self);
    /// Whether the transaction was committed is not known: its steps are not run again.
    fn doubt(&mut self, failure: &Failure);
    /// The next step is not run.
    fn refuse(&mut self, failure: &Failure);
    /// Gives the answers to the caller; steps that have none get the failure.
    fn answer(self: Box<Self>, failure: &Failure);
}

/// What a step weighs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Load {
    pub(crate) fn of(step: &impl Step) -> Self {
        Self { rows: step.rows().max(1), bytes: step.bytes() }
    }
}

/// The steps of one call.
pub(crate) struct Call<S: Step> {
    steps: Vec<S>,
    /// Of the steps that are over.
    answers: Vec<StoreResult<S::Answer>>,
    /// Of the steps in the open transaction.
    open: Vec<S::Answer>,
    deadline: Instant,
    departed: Arc<AtomicBool>,
    /// None where nobody asked.
    reply: Option<oneshot::Sender<Delivery<S>>>,
    home: Home,
}

/// Where releases of what nobody wants go.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) writer: Weak<Writer>,
    pub(crate) runtime: Handle,
}

/// The caller's end of a [`Call`].
pub(crate) struct Ticket<S: Step> {
    pub(crate) reply: oneshot::Receiver<Delivery<S>>,
    departed: Arc<AtomicBool>,
}

impl<S: Step> Call<S> {
    pub(crate) fn new(steps: Vec<S>, limit: Duration, home: Home) -> (Self, Ticket<S>) {
        let (sender, reply) = oneshot::channel();
        let departed = Arc::new(AtomicBool::new(false));
        let ticket = Ticket { reply, departed: Arc::clone(&departed) };
        (Self::with(steps, limit, home, departed, Some(sender)), ticket)
    }

    /// Without a caller.
    pub(crate) fn unasked(steps: Vec<S>, limit: Duration, home: Home) -> Self {
        Self::with(steps, limit, home, Arc::default(), None)
    }

    fn with(
        steps: Vec<S>,
        limit: Duration,
        home: Home,
        departed: Arc<AtomicBool>,
        reply: Option<oneshot::Sender<Delivery<S>>>,
    ) -> Self {
        let answers = Vec::with_capacity(steps.len());
        Self { steps, answers, open: Vec::new(), deadline: real_time() + limit, departed, reply, home }
    }
}

impl<S: Step> Ticket<S> {
    /// Whether the call left before its caller went away. Ask after closing `reply`: then one of the two sees the other.
    pub(crate) fn departed(&self) -> bool {
        self.departed.load(Ordering::SeqCst)
    }
}

impl<S: Step> Unit for Call<S> {
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_none_or(|reply| !reply.is_closed())
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn depart(&self) -> bool {
        self.departed.store(true, Ordering::SeqCst);
        self.is_wanted()
    }

    fn next(&self) -> Option<(Option<&Name>, Load)> {
        self.steps.get(self.answers.len() + self.open.len()).map(|step| (step.name(), Load::of(step)))
    }

    fn run(&mut self, tx: &Moment<'_>) -> rusqlite::Result<()> {
        if let Some(step) = self.steps.get(self.answers.len() + self.open.len()) {
            self.open.push(step.take(tx)?);
        }
        Ok(())
    }

    fn keep(&mut self) -> bool {
        let mut steps = self.steps.iter().skip(self.answers.len()).zip(&self.open);
        let wakes = steps.any(|(step, answer)| step.wakes(answer));
        self.answers.extend(self.open.drain(..).map(Ok));
        wakes
    }

    fn undo(&mut self) {
        self.open.clear();
    }

    fn doubt(&mut self, failure: &Failure) {
        self.answers.extend(self.open.drain(..).map(|_| Err(failure.error(S::OP))));
    }

    fn refuse(&mut self, failure: &Failure) {
        if self.answers.len() < self.steps.len() {
            self.answers.push(Err(failure.error(S::OP)));
        }
    }

    fn answer(mut self: Box<Self>, failure: &Failure) {
        self.answers.resize_with(self.steps.len(), || Err(failure.error(S::OP)));
        let Self { steps, answers, reply, home, .. } = *self;
        if let Some(reply) = reply {
            // A caller that is gone leaves the delivery here, and dropping it tidies up.
            drop(reply.send(Delivery { steps, answers, home }));
        }
    }
}

/// Answers on their way. Dropped unread, by a caller that went away, they release what nobody wants.
pub(crate) struct Delivery<S: Step> {
    steps: Vec<S>,
    answers: Vec<StoreResult<S::Answer>>,
    home: Home,
}

impl<S: Step> Delivery<S> {
    pub(crate) fn read(mut self) -> Vec<StoreResult<S::Answer>> {
        std::mem::take(&mut self.answers)
    }
}

impl<S: Step> Drop for Delivery<S> {
    fn drop(&mut self) {
        let pairs = self.steps.iter().zip(&self.answers);
        let unwanted: Vec<Unwanted> =
            pairs.filter_map(|(step, answer)| step.unwanted(answer.as_ref().ok()?)).collect();
        if !unwanted.is_empty()
            && let Some(writer) = self.home.writer.upgrade()
        {
            writer.release(unwanted, self.home.clone());
        }
    }
}
