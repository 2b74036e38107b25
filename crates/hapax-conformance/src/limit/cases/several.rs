//! Several limits in one decision: all count, or none.

use super::list;
use crate::{
    fixture::{Verdict, holds, same},
    limit::{
        Gate,
        gate::{WINDOW, check, decide, quota},
    },
};
use hapax_core::limit::{Algorithm, Check, Decide, MOST, Quota};

list!("several":
    all_count_or_none,
    the_answers_are_in_order_and_say_who_refused,
    one_that_never_allows_it_refuses_for_all,
    a_dry_run_over_several_writes_nothing,
    a_shadow_counts_for_itself_and_has_no_say,
    a_shadow_of_a_limit_lies_beside_it,
    as_many_as_a_decision_holds,
);

async fn all_count_or_none(gate: Gate) -> Verdict {
    gate.needs(2)?;
    for algorithm in Algorithm::ALL {
        let checks =
            [check("wide", quota(algorithm, 5, WINDOW)), check("narrow", quota(algorithm, 2, WINDOW))];
        let mut passed = Vec::new();
        for n in 0..4 {
            let client = if n % 2 == 0 { &gate.a } else { &gate.b };
            let decided = client.decide(&decide(&checks)).await?;
            passed.push(decided.allowed(&checks));
        }
        same("who passes", &passed, &vec![true, true, false, false])?;
        for one in &checks {
            let left = gate.dry(one).await?;
            let expected = if one.quota.limit() == 5 { 2 } else { 0 };
            same("what is left", &left.remaining, &expected)?;
        }
    }
    Ok(())
}

async fn the_answers_are_in_order_and_say_who_refused(gate: Gate) -> Verdict {
    gate.needs(3)?;
    let checks = [
        check("a", Quota::token_bucket(1, WINDOW)),
        check("b", Quota::sliding_window(7, WINDOW)),
        Check { cost: 2, ..check("c", Quota::fixed_window(3, WINDOW)) },
    ];
    let first = gate.a.decide(&decide(&checks)).await?;
    let left: Vec<_> =
        first.answers.iter().map(|answer| (answer.limit, answer.cost, answer.remaining)).collect();
    same("what is left", &left, &vec![(1, 1, 0), (7, 1, 6), (3, 2, 1)])?;
    let second = gate.a.decide(&decide(&checks)).await?;
    let said: Vec<_> = second.answers.iter().map(|answer| (answer.allowed, answer.remaining)).collect();
    same("who refuses", &said, &vec![(false, 0), (true, 6), (false, 1)])
}

async fn one_that_never_allows_it_refuses_for_all(gate: Gate) -> Verdict {
    gate.needs(2)?;
    let checks = [
        check("a", Quota::fixed_window(5, WINDOW)),
        Check { cost: 9, ..check("b", Quota::fixed_window(5, WINDOW)) },
    ];
    let decided = gate.a.decide(&decide(&checks)).await?;
    holds(!decided.allowed(&checks), || format!("{decided:?}"))?;
    same(
        "who never will",
        &decided.answers.iter().map(|answer| answer.never).collect::<Vec<_>>(),
        &vec![false, true],
    )?;
    same("what is left", &gate.dry(&check("a", Quota::fixed_window(5, WINDOW))).await?.remaining, &4)
}

async fn a_dry_run_over_several_writes_nothing(gate: Gate) -> Verdict {
    gate.needs(2)?;
    let checks = Algorithm::ALL.map(|algorithm| check("k", quota(algorithm, 2, WINDOW)));
    for left in [1, 0] {
        for dry_run in [true, true, false] {
            let decided = gate.b.decide(&Decide { dry_run, ..decide(&checks) }).await?;
            holds(decided.answers.iter().all(|answer| answer.allowed && answer.remaining == left), || {
                format!("{decided:?}")
            })?;
        }
    }
    Ok(())
}

async fn a_shadow_counts_for_itself_and_has_no_say(gate: Gate) -> Verdict {
    gate.needs(2)?;
    for algorithm in Algorithm::ALL {
        let checks = [
            check("real", quota(algorithm, 3, WINDOW)),
            Check { shadow: true, ..check("tried", quota(algorithm, 1, WINDOW)) },
        ];
        let mut said = Vec::new();
        for _ in 0..4 {
            let decided = gate.a.decide(&decide(&checks)).await?;
            let shadow = decided.answers.last().is_some_and(|answer| answer.allowed);
            said.push((decided.allowed(&checks), shadow));
        }
        same("who passes", &said, &vec![(true, true), (true, false), (true, false), (false, false)])?;
    }
    Ok(())
}

async fn a_shadow_of_a_limit_lies_beside_it(gate: Gate) -> Verdict {
    gate.needs(2)?;
    let real = check("k", Quota::fixed_window(4, WINDOW));
    let stricter = Check { shadow: true, ..check("k", Quota::fixed_window(2, WINDOW)) };
    let checks = [real, stricter];
    let mut left = Vec::new();
    for _ in 0..3 {
        let decided = gate.b.decide(&decide(&checks)).await?;
        left.push(decided.answers.iter().map(|answer| answer.remaining).collect::<Vec<_>>());
    }
    same("what is left", &left, &vec![vec![3, 1], vec![2, 0], vec![1, 0]])
}

async fn as_many_as_a_decision_holds(gate: Gate) -> Verdict {
    gate.needs(MOST)?;
    let checks: Vec<_> = (0..MOST)
        .zip(Algorithm::ALL.into_iter().cycle())
        .map(|(n, algorithm)| check(&format!("k {n}"), quota(algorithm, 2, WINDOW)))
        .collect();
    for expected in [true, true, false] {
        let decided = gate.a.decide(&decide(&checks)).await?;
        same("answers", &decided.answers.len(), &MOST)?;
        same("whether it passes", &decided.allowed(&checks), &expected)?;
    }
    Ok(())
}
