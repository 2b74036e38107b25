//! The contract of a store, on the writer and the readers.

use crate::{
    list,
    patience::real_time,
    prune::{self, KeepPosition, Position},
    row,
    step::{self, DropUnknown, Extend, ForceRelease, Forget, KeepSecret, Moment, Release, Step},
    store::SqliteStore,
};
use async_trait::async_trait;
use hapax_core::{
    Name, Span, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, List, Page, Record, Reserve, Reserved,
        Resolve, Resolved, Retake, Retaken, Write, machine,
    },
};

const READ: &str = "read a key";
const LIST: &str = "list keys";
const PRUNE: &str = "prune";
/// So many rows are looked at before what is over among them is removed.
const PRUNE_ROWS: usize = 1_024;
/// So many first looks are made before other tasks of the thread have their turn.
const LOOKS: usize = 64;

impl SqliteStore {
    /// Answers from what is there, without writing and without waiting for who does.
    pub(crate) async fn look<S: Step + Clone>(&self, step: &S) -> StoreResult<Option<S::Answer>> {
        if let Some(found) = self.writer.look(|now| step.look(now)) {
            return Ok(found);
        }
        match self.readers.here(S::OP, |now| step.look(now))? {
            Some(found) => Ok(found),
            None => {
                let step = step.clone();
                self.readers.elsewhere(S::OP, move |now| step.look(now)).await
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for SqliteStore {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        if let Some(answer) = self.writer.here(req)? {
            return Ok(answer);
        }
        match self.look(req).await? {
            Some(held) => Ok(held),
            None => self.writer.queued(req).await,
        }
    }

    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.writer.one(req).await
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.writer.one(&Release(name.clone(), *token)).await
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        let answer = self.writer.one(&Extend(name.clone(), *token, lease)).await;
        self.writer.told(answer, Extended::Fenced)
    }

    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.writer.one(req).await
    }

    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.writer.one(&DropUnknown(name.clone(), *token)).await
    }

    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        self.writer.one(req).await
    }

    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.writer.one(&ForceRelease(name.clone())).await
    }

    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        match self.readers.here(READ, |at| read(name, at))? {
            Some(found) => Ok(found),
            None => {
                let name = name.clone();
                self.readers.elsewhere(READ, move |at| read(&name, at)).await
            }
        }
    }

    fn token(&self) -> StoreResult<Token> {
        Token::random()
    }

    fn peek(&self, name: &Name) -> Option<Record> {
        // Whatever is in the way, the reserve that follows says.
        let found = self.writer.look(|at| read(name, at));
        found.or_else(|| self.readers.here(READ, |at| read(name, at)).ok().flatten()).flatten()
    }

    async fn list(&self, req: &List) -> StoreResult<Page> {
        // With a filter it may have to pass any number of rows.
        let req = req.clone();
        self.readers.elsewhere(LIST, move |at| list::page(at, &req)).await
    }

    /// Looks at the whole table once at most, and no longer than a call may take; the next call goes on from there.
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let deadline = real_time() + self.options.timeout;
        let start = self.readers.elsewhere(PRUNE, |at| prune::position(at.conn)).await?;
        let (mut at, mut gone, mut again) = (start.clone(), 0, false);
        while gone < limit && real_time() < deadline {
            let from = at.clone();
            let mut seen =
                self.readers.elsewhere(PRUNE, move |now| prune::scan(now, &from, PRUNE_ROWS)).await?;
            let room = limit - gone;
            let is_full = seen.over.len() >= room;
            seen.over.truncate(room);
            let last = if is_full { seen.over.last().map(Position::from) } else { seen.last };
            for answer in self.writer.many(seen.over.into_iter().map(Forget).collect()).await {
                gone += usize::from(answer?);
            }
            match last {
                Some(last) => at = last,
                // The end of the table: on from its beginning, where the look did not begin there.
                None if !again && start != Position::default() => (at, again) = (Position::default(), true),
                None => return Ok(gone),
            }
            if again && at >= start {
                return Ok(gone);
            }
        }
        for answer in self.writer.many(vec![KeepPosition(at)]).await {
            answer?;
        }
        Ok(gone)
    }

    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        let mut answers = Vec::with_capacity(reqs.len());
        for (at, req) in reqs.iter().enumerate() {
            if at % LOOKS == LOOKS - 1 {
                tokio::task::yield_now().await;
            }
            answers.push(self.look(req).await.transpose());
        }
        let vacant = reqs.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
        let vacant: Vec<_> = vacant.map(|(req, _)| req.clone()).collect();
        let mut written = self.writer.many(vacant).await.into_iter();
        answers.into_iter().filter_map(|answer| answer.or_else(|| written.next())).collect()
    }

    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        self.writer.many(reqs.to_vec()).await
    }

    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let steps = reqs.iter().map(|(name, token, lease)| Extend(name.clone(), *token, *lease));
        let answers = self.writer.many(steps.collect()).await;
        answers.into_iter().map(|answer| self.writer.told(answer, Extended::Fenced)).collect()
    }

    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        self.writer.many(reqs.iter().map(|(name, token)| Release(name.clone(), *token)).collect()).await
    }

    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        if let Some(secret) = self.secret.get() {
            return Ok(Some(*secret));
        }
        let kept = self.readers.elsewhere(KeepSecret::OP, |at| step::secret(at.conn)).await?;
        let secret = match kept {
            Some(secret) => secret,
            // Another process may be doing the same: the first to commit decides for both.
            None => self.writer.one(&KeepSecret(new_secret()?)).await?,
        };
        Ok(Some(*self.secret.get_or_init(|| secret)))
    }
}

fn read(name: &Name, at: &Moment<'_>) -> rusqlite::Result<Option<Record>> {
    Ok(machine::into_record(row::load(at.conn, name, at.boot_id)?, &at.now))
}

fn new_secret() -> StoreResult<[u8; 32]> {
    let (a, b) = (Token::random()?, Token::random()?);
    let mut secret = [0; 32];
    for (to, from) in secret.iter_mut().zip(a.as_bytes().iter().chain(b.as_bytes())) {
        *to = *from;
    }
    Ok(secret)
}
