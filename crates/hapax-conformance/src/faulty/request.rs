//! A writing step as data: it can be kept, and sent again later.

use hapax_core::{
    Name, Span, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, Reserve, Reserved, Resolve, Resolved,
        Retake, Retaken, Write,
    },
};

/// One of the twelve calls that a store may be asked for, batches counted with their single form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Step {
    /// `reserve` and `reserve_many`.
    Reserve,
    /// `complete` and `complete_many`.
    Complete,
    /// `release` and `release_many`.
    Release,
    /// `extend` and `extend_many`.
    Extend,
    /// `retake_unknown`.
    RetakeUnknown,
    /// `drop_unknown`.
    DropUnknown,
    /// `resolve`.
    Resolve,
    /// `force_release`.
    ForceRelease,
    /// `read`.
    Read,
    /// `list`.
    List,
    /// `prune`.
    Prune,
    /// `secret`.
    Secret,
}

/// A request of a writing step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Of `reserve`.
    Reserve(Reserve),
    /// Of `complete`.
    Complete(Complete),
    /// Of `release`.
    Release(Name, Token),
    /// Of `extend`.
    Extend(Name, Token, Span),
    /// Of `retake_unknown`.
    RetakeUnknown(Retake),
    /// Of `drop_unknown`.
    DropUnknown(Name, Token),
    /// Of `resolve`.
    Resolve(Resolve),
    /// Of `force_release`.
    ForceRelease(Name),
}

/// The answer to a [`Request`].
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// To `reserve`.
    Reserved(Reserved),
    /// To `complete`.
    Completed(Completed),
    /// To `release` and `force_release`.
    Write(Write),
    /// To `extend`.
    Extended(Extended),
    /// To `retake_unknown`.
    Retaken(Retaken),
    /// To `drop_unknown`.
    Dropped(Dropped),
    /// To `resolve`.
    Resolved(Resolved),
}

impl Request {
    /// Sends it.
    pub async fn send(&self, store: &(impl IdempotencyStore + ?Sized)) -> StoreResult<Answer> {
        Ok(match self {
            Self::Reserve(req) => Answer::Reserved(store.reserve(req).await?),
            Self::Complete(req) => Answer::Completed(store.complete(req).await?),
            Self::Release(name, token) => Answer::Write(store.release(name, token).await?),
            Self::Extend(name, token, lease) => Answer::Extended(store.extend(name, token, *lease).await?),
            Self::RetakeUnknown(req) => Answer::Retaken(store.retake_unknown(req).await?),
            Self::DropUnknown(name, token) => Answer::Dropped(store.drop_unknown(name, token).await?),
            Self::Resolve(req) => Answer::Resolved(store.resolve(req).await?),
            Self::ForceRelease(name) => Answer::Write(store.force_release(name).await?),
        })
    }

    /// Of which step it is.
    pub fn step(&self) -> Step {
        match self {
            Self::Reserve(_) => Step::Reserve,
            Self::Complete(_) => Step::Complete,
            Self::Release(..) => Step::Release,
            Self::Extend(..) => Step::Extend,
            Self::RetakeUnknown(_) => Step::RetakeUnknown,
            Self::DropUnknown(..) => Step::DropUnknown,
            Self::Resolve(_) => Step::Resolve,
            Self::ForceRelease(_) => Step::ForceRelease,
        }
    }

    /// Under which name.
    pub fn name(&self) -> &Name {
        match self {
            Self::Reserve(Reserve { name, .. })
            | Self::Complete(Complete { name, .. })
            | Self::RetakeUnknown(Retake { name, .. })
            | Self::Resolve(Resolve { name, .. })
            | Self::Release(name, _)
            | Self::Extend(name, _, _)
            | Self::DropUnknown(name, _)
            | Self::ForceRelease(name) => name,
        }
    }
}
