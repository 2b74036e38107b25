//! Rate limits: a document for each, over one of which a decision is.
//!
//! A decision looks, follows the rules of [`hapax_core::limit::machine`], and writes on a condition. Where it only counts
//! on, the condition is that there is room, so that callers do not stand in each other's way; where a window begins, or a
//! quota has changed, that nothing has changed since. It looks five times at most.

mod count;
mod value;

use crate::{
    error::{BACKEND, Failure},
    keys,
    sessions::Sessions,
    store::MongoStore,
    write::Write,
};
use async_trait::async_trait;
use hapax_core::{
    Key, Name, Namespace, Scope, StoreError, StoreErrorKind, StoreResult,
    limit::{
        Algorithm, Answer, Check, Decide, Decided, LimitKey, LimitStore,
        machine::{self, Verdict},
    },
};
use mongodb::bson::doc;
use value::Seen;

const DECIDE: &str = "decide over a rate limit";
const RESET: &str = "reset a rate limit";
const PRUNE: &str = "forget rate limits";
/// Looks at a limit that changes under each write.
const ROUNDS: usize = 5;

impl Sessions {
    /// The collection of limits.
    pub(crate) fn limits(&self) -> String {
        format!("{}_limit", self.options.collection)
    }
}

#[async_trait]
impl LimitStore for MongoStore {
    /// Over one limit: the server has no step over several documents that needs no replica set. Code of several:
    /// `store.unsupported`.
    async fn decide(&self, req: &Decide) -> StoreResult<Decided> {
        let [check] = req.checks.as_slice() else {
            let reason = format!(
                "a decision on MongoDB is over one limit, not {}: ask for each by itself, or keep limits on another store",
                req.checks.len()
            );
            return Err(StoreError::new(StoreErrorKind::Unsupported, BACKEND, DECIDE, reason));
        };
        let answer = self.decided_on(&req.namespace, check, req.dry_run).await;
        answer
            .map(|answer| Decided { answers: vec![answer], best_effort: false })
            .map_err(|failure| failure.error(DECIDE))
    }

    async fn reset(&self, namespace: &Namespace, key: &LimitKey) -> StoreResult<()> {
        let deadline = self.sessions.deadline();
        let kinds = Algorithm::ALL.into_iter().flat_map(|algorithm| [(algorithm, false), (algorithm, true)]);
        let forgotten = async {
            let ids: Result<Vec<_>, _> = kinds.map(|kind| id(namespace, key.as_key(), kind)).collect();
            let writes = ids?.into_iter().map(|id| Write::Delete(doc! { "_id": id })).collect();
            self.sessions.write_many_in(&self.sessions.limits(), writes, true, deadline).await
        };
        forgotten.await.map(drop).map_err(|failure| failure.error(RESET))
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let deadline = self.sessions.deadline();
        let pruned = async {
            let at = self.sessions.hello(deadline).await?.1;
            self.sessions.remove_due(&self.sessions.limits(), at.over, limit, deadline).await
        };
        pruned.await.map_err(|failure: Failure| failure.error(PRUNE))
    }
}

impl MongoStore {
    async fn decided_on(
        &self,
        namespace: &Namespace,
        check: &Check,
        dry_run: bool,
    ) -> Result<Answer, Failure> {
        let (sessions, limits, deadline) = (&self.sessions, self.sessions.limits(), self.sessions.deadline());
        let id = id(namespace, check.key.as_key(), (check.quota.algorithm(), check.shadow))?;
        for _ in 0..ROUNDS {
            let at = sessions.moment(deadline).await?;
            let now = u64::try_from(at.now.as_millis()).unwrap_or_default();
            let document = sessions.look_in(&limits, &id, deadline).await?;
            let seen = Seen::read(document.as_ref(), check, &sessions.place)?;
            let mut slot = seen.as_ref().map(Seen::kept);
            let verdict = machine::verdict(&slot, check, now);
            if dry_run {
                return Ok(machine::decide_one(&mut slot, check, true, now));
            }
            let is_changed = match verdict {
                Verdict::Allowed => {
                    machine::take(&mut slot, check, now);
                    true
                }
                Verdict::Wait(_) => machine::mend(&mut slot, check, now),
                Verdict::Never => false,
            };
            let answer = machine::answer(&slot, check, verdict, now);
            if !is_changed {
                return Ok(answer);
            }
            let counts_on = seen
                .as_ref()
                .filter(|_| verdict == Verdict::Allowed)
                .and_then(|seen| count::on(seen, check, answer.remaining, now));
            if let Some((filter, update)) = counts_on {
                // What others took meanwhile is taken into account.
                if let Some(document) = sessions.modify(&limits, filter.of(&id), update, deadline).await? {
                    let seen = Seen::read(Some(&document), check, &sessions.place)?;
                    return Ok(machine::answer(&seen.as_ref().map(Seen::kept), check, verdict, now));
                }
                continue;
            }
            let Some(write) = count::anew(&id, seen.as_ref(), slot.as_ref(), now) else { return Ok(answer) };
            // Sent again, it would count twice.
            if sessions.write_in(&limits, write, false, deadline).await?.is_done() {
                return Ok(answer);
            }
        }
        Err(Failure::never_still(&sessions.place))
    }
}

/// What is counted apart under one key: the algorithm, the version of its state, and shadows.
fn id(namespace: &Namespace, key: &Key, (algorithm, shadow): (Algorithm, bool)) -> Result<String, Failure> {
    let scope = format!("{algorithm}/1{}", if shadow { "/shadow" } else { "" });
    let scope = Scope::new(&scope)
        .map_err(|error| Failure::new(StoreErrorKind::Internal, format!("no name of a limit: {error}")))?;
    Ok(keys::id(&Name::new(namespace, &scope, key)))
}
