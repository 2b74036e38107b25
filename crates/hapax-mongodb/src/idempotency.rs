//! The contract of a store.

use crate::{
    error::Failure,
    step::{DropUnknown, Extend, ForceRelease, Read, Release},
    store::MongoStore,
};
use async_trait::async_trait;
use hapax_core::{
    Name, Span, StoreErrorKind, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
        Resolve, Resolved, Retake, Retaken, Write,
    },
};
use mongodb::bson::doc;

const SECRET: &str = "read the store's secret";

#[async_trait]
impl IdempotencyStore for MongoStore {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        self.one(req).await
    }

    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.one(req).await
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.one(&Release(name, *token)).await
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.one(&Extend(name, *token, lease)).await
    }

    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.one(req).await
    }

    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.one(&DropUnknown(name, *token)).await
    }

    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        self.one(req).await
    }

    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.one(&ForceRelease(name)).await
    }

    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        self.one(&Read(name)).await
    }

    async fn list(&self, req: &List) -> StoreResult<Page> {
        self.page(req).await
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.sweep(limit).await
    }

    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        self.many(reqs).await
    }

    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        self.many(reqs).await
    }

    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let steps: Vec<_> = reqs.iter().map(|(name, token, lease)| Extend(name, *token, *lease)).collect();
        self.many(&steps).await
    }

    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        let steps: Vec<_> = reqs.iter().map(|(name, token)| Release(name, *token)).collect();
        self.many(&steps).await
    }

    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        if let Some(secret) = self.secret.get() {
            return Ok(Some(*secret));
        }
        let (deadline, new) = (self.sessions.deadline(), new_secret()?);
        let known = async {
            if let Some(known) = self.sessions.known("secret", deadline).await? {
                return Ok(Some(known));
            }
            // Another process may be doing the same: the first decides for both.
            self.sessions.know("secret", doc! { "secret": new }, deadline).await
        };
        let known = known.await.map_err(|failure: Failure| failure.error(SECRET))?;
        let kept = known
            .and_then(|known| <[u8; 32]>::try_from(hex::decode(known.get_str("secret").ok()?).ok()?).ok());
        let kept = kept.ok_or_else(|| {
            let reason = format!(
                "the store's secret is none: restore the collection `{}` from a backup",
                self.sessions.meta()
            );
            Failure::new(StoreErrorKind::Corrupt, reason).error(SECRET)
        })?;
        Ok(Some(*self.secret.get_or_init(|| kept)))
    }
}

fn new_secret() -> StoreResult<String> {
    let (a, b) = (Token::random()?, Token::random()?);
    Ok(hex::encode(a.as_bytes()) + &hex::encode(b.as_bytes()))
}
