//! A decision over limits that lie in several slots of a Cluster, where no script reaches all of them.
//!
//! All are looked at first: a request that one of them refuses counts nowhere. Then each counts it for itself; where one
//! refuses it after all, because others came in between, what had counted is given back.

use super::{
    RedisLimits,
    step::{Count, Limits, Look, Refund, Sight},
};
use hapax_core::{
    StoreResult,
    limit::{Answer, Check, Decide, Decided},
};

pub(super) fn lie_apart(checks: &[Check]) -> bool {
    checks.split_first().is_some_and(|(first, rest)| rest.iter().any(|check| check.key != first.key))
}

/// The limits of one name, and their places in the decision.
type Part = (Vec<usize>, Vec<Check>);

fn parts(checks: &[Check]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, check) in checks.iter().enumerate() {
        match parts.iter_mut().find(|(_, part)| part.first().is_some_and(|first| first.key == check.key)) {
            Some((places, part)) => {
                places.push(place);
                part.push(check.clone());
            }
            None => parts.push((vec![place], vec![check.clone()])),
        }
    }
    parts
}

fn of<'a>(req: &'a Decide, (_, checks): &'a Part) -> Limits<'a> {
    Limits { namespace: &req.namespace, checks }
}

fn allow(checks: &[Check], answers: &[Answer]) -> bool {
    checks.iter().zip(answers).all(|(check, answer)| check.shadow || answer.allowed)
}

/// The answers of all parts, each in its place.
fn decided(parts: &[Part], answers: Vec<Vec<Answer>>) -> Decided {
    let places = parts.iter().flat_map(|(places, _)| places.iter().copied());
    let mut placed: Vec<_> = places.zip(answers.into_iter().flatten()).collect();
    placed.sort_by_key(|(place, _)| *place);
    Decided { answers: placed.into_iter().map(|(_, answer)| answer).collect(), best_effort: true }
}

impl RedisLimits {
    pub(super) async fn decide_apart(&self, req: &Decide) -> StoreResult<Decided> {
        let parts = parts(&req.checks);
        let look = async |sight: Sight| -> StoreResult<Vec<Vec<Answer>>> {
            let looks: Vec<_> = parts.iter().map(|part| Look(of(req, part), sight)).collect();
            self.store.take_many(&looks).await.into_iter().collect()
        };
        let looked = look(if req.dry_run { Sight::AsItIs } else { Sight::InEarnest }).await?;
        let passes = parts.iter().zip(&looked).all(|((_, checks), answers)| allow(checks, answers));
        if !passes {
            return Ok(decided(&parts, looked));
        }
        if req.dry_run {
            return Ok(decided(&parts, look(Sight::DryRun).await?));
        }
        let counts: Vec<_> = parts.iter().map(|part| Count(of(req, part))).collect();
        let counted = self.store.take_many(&counts).await;
        let has_counted = |(part, answer): &(&Part, &StoreResult<Vec<Answer>>)| {
            answer.as_ref().is_ok_and(|answers| allow(&part.1, answers))
        };
        if parts.iter().zip(&counted).all(|both| has_counted(&both)) {
            let counted: StoreResult<Vec<_>> = counted.into_iter().collect();
            return Ok(decided(&parts, counted?));
        }
        let mut back = Vec::new();
        for both in parts.iter().zip(&counted).filter(has_counted) {
            // A shadow that refused has not counted it.
            let answers = both.1.as_ref().map(Vec::as_slice).unwrap_or_default();
            let taken = both.0.1.iter().zip(answers).filter(|(_, answer)| answer.allowed);
            back.push(taken.map(|(check, _)| check.clone()).collect::<Vec<_>>());
        }
        let refunds = back.iter().filter(|checks| !checks.is_empty());
        let refunds: Vec<_> =
            refunds.map(|checks| Refund(Limits { namespace: &req.namespace, checks })).collect();
        for refund in self.store.take_many(&refunds).await {
            if let Err(error) = refund {
                tracing::debug!(%error, "a limit keeps what was counted for a request that another refused");
            }
        }
        let mut answers = Vec::with_capacity(parts.len());
        for ((part, counted), looked) in parts.iter().zip(counted).zip(looked) {
            let counted = counted?;
            // Where it was given back, it is as it was before.
            answers.push(if allow(&part.1, &counted) { looked } else { counted });
        }
        Ok(decided(&parts, answers))
    }
}
