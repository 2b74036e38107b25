//! Rate limits: a row for each, by the rules of [`hapax_core::limit::machine`], which functions of the server follow.
//!
//! Decisions over one limit share statements and commits, as the steps of keys do. One over several locks their rows in the
//! order of the table.

use crate::{
    ask::{Ask, Shape},
    call::Call,
    error::Failure,
    sessions::Lane,
    store::PostgresStore,
    value::Value,
};
use async_trait::async_trait;
use hapax_core::{
    Namespace, StoreResult,
    limit::{Algorithm, Answer, Check, Decide, Decided, LimitKey, LimitStore},
};
use sqlx::{Error, Row as _, postgres::PgRow};
use tokio::time::Instant;

const DECIDE: &str = "decide over rate limits";
const RESET: &str = "reset a rate limit";
const PRUNE: &str = "forget rate limits";

/// Sent again, it would count twice.
const ONE: Shape =
    Shape { function: "limit_decide_one", many: None, new: None, busy: None, resend: false, parts: 3 };

#[async_trait]
impl LimitStore for PostgresStore {
    async fn decide(&self, req: &Decide) -> StoreResult<Decided> {
        let answers = match req.checks.as_slice() {
            [check] => vec![self.decide_one(&req.namespace, check, req.dry_run).await?],
            checks => self.decide_all(&req.namespace, checks, req.dry_run).await?,
        };
        Ok(Decided { answers, best_effort: false })
    }

    async fn reset(&self, namespace: &Namespace, key: &LimitKey) -> StoreResult<()> {
        let scopes = Algorithm::ALL
            .into_iter()
            .flat_map(|algorithm| [false, true].map(|shadow| Some(scope(algorithm, shadow).into_bytes())));
        let values = [
            Value::bytes(namespace.as_str().as_bytes()),
            Value::ManyBytes(scopes.collect()),
            Value::bytes(key.as_str().as_bytes()),
        ];
        let call = Call::one(self.schema(), "limit_forget", &values);
        self.sessions.call_within_limit(&call).await.map(drop).map_err(|failure| failure.error(RESET))
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        let values = [big(limit)];
        let call = Call::one(self.schema(), "limit_prune", &values);
        let rows = self.sessions.call_within_limit(&call).await.map_err(|failure| failure.error(PRUNE))?;
        let gone = rows.first().ok_or(Error::RowNotFound).and_then(|row| row.try_get::<i64, _>(0));
        let gone = gone.map_err(|error| Failure::of(&self.sessions.place, error).error(PRUNE))?;
        Ok(usize::try_from(gone).unwrap_or_default())
    }
}

impl PostgresStore {
    async fn decide_one(&self, namespace: &Namespace, check: &Check, dry_run: bool) -> StoreResult<Answer> {
        let quota = &check.quota;
        let values = vec![
            Value::bytes(namespace.as_str().as_bytes()),
            Value::bytes(scope(quota.algorithm(), check.shadow).as_bytes()),
            Value::bytes(check.key.as_str().as_bytes()),
            Value::Big(number(quota.algorithm())),
            Value::Big(quota.limit().into()),
            big(quota.window_ms()),
            Value::Big(check.cost.into()),
            Value::Big(dry_run.into()),
        ];
        let row = self.gathered(Ask { shape: ONE, values, bytes: 0 }).await;
        let answer = row.and_then(|row| answer(&row, check).map_err(|error| self.unreadable(error)));
        answer.map_err(|failure| failure.error(DECIDE))
    }

    async fn decide_all(
        &self,
        namespace: &Namespace,
        checks: &[Check],
        dry_run: bool,
    ) -> StoreResult<Vec<Answer>> {
        let mut sorted: Vec<_> = checks
            .iter()
            .enumerate()
            .map(|(at, check)| (scope(check.quota.algorithm(), check.shadow), check.key.as_str(), at, check))
            .collect();
        // As the table is in order: two decisions lock their rows in the same one.
        sorted.sort_by(|a, b| (a.0.as_bytes(), a.1.as_bytes()).cmp(&(b.0.as_bytes(), b.1.as_bytes())));
        let numbers = |of: fn(&Check) -> i64| {
            Value::ManyBig(sorted.iter().map(|(.., check)| Some(of(check))).collect())
        };
        let values = [
            Value::bytes(namespace.as_str().as_bytes()),
            Value::ManyBytes(sorted.iter().map(|(scope, ..)| Some(scope.as_bytes().to_vec())).collect()),
            Value::ManyBytes(sorted.iter().map(|(_, key, ..)| Some(key.as_bytes().to_vec())).collect()),
            numbers(|check| number(check.quota.algorithm())),
            numbers(|check| check.shadow.into()),
            numbers(|check| check.quota.limit().into()),
            numbers(|check| i64::try_from(check.quota.window_ms()).unwrap_or(i64::MAX)),
            numbers(|check| check.cost.into()),
            Value::Big(dry_run.into()),
        ];
        let call = Call::one(self.schema(), "limit_decide", &values);
        let asked = async {
            // Says by itself where there is no runtime.
            self.sessions.berth()?;
            let rows = self.sessions.call(&call, false, Instant::now() + self.limit(), Lane::Alone).await?;
            if rows.len() != checks.len() {
                return Err(Failure::nonsense(&self.sessions.place));
            }
            let mut answers = Vec::with_capacity(rows.len());
            for ((_, _, at, check), row) in sorted.iter().zip(&rows) {
                answers.push((*at, answer(row, check).map_err(|error| self.unreadable(error))?));
            }
            answers.sort_by_key(|(at, _)| *at);
            Ok(answers.into_iter().map(|(_, answer)| answer).collect())
        };
        asked.await.map_err(|failure: Failure| failure.error(DECIDE))
    }

    fn unreadable(&self, error: Error) -> Failure {
        Failure::of(&self.sessions.place, error)
    }
}

/// What is counted apart under one key: the algorithm, the version of its state, and shadows.
fn scope(algorithm: Algorithm, shadow: bool) -> String {
    format!("{algorithm}/1{}", if shadow { "/shadow" } else { "" })
}

/// As the functions know it.
fn number(algorithm: Algorithm) -> i64 {
    match algorithm {
        Algorithm::FixedWindow => 0,
        Algorithm::SlidingWindow => 1,
        Algorithm::SlidingCounter => 2,
        Algorithm::TokenBucket => 3,
    }
}

fn big(n: impl TryInto<i64>) -> Value {
    Value::Big(n.try_into().unwrap_or(i64::MAX))
}

fn answer(row: &PgRow, check: &Check) -> Result<Answer, Error> {
    let natural = |column: &str| -> Result<u64, Error> {
        Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
    };
    let limit = check.quota.limit();
    Ok(Answer {
        allowed: row.try_get("allowed")?,
        limit,
        cost: check.cost,
        remaining: u32::try_from(natural("remaining")?).unwrap_or(limit),
        retry_after_ms: natural("retry")?,
        reset_after_ms: natural("reset")?,
        next_after_ms: natural("next")?,
        never: row.try_get("never")?,
    })
}
