//! What a store of idempotency keys promises.
//!
//! Each method is one atomic step. Its request carries a [`Token`] that the caller made once for the logical call, so
//! a step may be sent again after a lost reply: the store that finds the token answers as the first time did.
//! Fingerprints are kept and returned, never compared: that is the engine's part.

pub mod machine;
mod record;
mod request;

pub use record::{Entry, JSON, Kind, Pending, Receipt, Record, RecordState, Settled, StateFilter};
pub use request::{
    Complete, Completed, Dropped, Extended, List, Page, Reserve, Reserved, Resolution, Resolve, Resolved,
    Retake, Retaken, Write,
};

use crate::{Name, Span, StoreResult, Token};
use async_trait::async_trait;
use std::{fmt, sync::Arc};

/// A store of idempotency keys.
///
/// The answers of each step are those of the function of the same name in [`machine`]. Decorators of a store should
/// deny `clippy::missing_trait_methods`, so that no slow default is inherited by accident.
#[async_trait]
pub trait IdempotencyStore: Send + Sync + fmt::Debug {
    /// Holds the key pending under the request's token, or answers what holds it.
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved>;

    /// Keeps the receipt of the token's effect, beside a newer owner's reservation where there is one.
    async fn complete(&self, req: &Complete) -> StoreResult<Completed>;

    /// Frees the key, when `token` holds it pending; a late result takes its place.
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write>;

    /// Moves the end of a live lease of `token`; never revives one, never shortens it.
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended>;

    /// Holds a key of unknown outcome pending while somebody is asked about it; the unknown record stays beside it.
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken>;

    /// Forgets the unknown result beside `token`'s reservation, unless it has become a success meanwhile.
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped>;

    /// Settles an unknown outcome by a verdict, or forgets a record.
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved>;

    /// Ends a pending reservation whoever holds it.
    async fn force_release(&self, name: &Name) -> StoreResult<Write>;

    /// What is under the key. Writes nothing.
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>>;

    /// A token for a new call: random bits of the system. Where keys never leave the process it may be had for less, as
    /// long as it never comes twice.
    fn token(&self) -> StoreResult<Token> {
        Token::random()
    }

    /// What is under the key, where that can be told without a round trip and without waiting; `None` says nothing.
    ///
    /// The engine asks before it reserves: most replays then cost no token and no future. A store whose records are
    /// elsewhere leaves it as it is.
    fn peek(&self, name: &Name) -> Option<Record> {
        let _ = name;
        None
    }

    /// A page of the records of a namespace, in the order of scope and key. Writes nothing.
    async fn list(&self, req: &List) -> StoreResult<Page>;

    /// Removes up to `limit` records that are over; answers how many went. Never needed for a right answer.
    async fn prune(&self, limit: usize) -> StoreResult<usize>;

    /// A batch, each with its own answer, in order. One round trip where the store can; the default loops.
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        let mut answers = Vec::with_capacity(reqs.len());
        for req in reqs {
            answers.push(self.reserve(req).await);
        }
        answers
    }

    /// A batch, each with its own answer, in order. One round trip where the store can; the default loops.
    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        let mut answers = Vec::with_capacity(reqs.len());
        for req in reqs {
            answers.push(self.complete(req).await);
        }
        answers
    }

    /// A batch, each with its own answer, in order. One round trip where the store can; the default loops.
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let mut answers = Vec::with_capacity(reqs.len());
        for (name, token, lease) in reqs {
            answers.push(self.extend(name, token, *lease).await);
        }
        answers
    }

    /// A batch, each with its own answer, in order. One round trip where the store can; the default loops.
    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        let mut answers = Vec::with_capacity(reqs.len());
        for (name, token) in reqs {
            answers.push(self.release(name, token).await);
        }
        answers
    }

    /// Thirty-two random bytes that this store made at first use and keeps for good; message ids are derived from
    /// them. `None` where the store keeps none: ids are then derived without a secret.
    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        Ok(None)
    }
}

// A URL picks the store at run time.
const _: fn(&dyn IdempotencyStore) = |_| {};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore + ?Sized> IdempotencyStore for Arc<S> {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        (**self).reserve(req).await
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        (**self).complete(req).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        (**self).release(name, token).await
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        (**self).extend(name, token, lease).await
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        (**self).retake_unknown(req).await
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        (**self).drop_unknown(name, token).await
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        (**self).resolve(req).await
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        (**self).force_release(name).await
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        (**self).read(name).await
    }
    fn token(&self) -> StoreResult<Token> {
        (**self).token()
    }
    fn peek(&self, name: &Name) -> Option<Record> {
        (**self).peek(name)
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        (**self).list(req).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        (**self).prune(limit).await
    }
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        (**self).reserve_many(reqs).await
    }
    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        (**self).complete_many(reqs).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        (**self).extend_many(reqs).await
    }
    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        (**self).release_many(reqs).await
    }
    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        (**self).secret().await
    }
}
