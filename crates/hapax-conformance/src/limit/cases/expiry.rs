//! What time changes, to the millisecond.

use super::list;
use crate::{
    fixture::{Verdict, holds, same},
    limit::{
        Gate,
        gate::{WINDOW, check, quota},
    },
    requests::ms,
};
use hapax_core::limit::{Algorithm, Check, Quota};
use std::time::Duration;

list!("expiry":
    a_refused_request_passes_when_it_was_told,
    a_window_ends_after_its_first_request,
    a_sliding_window_forgets_one_request_after_the_other,
    a_sliding_counter_weighs_the_window_before,
    a_bucket_fills_evenly,
    all_is_there_again_when_it_was_told,
    what_equals_a_fresh_state_may_be_forgotten,
);

async fn a_refused_request_passes_when_it_was_told(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let one = Check { cost: 2, ..check("k", quota(algorithm, 5, WINDOW)) };
        for _ in 0..2 {
            holds(gate.ask(&one).await?.allowed, || "refused".into())?;
            gate.elapse(WINDOW / 70).await;
        }
        let refused = gate.ask(&one).await?;
        holds(!refused.allowed && refused.retry_after_ms > 0, || format!("{refused:?}"))?;
        let rest = gate.tolerance().max(ms(1));
        gate.elapse(ms(refused.retry_after_ms).saturating_sub(rest)).await;
        let early = gate.dry(&one).await?;
        holds(!early.allowed, || format!("{algorithm}: too early: {early:?}"))?;
        gate.time("the rest", early.retry_after_ms, rest)?;
        gate.elapse(rest).await;
        let now = gate.ask(&one).await?;
        holds(now.allowed, || format!("{algorithm}: not as told: {now:?}"))?;
        gate.elapse(WINDOW * 2).await;
    }
    Ok(())
}

async fn a_window_ends_after_its_first_request(gate: Gate) -> Verdict {
    let one = check("k", Quota::fixed_window(2, WINDOW));
    gate.elapse(WINDOW / 3).await;
    let first = gate.ask(&one).await?;
    gate.time("reset", first.reset_after_ms, WINDOW)?;
    gate.elapse(WINDOW / 4 * 3).await;
    let second = gate.ask(&one).await?;
    gate.time("reset", second.reset_after_ms, WINDOW / 4)?;
    gate.time("next", second.next_after_ms, WINDOW / 4)?;
    gate.elapse(WINDOW / 4).await;
    gate.lets_through(&one, 2).await
}

async fn a_sliding_window_forgets_one_request_after_the_other(gate: Gate) -> Verdict {
    let costs = |cost| Check { cost, ..check("k", Quota::sliding_window(6, WINDOW)) };
    for cost in [1, 2, 3] {
        holds(gate.ask(&costs(cost)).await?.allowed, || "refused".into())?;
        gate.elapse(WINDOW / 4).await;
    }
    for (cost, quarters) in [(1, 1), (2, 2), (3, 2), (4, 3), (6, 3)] {
        let answer = gate.dry(&costs(cost)).await?;
        gate.time("retry", answer.retry_after_ms, WINDOW / 4 * quarters)?;
    }
    gate.elapse(WINDOW / 4).await;
    let answer = gate.dry(&costs(1)).await?;
    same("allowed, left", &(answer.allowed, answer.remaining), &(true, 0))?;
    gate.elapse(WINDOW / 4).await;
    same("left", &gate.dry(&costs(1)).await?.remaining, &2)?;
    gate.elapse(WINDOW / 4).await;
    same("left", &gate.dry(&costs(1)).await?.remaining, &5)
}

async fn a_sliding_counter_weighs_the_window_before(gate: Gate) -> Verdict {
    let costs = |cost| Check { cost, ..check("k", Quota::sliding_counter(10, WINDOW)) };
    holds(gate.ask(&costs(10)).await?.allowed, || "refused".into())?;
    // Half into the next window, the ten before weigh five. A little later, so that a clock that runs changes nothing.
    gate.elapse(WINDOW + WINDOW / 2 + Duration::from_mins(1)).await;
    let answer = gate.ask(&costs(1)).await?;
    same("allowed, left", &(answer.allowed, answer.remaining), &(true, 4))?;
    let answer = gate.dry(&costs(5)).await?;
    same("one more than fits", &answer.allowed, &false)?;
    gate.time("retry", answer.retry_after_ms, Duration::from_mins(5))?;
    let answer = gate.dry(&costs(4)).await?;
    same("what fits", &answer.allowed, &true)
}

async fn a_bucket_fills_evenly(gate: Gate) -> Verdict {
    // A token in six minutes.
    let costs = |cost| Check { cost, ..check("k", Quota::token_bucket(10, WINDOW)) };
    holds(gate.ask(&costs(10)).await?.allowed, || "refused".into())?;
    gate.elapse(Duration::from_mins(15)).await;
    let answer = gate.ask(&costs(3)).await?;
    same("allowed, left", &(answer.allowed, answer.remaining), &(false, 2))?;
    gate.time("retry", answer.retry_after_ms, Duration::from_mins(3))?;
    gate.time("reset", answer.reset_after_ms, Duration::from_mins(45))?;
    let answer = gate.ask(&costs(2)).await?;
    same("allowed, left", &(answer.allowed, answer.remaining), &(true, 0))?;
    gate.time("next", answer.next_after_ms, Duration::from_mins(3))
}

async fn all_is_there_again_when_it_was_told(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let one = check("k", quota(algorithm, 3, WINDOW));
        gate.lets_through(&one, 3).await?;
        gate.elapse(WINDOW / 3 + Duration::from_secs(30)).await;
        let told = gate.dry(&one).await?;
        gate.elapse(ms(told.reset_after_ms)).await;
        gate.lets_through(&one, 3).await?;
        gate.elapse(WINDOW * 2).await;
    }
    Ok(())
}

async fn what_equals_a_fresh_state_may_be_forgotten(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let one = check("k", quota(algorithm, 3, WINDOW));
        gate.ask(&one).await?;
    }
    let _ = gate.a.prune(100).await?;
    for algorithm in Algorithm::ALL {
        same("left", &gate.dry(&check("k", quota(algorithm, 3, WINDOW))).await?.remaining, &1)?;
    }
    gate.elapse(WINDOW * 2 + gate.tolerance()).await;
    let _ = gate.a.prune(100).await?;
    for algorithm in Algorithm::ALL {
        gate.lets_through(&check("k", quota(algorithm, 3, WINDOW)), 3).await?;
    }
    Ok(())
}
