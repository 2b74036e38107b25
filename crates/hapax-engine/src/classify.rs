//! What an error says about its effect: it failed, or nobody knows.

use hapax_core::{Applied, BoxError, StoreError};
use std::{
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// What an error says about the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It did not happen, for certain: the key is freed.
    Failed,
    /// It may have happened: the key is kept, later calls answer `Unknown`.
    Unknown,
}

/// Implemented once for an error type of your own.
#[diagnostic::on_unimplemented(
    message = "hapax cannot tell whether `{Self}` means \"it failed\" or \"nobody knows\"",
    label = "may the effect have happened when this error comes back?",
    note = "say it at the effect: `|| charge(&order).unknown_when(|e| e.is_timeout())`",
    note = "or once, for an error type of your own: `impl hapax::Classify for …`"
)]
pub trait Classify {
    /// May the effect have happened when this error comes back?
    fn class(&self) -> Class;
}

impl Classify for std::convert::Infallible {
    fn class(&self) -> Class {
        match *self {}
    }
}

/// An error with its class; made by [`EffectExt`], unwrapped by `run`.
#[derive(Debug)]
pub struct Classified<E> {
    error: E,
    class: Class,
}

/// What `run` asks of an effect's error. Not implemented by hand: see [`Classify`] and [`EffectExt`].
#[diagnostic::on_unimplemented(
    message = "hapax cannot tell whether `{Self}` means \"it failed\" or \"nobody knows\"",
    label = "may the effect have happened when this error comes back?",
    note = "say it at the effect: `|| charge(&order).unknown_when(|e| e.is_timeout())`",
    note = "or once, for an error type of your own: `impl hapax::Classify for …`"
)]
pub trait EffectError {
    /// The error as the caller of `run` gets it.
    type Error: Into<BoxError> + Send;
    /// The error and its class.
    fn split(self) -> (Self::Error, Class);
}

impl<E: Classify + Into<BoxError> + Send> EffectError for E {
    type Error = E;
    fn split(self) -> (E, Class) {
        let class = self.class();
        (self, class)
    }
}

impl<E: Into<BoxError> + Send> EffectError for Classified<E> {
    type Error = E;
    fn split(self) -> (E, Class) {
        (self.error, self.class)
    }
}

/// Says what the errors of an effect mean, where the effect is.
pub trait EffectExt<T, E>: Future<Output = Result<T, E>> + Sized {
    /// Errors for which `pred` holds may hide a success; the others failed for certain.
    fn unknown_when<P: FnOnce(&E) -> bool>(self, pred: P) -> Judged<Self, P> {
        Judged { inner: self, pred: Some(pred), when: Class::Unknown }
    }

    /// Only errors for which `pred` holds failed for certain; the others may hide a success. The safer of the two.
    fn failed_when<P: FnOnce(&E) -> bool>(self, pred: P) -> Judged<Self, P> {
        Judged { inner: self, pred: Some(pred), when: Class::Failed }
    }

    /// Every error may hide a success.
    fn always_unknown(self) -> Judged<Self, fn(&E) -> bool> {
        self.unknown_when(|_| true)
    }

    /// No error hides a success.
    fn never_unknown(self) -> Judged<Self, fn(&E) -> bool> {
        self.failed_when(|_| true)
    }

    /// Time-outs, reset connections, broken pipes and unexpected ends, anywhere in the chain of sources, may hide a
    /// success; everything else failed for certain. Knows the errors of the standard library, tokio and hapax: look at
    /// what your client returns before you rely on it.
    fn by_default<M>(self) -> Judged<Self, fn(&E) -> bool>
    where
        E: Chain<M>,
    {
        self.unknown_when(|e: &E| may_hide_success(e.first()))
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> EffectExt<T, E> for F {}

/// The start of an error's chain of sources: for error types, and for boxes of any error (`anyhow::Error` too). The
/// parameter keeps the two apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no error whose chain of sources can be walked",
    note = "say what it means with `.unknown_when(…)` or `.failed_when(…)`"
)]
pub trait Chain<M> {
    /// The first of the chain.
    fn first(&self) -> &(dyn Error + 'static);
}

/// An error type of its own.
#[derive(Debug)]
pub struct Concrete;

/// A box of any error.
#[derive(Debug)]
pub struct Boxed;

impl<E: Error + 'static> Chain<Concrete> for E {
    fn first(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl<E: AsRef<dyn Error + Send + Sync + 'static>> Chain<Boxed> for E {
    fn first(&self) -> &(dyn Error + 'static) {
        self.as_ref()
    }
}

fn may_hide_success(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>()
            && matches!(
                io.kind(),
                TimedOut | ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof
            )
        {
            return true;
        }
        if error.is::<tokio::time::error::Elapsed>()
            || error.downcast_ref::<StoreError>().is_some_and(|e| e.applied() == Applied::Unknown)
            || error.downcast_ref::<crate::IdempotencyError>().is_some_and(|e| e.class() == Class::Unknown)
        {
            return true;
        }
        next = error.source();
    }
    false
}

pin_project_lite::pin_project! {
    /// The future of [`EffectExt`]'s methods.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Judged<F, P> {
        #[pin]
        inner: F,
        pred: Option<P>,
        when: Class,
    }
}

impl<F, P> std::fmt::Debug for Judged<F, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judged").field("when", &self.when).finish_non_exhaustive()
    }
}

impl<F: Future<Output = Result<T, E>>, P: FnOnce(&E) -> bool, T, E> Future for Judged<F, P> {
    type Output = Result<T, Classified<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.inner.poll(cx).map_err(|error| {
            let holds = this.pred.take().is_some_and(|pred| pred(&error));
            let class = match (*this.when, holds) {
                (Class::Failed, true) | (Class::Unknown, false) => Class::Failed,
                (Class::Failed, false) | (Class::Unknown, true) => Class::Unknown,
            };
            Classified { error, class }
        })
    }
}
