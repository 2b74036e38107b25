//! Many steps of one kind in one statement.

use crate::{
    ask::Ask,
    call::Call,
    error::{Failure, Remedy},
    sessions::Lane,
    step::Step,
    store::{PostgresStore, refusal},
};
use futures_util::future::join_all;
use hapax_core::StoreResult;
use sqlx::{Row as _, postgres::PgRow};
use std::sync::{Arc, atomic::Ordering};
use tokio::time::Instant;

/// So many steps are in one statement at most.
pub(crate) const MOST_STEPS: usize = 128;
/// So many bytes of receipts; a larger one goes alone.
const MOST_BYTES: usize = 256 * 1024;

/// The number of an answer that all steps of a statement have.
const OF_ALL: i64 = 0;
/// After so many statements whose keys were all free, the next is taken to be like them.
const LONG: usize = 8;

/// An answer as it came. All steps of a statement share one where it is the same for all of them.
pub(crate) type Answered = Arc<PgRow>;

/// What was asked, and where its answer belongs.
pub(crate) type Placed<T> = (Ask, T);

impl PostgresStore {
    /// Takes the steps; an answer for each, in their order.
    pub(crate) async fn many<S: Step>(&self, steps: &[S]) -> Vec<StoreResult<S::Answer>> {
        let mut answers: Vec<Option<StoreResult<S::Answer>>> = steps.iter().map(|_| None).collect();
        let mut asks = Vec::with_capacity(steps.len());
        for ((at, step), answer) in steps.iter().enumerate().zip(&mut answers) {
            match refusal(step) {
                Some(error) => *answer = Some(Err(error)),
                None => asks.push((Ask::of(step), at)),
            }
        }
        for statement in statements(asks) {
            let deadline = Instant::now() + self.limit();
            let (asks, places): (Vec<_>, Vec<_>) = statement.into_iter().unzip();
            let rows = match self.together(&asks, deadline, Lane::Alone).await {
                // Nothing of it was done. Side by side, so that an error reaches its owner alone, and a lock too.
                Err(failure) if failure.is_of_one() => {
                    join_all(asks.iter().map(|ask| self.apart(ask, deadline))).await
                }
                Err(failure) => asks.iter().map(|_| Err(failure.clone())).collect(),
                Ok(rows) => rows,
            };
            for ((at, row), step) in
                places.into_iter().zip(rows).filter_map(|(at, row)| Some(((at, row), steps.get(at)?)))
            {
                if let Some(place) = answers.get_mut(at) {
                    *place = Some(row.and_then(|row| self.answer_of(step, &row)).map_err(|f| f.error(S::OP)));
                }
            }
        }
        let missing = || Err(Failure::nonsense(&self.sessions.place).error(S::OP));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    /// Asks all of it in one statement. The outer error is of all of them.
    pub(crate) async fn together(
        &self,
        asks: &[Ask],
        deadline: Instant,
        lane: Lane<'_>,
    ) -> Result<Vec<Result<Answered, Failure>>, Failure> {
        let Some(first) = asks.first() else { return Ok(Vec::new()) };
        let nonsense = || Failure::nonsense(&self.sessions.place);
        let are_new = self.free_before.load(Ordering::Relaxed) >= LONG;
        let call = Call::patient(self.schema(), asks, are_new);
        let mut rows = self.sessions.call(&call, first.shape.resend, deadline, lane).await?;
        if asks.len() == 1 {
            return Ok(vec![rows.pop().map(Arc::new).ok_or_else(nonsense)]);
        }
        if first.shape.new.is_some() {
            let is_free = |row: &PgRow| row.try_get::<&str, _>("said").is_ok_and(|said| said == "yours");
            let before = self.free_before.load(Ordering::Relaxed);
            let count = if rows.iter().all(is_free) { before.saturating_add(1) } else { 0 };
            self.free_before.store(count, Ordering::Relaxed);
        }
        let mut by_number: Vec<Option<Answered>> = asks.iter().map(|_| None).collect();
        for row in rows {
            let nth: i64 = row.try_get("nth").map_err(|error| Failure::of(&self.sessions.place, error))?;
            let row = Arc::new(row);
            if nth == OF_ALL {
                by_number.fill(Some(row));
                continue;
            }
            let place = usize::try_from(nth - 1).ok().and_then(|at| by_number.get_mut(at));
            *place.ok_or_else(nonsense)? = Some(row);
        }
        Ok(by_number.into_iter().map(|row| row.ok_or_else(nonsense)).collect())
    }

    /// Asks it alone: it waits for a lock as long as it has time, or says what is seen of the locked row.
    pub(crate) async fn apart(&self, ask: &Ask, deadline: Instant) -> Result<Answered, Failure> {
        let answer = self.ask_function(ask, ask.shape.function, deadline).await;
        match (answer, ask.shape.busy) {
            (Err(failure), Some(busy)) if failure.remedy == Remedy::Look => {
                self.ask_function(ask, busy, deadline).await
            }
            (answer, _) => answer,
        }
    }

    pub(crate) async fn ask_function(
        &self,
        ask: &Ask,
        function: &'static str,
        deadline: Instant,
    ) -> Result<Answered, Failure> {
        let call = Call::one(self.schema(), function, &ask.values);
        let mut rows = self.sessions.call(&call, ask.shape.resend, deadline, Lane::Alone).await?;
        rows.pop().map(Arc::new).ok_or_else(|| Failure::nonsense(&self.sessions.place))
    }
}

/// Statements in which no key occurs twice, its second step coming after the first. Their keys are in order, so that two
/// statements lock them in the same one.
pub(crate) fn statements<T>(mut asks: Vec<Placed<T>>) -> Vec<Vec<Placed<T>>> {
    // Steps on one key stay in the order in which they came.
    asks.sort_by(|(a, _), (b, _)| a.name().cmp(&b.name()));
    let mut found = Vec::new();
    while !asks.is_empty() {
        let (mut round, mut later) = (Vec::with_capacity(asks.len()), Vec::new());
        for placed in asks {
            let is_again = round.last().is_some_and(|(last, _): &Placed<T>| last.name() == placed.0.name());
            if is_again { &mut later } else { &mut round }.push(placed);
        }
        asks = later;
        let (mut room, mut bytes) = (0, 0);
        for placed in round {
            if room == 0 || bytes + placed.0.bytes > MOST_BYTES {
                found.push(Vec::new());
                (room, bytes) = (MOST_STEPS, 0);
            }
            room -= 1;
            bytes += placed.0.bytes;
            if let Some(statement) = found.last_mut() {
                statement.push(placed);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Read;
    use hapax_core::{Key, Name, Namespace, Scope};

    fn asks(keys: &[&str]) -> Vec<Placed<usize>> {
        let (namespace, scope) = (Namespace::default(), Scope::new("s").unwrap());
        let names = keys.iter().map(|key| Name::new(&namespace, &scope, &Key::new(key).unwrap()));
        names.enumerate().map(|(at, name)| (Ask::of(&Read(&name)), at)).collect()
    }

    #[test]
    fn a_key_is_once_in_a_statement_and_keys_are_in_order() {
        let found = statements(asks(&["b", "a", "b", "c", "b"]));
        let order: Vec<Vec<usize>> =
            found.iter().map(|statement| statement.iter().map(|(_, at)| *at).collect()).collect();
        assert_eq!(order, [vec![1, 0, 3], vec![2], vec![4]]);
    }

    #[test]
    fn long_batches_are_cut() {
        let keys: Vec<_> = (0..300).map(|n| format!("{n:03}")).collect();
        let found = statements(asks(&keys.iter().map(String::as_str).collect::<Vec<_>>()));
        let sizes: Vec<_> = found.iter().map(Vec::len).collect();
        assert_eq!(sizes, [128, 128, 44]);
    }
}
