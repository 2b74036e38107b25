//! Many steps of one kind in a trip or two: the usual writes together, and one look at what they left over.

use crate::{
    call::Refused,
    clock::Moment,
    error::{Failure, Remedy},
    keys,
    rules::Change,
    step::Step,
    store::{MongoStore, refusal},
    value,
    write::{self, Write},
};
use futures_util::future::join_all;
use hapax_core::{Name, StoreResult, idempotency::machine::Slot};
use mongodb::bson::doc;
use std::collections::{HashMap, HashSet};
use tokio::time::Instant;

/// So many steps are in one command at most.
const MOST_STEPS: usize = 128;
/// So many bytes of receipts; a larger one goes alone.
const MOST_BYTES: usize = 256 * 1024;

/// A step, where its answer belongs, and what it weighs.
type Placed<'a, S> = (usize, &'a S, usize);
/// What a command told of each step; none where that has still to be seen.
type Answers<S> = Vec<Option<Result<<S as Step>::Answer, Failure>>>;

impl MongoStore {
    /// Takes the steps; an answer for each, in their order.
    pub(crate) async fn many<S: Step>(&self, steps: &[S]) -> Vec<StoreResult<S::Answer>> {
        let mut answers: Vec<Option<StoreResult<S::Answer>>> = steps.iter().map(|_| None).collect();
        for command in commands(steps) {
            let taken = self.command(&command).await;
            for ((at, ..), answer) in command.iter().zip(taken) {
                if let Some(place) = answers.get_mut(*at) {
                    *place = Some(answer);
                }
            }
        }
        let missing = || Err(Failure::nonsense(&self.sessions.place).error(S::OP));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    async fn command<S: Step>(&self, steps: &[Placed<'_, S>]) -> Vec<StoreResult<S::Answer>> {
        if let [(_, lone, _)] = steps {
            return vec![self.one(*lone).await];
        }
        let deadline = self.sessions.deadline();
        match self.together(steps, deadline).await {
            Ok(answers) => answers.into_iter().map(|answer| answer.map_err(|f| f.error(S::OP))).collect(),
            // Nothing of it was done. Side by side, so that an error reaches its owner alone.
            Err(failure) if failure.remedy == Remedy::Apart && !failure.is_maybe_applied() => {
                join_all(steps.iter().map(|(_, step, _)| self.one(*step))).await
            }
            Err(failure) => steps.iter().map(|_| Err(failure.error(S::OP))).collect(),
        }
    }

    async fn together<S: Step>(
        &self,
        steps: &[Placed<'_, S>],
        deadline: Instant,
    ) -> Result<Vec<Result<S::Answer, Failure>>, Failure> {
        let at = self.sessions.moment(deadline).await?;
        let mut answers: Answers<S> = if S::RESEND {
            self.usual(steps, &at, deadline).await?
        } else {
            steps.iter().map(|_| None).collect()
        };
        let left: Vec<_> =
            (0..steps.len()).filter(|nth| answers.get(*nth).is_some_and(Option::is_none)).collect();
        if !left.is_empty() {
            let names = left.iter().filter_map(|nth| steps.get(*nth)).map(|(_, step, _)| step.name());
            let found = self.look_at(names, deadline).await?;
            let decided: Vec<_> = left
                .iter()
                .filter_map(|nth| steps.get(*nth).map(|(_, step, _)| (*nth, *step)))
                .map(|(nth, step)| {
                    let id = keys::id(step.name());
                    let slot = found.get(&id).cloned().unwrap_or_default();
                    let (change, answer) = step.decide(&slot, &at);
                    (nth, step, write::change(&id, &slot, &change), change, answer)
                })
                .collect();
            // What a token held, and nothing beside it, goes in one more trip.
            let is_plain = |change: &Change| !S::RESEND && *change == Change::Forget;
            let writes: Vec<Write> = decided
                .iter()
                .filter(|(.., change, _)| is_plain(change))
                .filter_map(|(_, _, write, ..)| write.clone())
                .collect();
            let are_gone = match writes.len() {
                0 => false,
                count => self.sessions.write_many(writes, false, deadline).await?.count == count,
            };
            let ended = decided.into_iter().map(|(nth, step, write, change, answer)| async move {
                let is_done = write.is_none() || (is_plain(&change) && are_gone);
                let answer = if is_done { Ok(answer) } else { self.decided(step, at, deadline).await };
                (nth, answer)
            });
            for (nth, answer) in join_all(ended).await {
                if let Some(place) = answers.get_mut(nth) {
                    *place = Some(answer);
                }
            }
        }
        let missing = || Err(Failure::nonsense(&self.sessions.place));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
    }

    /// The usual writes, together.
    async fn usual<S: Step>(
        &self,
        steps: &[Placed<'_, S>],
        at: &Moment,
        deadline: Instant,
    ) -> Result<Answers<S>, Failure> {
        let (writes, usual): (Vec<_>, Vec<_>) =
            steps.iter().filter_map(|(_, step, _)| step.usual(at)).unzip();
        if writes.len() != steps.len() {
            return Ok(steps.iter().map(|_| None).collect());
        }
        let count = writes.len();
        let written = self.sessions.write_many(writes, S::RESEND, deadline).await?;
        // Where the server only counts, either all were done, or a look tells which.
        let is_told = S::TELLS || written.count == count;
        let mut answers: Answers<S> = usual.into_iter().map(|answer| is_told.then_some(Ok(answer))).collect();
        for (nth, refused) in written.failed {
            if let Some(place) = answers.get_mut(nth) {
                *place = match refused {
                    Refused::Duplicate { .. } => None,
                    Refused::Failed(failure) => Some(Err(failure)),
                };
            }
        }
        Ok(answers)
    }

    /// What is under each name.
    async fn look_at<'a>(
        &self,
        names: impl Iterator<Item = &'a Name>,
        deadline: Instant,
    ) -> Result<HashMap<String, Slot>, Failure> {
        let (mut found, mut missing): (HashMap<_, _>, Vec<String>) =
            (HashMap::new(), names.map(keys::id).collect());
        while !missing.is_empty() {
            let filter = doc! { "_id": { "$in": &missing } };
            let collection = &self.sessions.options.collection;
            let documents = self.sessions.find(collection, filter, missing.len(), None, deadline).await?;
            for document in &documents {
                if let Ok(id) = document.get_str("_id") {
                    found.insert(id.to_owned(), value::slot(Some(document)));
                }
            }
            // A reply has its bounds: it may not have held all that there are.
            if documents.is_empty() || !is_large(&documents) {
                break;
            }
            missing.retain(|id| !found.contains_key(id));
        }
        Ok(found)
    }
}

/// Whether a reply may have been cut short: the server ends it at 16 MiB.
pub(crate) fn is_large(documents: &[mongodb::bson::Document]) -> bool {
    let bytes = |document: &mongodb::bson::Document| {
        ["result", "late"]
            .iter()
            .filter_map(|part| document.get_document(*part).ok()?.get_binary_generic("receipt").ok())
            .map(Vec::len)
            .sum::<usize>()
    };
    documents.iter().map(bytes).sum::<usize>() > 1024 * 1024
}

/// Commands in which no key occurs twice, its second step coming after the first.
fn commands<S: Step>(steps: &[S]) -> Vec<Vec<Placed<'_, S>>> {
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
        let (round, later): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, step, _)| names.insert(step.name()));
        left = later;
        let (mut room, mut bytes) = (0, 0);
        for placed in round {
            if room == 0 || bytes + placed.2 > MOST_BYTES {
                found.push(Vec::new());
                (room, bytes) = (MOST_STEPS, 0);
            }
            room -= 1;
            bytes += placed.2;
            if let Some(command) = found.last_mut() {
                command.push(placed);
            }
        }
    }
    found
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
    fn a_key_is_once_in_a_command() {
        let names = names(&["b", "a", "b", "c", "b"]);
        let steps: Vec<_> = names.iter().map(Read).collect();
        let found = commands(&steps);
        let order: Vec<Vec<usize>> =
            found.iter().map(|command| command.iter().map(|(at, ..)| *at).collect()).collect();
        assert_eq!(order, [vec![0, 1, 3], vec![2], vec![4]]);
    }

    #[test]
    fn long_batches_are_cut() {
        let keys: Vec<_> = (0..300).map(|n| format!("{n:03}")).collect();
        let names = names(&keys.iter().map(String::as_str).collect::<Vec<_>>());
        let steps: Vec<_> = names.iter().map(Read).collect();
        let sizes: Vec<_> = commands(&steps).iter().map(Vec::len).collect();
        assert_eq!(sizes, [128, 128, 44]);
    }
}
