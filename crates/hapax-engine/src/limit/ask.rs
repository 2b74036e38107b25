//! A question to limits, with its settings.

use super::{Decision, Limit, LimitError, Permit, RateLimiter, WhenDown};
use hapax_core::BoxFuture;
use std::{
    borrow::Cow,
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) cost: u32,
    pub(super) dry_run: bool,
    pub(super) shadow: bool,
    pub(super) wait: Option<Duration>,
    pub(super) when_down: Option<WhenDown>,
}

/// What is asked about. Most questions are about one limit: no list for those.
pub(super) enum Limits<'a> {
    One(Cow<'a, Limit>),
    Several(Vec<Limit>),
}

/// A question that has not been asked: a future with settings.
#[must_use = "nothing is asked until this is awaited"]
pub struct Ask<'a> {
    limiter: &'a RateLimiter,
    start: Option<Limits<'a>>,
    settings: Settings,
    running: Option<BoxFuture<'a, Result<Decision, LimitError>>>,
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<'a> Ask<'a> {
    pub(super) fn new(limiter: &'a RateLimiter, limits: Limits<'a>) -> Self {
        let settings = Settings { cost: 1, dry_run: false, shadow: false, wait: None, when_down: None };
        Self { limiter, start: Some(limits), settings, running: None }
    }

    /// The request takes so much (1).
    pub fn cost(mut self, cost: u32) -> Self {
        self.settings.cost = cost;
        self
    }

    /// Answers as if it were asked in earnest, and counts nothing.
    pub fn dry_run(mut self) -> Self {
        self.settings.dry_run = true;
        self
    }

    /// All its limits are shadows: they count apart, and let everything pass.
    pub fn shadow(mut self) -> Self {
        self.settings.shadow = true;
        self
    }

    /// Waits up to `limit` until the request may pass. What cannot pass in that time is answered at once.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.settings.wait = Some(limit);
        self
    }

    /// What is answered when the store cannot be reached.
    pub fn when_down(mut self, answer: WhenDown) -> Self {
        self.settings.when_down = Some(answer);
        self
    }
}

impl Future for Ask<'_> {
    type Output = Result<Decision, LimitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (limiter, settings) = (self.limiter, self.settings);
        if let Some(limits) = self.start.take() {
            let limits = match limits {
                // Most decisions in memory end here, without a box.
                Limits::One(limit) => match limiter.now(limit, &settings) {
                    Ok(answer) => return Poll::Ready(answer),
                    Err(limit) => vec![limit.into_owned()],
                },
                Limits::Several(limits) => limits,
            };
            self.running = Some(Box::pin(limiter.decide(limits, settings)));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// An [`Ask`] whose refusal is an error.
#[must_use = "nothing is asked until this is awaited"]
#[derive(Debug)]
pub struct Require<'a>(pub(super) Ask<'a>);

impl Require<'_> {
    /// The request takes so much (1).
    pub fn cost(self, cost: u32) -> Self {
        Self(self.0.cost(cost))
    }

    /// Answers as if it were asked in earnest, and counts nothing.
    pub fn dry_run(self) -> Self {
        Self(self.0.dry_run())
    }

    /// All its limits are shadows: they count apart, and let everything pass.
    pub fn shadow(self) -> Self {
        Self(self.0.shadow())
    }

    /// Waits up to `limit` until the request may pass. What cannot pass in that time is answered at once.
    pub fn wait(self, limit: Duration) -> Self {
        Self(self.0.wait(limit))
    }

    /// What is answered when the store cannot be reached.
    pub fn when_down(self, answer: WhenDown) -> Self {
        Self(self.0.when_down(answer))
    }
}

impl Future for Require<'_> {
    type Output = Result<Permit, LimitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| match answer? {
            decision if decision.allowed() => Ok(Permit(decision)),
            decision => Err(LimitError::Limited(decision)),
        })
    }
}
