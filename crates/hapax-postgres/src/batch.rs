//! Many steps of one kind in one statement.

use crate::{
    call::Call,
    error::{Failure, Remedy},
    step::Step,
    store::{PostgresStore, refusal},
};
use futures_util::future::join_all;
use hapax_core::{Name, StoreResult};
use sqlx::{Row as _, postgres::PgRow};
use std::collections::HashSet;

/// So many steps are in one statement at most.
const MOST_STEPS: usize = 128;
/// So many bytes of receipts; a larger one goes alone.
const MOST_BYTES: usize = 256 * 1024;

/// A step, where its answer belongs, and what it weighs.
type Placed<'a, S> = (usize, &'a S, usize);

impl PostgresStore {
    /// Takes the steps; an answer for each, in their order.
    pub(crate) async fn many<S: Step>(&self, steps: &[S]) -> Vec<StoreResult<S::Answer>> {
        let mut answers: Vec<Option<StoreResult<S::Answer>>> = steps.iter().map(|_| None).collect();
        for statement in statements(steps) {
            let taken = self.statement(&statement).await;
            for ((at, ..), answer) in statement.iter().zip(taken) {
                if let Some(place) = answers.get_mut(*at) {
                    *place = Some(answer);
                }
            }
        }
        let missing = || Err(Failure::nonsense(&self.sessions.place).error(S::OP));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    async fn statement<S: Step>(&self, steps: &[Placed<'_, S>]) -> Vec<StoreResult<S::Answer>> {
        if let [(_, lone, _)] = steps {
            return vec![self.one(*lone).await];
        }
        match self.together(steps).await {
            Ok(answers) => answers.into_iter().map(|answer| answer.map_err(|f| f.error(S::OP))).collect(),
            // Nothing of it was done: so that the error reaches its owner alone.
            // Nothing of it was done. Side by side, so that an error reaches its owner alone, and a lock too.
            Err(failure) if matches!(failure.remedy, Remedy::Apart | Remedy::Look | Remedy::Again) => {
                join_all(steps.iter().map(|(_, step, _)| self.one(*step))).await
            }
            Err(failure) => steps.iter().map(|_| Err(failure.error(S::OP))).collect(),
        }
    }

    async fn together<S: Step>(
        &self,
        steps: &[Placed<'_, S>],
    ) -> Result<Vec<Result<S::Answer, Failure>>, Failure> {
        let rows = steps.iter().map(|(_, step, _)| step.values()).collect();
        let call = Call::many(self.schema(), S::FUNCTION, rows);
        let rows = self.sessions.call(&call, S::RESEND).await?;
        let mut by_number: Vec<Option<&PgRow>> = vec![None; steps.len()];
        for row in &rows {
            let nth: i64 = row.try_get("nth").map_err(|error| Failure::of(&self.sessions.place, error))?;
            let place = usize::try_from(nth - 1).ok().and_then(|at| by_number.get_mut(at));
            *place.ok_or_else(|| Failure::nonsense(&self.sessions.place))? = Some(row);
        }
        Ok(steps.iter().zip(by_number).map(|((_, step, _), row)| self.answer_of(*step, row)).collect())
    }
}

/// Statements in which no key occurs twice, its second step coming after the first. Their keys are in order, so that two
/// statements lock them in the same one.
fn statements<S: Step>(steps: &[S]) -> Vec<Vec<Placed<'_, S>>> {
    let mut left: Vec<Placed<'_, S>> = Vec::with_capacity(steps.len());
    let mut found = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let bytes = step.receipt().map_or(0, |receipt| receipt.bytes.len());
        // What is refused goes alone, and is refused there.
        if refusal(step).is_some() {
            found.push(vec![(at, step, bytes)]);
        } else {
            left.push((at, step, bytes));
        }
    }
    while !left.is_empty() {
        let mut names: HashSet<&Name> = HashSet::new();
        let (mut round, later): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, step, _)| names.insert(step.name()));
        left = later;
        round.sort_by_key(|(_, step, _)| parts(step.name()));
        let (mut room, mut bytes) = (0, 0);
        for placed in round {
            if room == 0 || bytes + placed.2 > MOST_BYTES {
                found.push(Vec::new());
                (room, bytes) = (MOST_STEPS, 0);
            }
            room -= 1;
            bytes += placed.2;
            if let Some(statement) = found.last_mut() {
                statement.push(placed);
            }
        }
    }
    found
}

/// In the order of the table.
fn parts(name: &Name) -> (&str, &str, &str) {
    (name.namespace(), name.scope(), name.key())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Read;
    use hapax_core::{Key, Namespace, Scope};

    fn names(keys: &[&str]) -> Vec<Name> {
        let (namespace, scope) = (Namespace::default(), Scope::new("s").unwrap());
        keys.iter().map(|key| Name::new(&namespace, &scope, &Key::new(key).unwrap())).collect()
    }

    #[test]
    fn a_key_is_once_in_a_statement_and_keys_are_in_order() {
        let names = names(&["b", "a", "b", "c", "b"]);
        let steps: Vec<_> = names.iter().map(Read).collect();
        let found = statements(&steps);
        let order: Vec<Vec<usize>> =
            found.iter().map(|statement| statement.iter().map(|(at, ..)| *at).collect()).collect();
        assert_eq!(order, [vec![1, 0, 3], vec![2], vec![4]]);
    }

    #[test]
    fn long_batches_are_cut() {
        let keys: Vec<_> = (0..300).map(|n| format!("{n:03}")).collect();
        let names = names(&keys.iter().map(String::as_str).collect::<Vec<_>>());
        let steps: Vec<_> = names.iter().map(Read).collect();
        let sizes: Vec<_> = statements(&steps).iter().map(Vec::len).collect();
        assert_eq!(sizes, [128, 128, 44]);
    }
}
