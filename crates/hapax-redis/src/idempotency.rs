//! The contract of a store.

use crate::{
    ask::Ask,
    error::Failure,
    keys,
    reserve::Told,
    step::{DropUnknown, Extend, ForceRelease, Read, Release, Step, Verdict},
    store::RedisStore,
    value,
};
use async_trait::async_trait;
use hapax_core::{
    Name, Span, StoreErrorKind, StoreResult, Token, Version,
    idempotency::{
        Complete, Completed, Dropped, Entry, Extended, IdempotencyStore, Kind, List, Page, Record, Reserve,
        Reserved, Resolution, Resolve, Resolved, Retake, Retaken, Write,
    },
};
use redis::{Cmd, Value};

impl RedisStore {
    /// A server without room takes no new key, but what is there still answers.
    async fn without_room(&self, req: &Reserve, failure: Failure) -> StoreResult<Reserved> {
        let error = failure.error(Reserve::OP);
        if failure.kind == StoreErrorKind::Full
            && let Ok(Some(record)) = IdempotencyStore::read(self, &req.name).await
            && record.version() != req.token.version()
        {
            return Ok(Reserved::Held(record));
        }
        Err(error)
    }

    /// Notes names whose outcome is unknown, so that listing those needs no scan. A note too many does no harm.
    async fn note_unknowns(&self, reqs: impl Iterator<Item = &Complete>) {
        let now = self.connector().clock.millis();
        let mut asks = Vec::new();
        for req in reqs {
            let key = self.keys().unknowns(req.name.namespace());
            let ends = now.saturating_add(i64::try_from(req.ttl.as_millis()).unwrap_or(i64::MAX));
            let mut add = redis::cmd("ZADD");
            add.arg(&key).arg(ends).arg(keys::member(&req.name));
            asks.push(Ask::Plain(key.clone(), add));
            asks.push(Ask::Plain(key.clone(), expire(&key)));
        }
        if asks.is_empty() {
            return;
        }
        for noted in self.lines.call(&asks, true).await {
            if let Err(failure) = noted {
                tracing::debug!(error = %failure.error("note an unknown outcome"), "the list of unknowns lacks a name");
            }
        }
    }

    /// The record, as long as a plain look tells.
    async fn look(&self, name: &Name) -> Result<Option<Option<Record>>, Failure> {
        let key = self.keys().record(name);
        let mut get = redis::cmd("GET");
        get.arg(&key);
        let reply = self.lines.call_one(&Ask::Plain(key, get), true).await?;
        let entry = match reply {
            Value::Nil => return Ok(Some(None)),
            Value::BulkString(bytes) => value::decode(bytes),
            _ => return Err(Failure::nonsense(&self.connector().place)),
        };
        if matches!(&entry, Entry::Pending(pending) if pending.late.is_some()) {
            return Ok(None);
        }
        let now = value::moment(self.connector().clock.millis());
        Ok(Some(Some(Record::of(&entry, &now))))
    }

    /// What tells a script which record a verdict names by its version, since a script cannot make a version of a token: its
    /// token; to forget it, `t` and the token, or `v` and the whole value of what cannot be read.
    async fn seen(&self, req: &Resolve) -> Result<Option<Vec<u8>>, Failure> {
        let Some(version) = req.version else { return Ok(None) };
        let key = self.keys().record(&req.name);
        let mut get = redis::cmd("GET");
        get.arg(&key);
        let reply = self.lines.call_one(&Ask::Plain(key, get), true).await?;
        let entry = match reply {
            Value::BulkString(bytes) => Some((value::decode(bytes.clone()), bytes)),
            _ => None,
        };
        if matches!(req.resolution, Resolution::Forget) {
            return Ok(entry.and_then(|(entry, bytes)| match entry {
                Entry::Unreadable if unreadable().version() == version => Some([b"v", &bytes[..]].concat()),
                Entry::Unreadable => None,
                entry => token_of(&entry, version).map(|token| [b"t", &token.as_bytes()[..]].concat()),
            }));
        }
        let token = entry.and_then(|(entry, _)| token_of(&entry, version));
        // None has it: a token that no record has, so that the script says what is there.
        Ok(Some(token.unwrap_or(req.token).as_bytes().to_vec()))
    }
}

