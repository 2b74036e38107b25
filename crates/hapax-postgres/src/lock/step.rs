//! The steps on a lock: which function of the server takes each, with what, and what its words mean.

use super::row;
use crate::{
    ask::{Ask, Shape},
    error::Failure,
    store::PostgresStore,
    value::Value,
};
use hapax_core::{
    Name, Span, StoreResult, Token,
    lock::{Acquire, Acquired, Extended, Fence, Grant, HolderInfo, Write},
};
use sqlx::{Error, Row as _, postgres::PgRow};

const ACQUIRE: &str = "acquire a lock";
const EXTEND: &str = "extend a lock";
const RELEASE: &str = "release a lock";
const BREAK: &str = "break a lock";
const SEED: &str = "seed a fence";

impl PostgresStore {
    /// Takes a step on one lock, together with those of other callers where there are any.
    async fn lock_step<A>(
        &self,
        op: &'static str,
        shape: Shape,
        name: &Name,
        more: impl IntoIterator<Item = Value> + Send,
        read: impl FnOnce(&str, &PgRow) -> Result<Option<A>, Error> + Send,
    ) -> StoreResult<A> {
        let mut values = row::name(name);
        values.extend(more);
        let place = &self.sessions.place;
        let row = self.gathered(Ask { shape, values, bytes: 0 }).await;
        let answer = row.and_then(|row| {
            let said = row.try_get("said").map_err(|error| Failure::of(place, error))?;
            let answer = read(said, &row).map_err(|error| Failure::of(place, error))?;
            answer.ok_or_else(|| Failure::nonsense(place))
        });
        answer.map_err(|failure| failure.error(op))
    }

    pub(super) async fn acquire_lock(&self, req: &Acquire) -> StoreResult<Acquired> {
        let more = [token(&req.token), span(req.lease), Value::bytes(req.holder.as_str().as_bytes())];
        self.lock_step(ACQUIRE, again("lock_acquire"), &req.name, more, |said, row| {
            Ok(match said {
                "yours" => {
                    let (fence, until) = (row::fence(row, "fence")?, row::instant(row, "until")?);
                    Some(Acquired::Yours(Grant { fence, until }))
                }
                "busy" => Some(Acquired::Busy { rest: row::duration(row, "rest")? }),
                _ => None,
            })
        })
        .await
    }

    pub(super) async fn extend_lock(&self, name: &Name, owner: &Token, lease: Span) -> StoreResult<Extended> {
        let more = [token(owner), span(lease)];
        self.lock_step(EXTEND, again("lock_extend"), name, more, |said, row| {
            Ok(match said {
                "until" => Some(Extended::Until(row::instant(row, "until")?)),
                "fenced" => Some(Extended::Fenced),
                _ => None,
            })
        })
        .await
    }

    pub(super) async fn release_lock(&self, name: &Name, owner: &Token) -> StoreResult<Write> {
        self.lock_step(RELEASE, again("lock_release"), name, [token(owner)], |said, _| {
            Ok(match said {
                "applied" => Some(Write::Applied),
                "fenced" => Some(Write::Fenced),
                _ => None,
            })
        })
        .await
    }

    pub(super) async fn take_away(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        // Sent again, it might take it from the next holder.
        let shape = Shape { resend: false, ..again("lock_break") };
        self.lock_step(BREAK, shape, name, [], |said, row| {
            Ok(match said {
                "held" => Some(Some(row::holder(row)?)),
                "free" => Some(None),
                _ => None,
            })
        })
        .await
    }

    pub(super) async fn seed(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        let more = [Value::Big(i64::try_from(least.get()).unwrap_or(i64::MAX))];
        self.lock_step(SEED, again("lock_seed"), name, more, |said, row| {
            (said == "seeded").then(|| row::fence(row, "fence")).transpose()
        })
        .await
    }
}

/// A step that may be sent once more when its reply was lost: it knows its own token, or changes nothing then.
fn again(function: &'static str) -> Shape {
    Shape { function, many: None, new: None, busy: None, resend: true, parts: 3 }
}

fn token(token: &Token) -> Value {
    Value::bytes(token.as_bytes())
}

fn span(span: Span) -> Value {
    Value::Big(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}