/// The token of the result that a version names: the record, or what becomes it when a lease has passed.
fn token_of(entry: &Entry, version: Version) -> Option<Token> {
    let token = match entry {
        Entry::Settled(settled) => Some(settled.token),
        Entry::Pending(pending) => pending.late.as_ref().map(|late| late.token),
        Entry::Unreadable => None,
    };
    token.filter(|token| token.version() == version)
}

/// How what is no record is shown.
pub(crate) fn unreadable() -> Record {
    Record::of(&Entry::Unreadable, &value::moment(0))
}

/// The notes go when nothing was noted for as long as the longest result answers.
fn expire(key: &str) -> Cmd {
    let mut expire = redis::cmd("PEXPIRE");
    expire.arg(key).arg(Span::MAX.as_millis());
    expire
}

#[async_trait]
impl IdempotencyStore for RedisStore {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        match self.reserve_one(req).await {
            Ok(Told::Answer(answer)) => Ok(answer),
            // Apart, so that the usual call stays small.
            Ok(Told::AskAgain) => Box::pin(self.take(req)).await,
            Err(failure) => Box::pin(self.without_room(req, failure)).await,
        }
    }

    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        if req.kind == Kind::Done {
            return self.take(req).await;
        }
        // In this order, and without waiting in between.
        let both = async { tokio::join!(self.note_unknowns(std::iter::once(req)), self.take(req)).1 };
        Box::pin(both).await
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.take(&Release(name, token)).await
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.take(&Extend(name, token, lease)).await
    }

    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.take(req).await
    }

    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.take(&DropUnknown(name, token)).await
    }

    /// With a version it looks first, and takes the verdict only if the record it saw is still there.
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        let seen = self.seen(req).await.map_err(|failure| failure.error(Verdict::OP))?;
        self.take(&Verdict(req, seen)).await
    }

    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.take(&ForceRelease(name)).await
    }

    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        match self.look(name).await.map_err(|failure| failure.error(Read::OP))? {
            Some(found) => Ok(found),
            None => Box::pin(self.take(&Read(name))).await,
        }
    }

    async fn list(&self, req: &List) -> StoreResult<Page> {
        self.page(req).await
    }

    /// Nothing: Redis itself removes what is over.
    async fn prune(&self, _: usize) -> StoreResult<usize> {
        Ok(0)
    }

    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        let told = self.reserve_plainly(reqs).await;
        let again = reqs.iter().zip(&told).filter(|(_, told)| matches!(told, Ok(Told::AskAgain)));
        let again: Vec<_> = again.map(|(req, _)| req.clone()).collect();
        let mut scripted = self.take_many(&again).await.into_iter();
        let mut answers = Vec::with_capacity(reqs.len());
        for (req, told) in reqs.iter().zip(told) {
            answers.push(match told {
                Ok(Told::Answer(answer)) => Ok(answer),
                Ok(Told::AskAgain) => scripted
                    .next()
                    .unwrap_or_else(|| Err(Failure::nonsense(&self.connector().place).error(Reserve::OP))),
                Err(failure) => self.without_room(req, failure).await,
            });
        }
        answers
    }

    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        let unknown = reqs.iter().filter(|req| req.kind == Kind::Unknown);
        tokio::join!(self.note_unknowns(unknown), self.take_many(reqs)).1
    }

    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let steps: Vec<_> = reqs.iter().map(|(name, token, lease)| Extend(name, token, *lease)).collect();
        self.take_many(&steps).await
    }

    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        let steps: Vec<_> = reqs.iter().map(|(name, token)| Release(name, token)).collect();
        self.take_many(&steps).await
    }

    fn token(&self) -> StoreResult<Token> {
        self.tokens.next()
    }

    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        if let Some(secret) = self.secret.get() {
            return Ok(Some(*secret));
        }
        let made = self.kept_secret().await.map_err(|failure| failure.error("make its secret"))?;
        Ok(Some(*self.secret.get_or_init(|| made)))
    }
}
