//! What one limit answers.

use super::list;
use crate::{
    fixture::{Verdict, holds, same},
    limit::{
        Gate,
        gate::{WINDOW, check, decide, key, quota},
    },
};
use hapax_core::{
    Namespace,
    limit::{Algorithm, Check, Decide, Quota},
};
use std::time::Duration;

list!("contract":
    a_limit_lets_so_many_through,
    a_limit_of_one_lets_one_through,
    a_cost_takes_so_much,
    a_cost_above_the_limit_is_never_allowed_and_writes_nothing,
    a_dry_run_says_what_would_be_and_writes_nothing,
    a_refused_request_does_not_count,
    a_burst_in_one_moment_is_counted_in_full,
    a_reset_forgets_all_that_was_counted,
    names_do_not_meet,
    algorithms_and_shadows_do_not_meet,
    a_changed_limit_is_seen_at_once,
    large_numbers_are_exact,
    a_new_start_finds_what_was_counted,
);

async fn a_limit_lets_so_many_through(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        gate.lets_through(&check("k", quota(algorithm, 5, WINDOW)), 5).await?;
    }
    Ok(())
}

async fn a_limit_of_one_lets_one_through(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        gate.lets_through(&check("k", quota(algorithm, 1, WINDOW)), 1).await?;
    }
    Ok(())
}

async fn a_cost_takes_so_much(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let costs = |cost| Check { cost, ..check("k", quota(algorithm, 10, WINDOW)) };
        let answer = gate.ask(&costs(7)).await?;
        same("allowed, left, cost", &(answer.allowed, answer.remaining, answer.cost), &(true, 3, 7))?;
        let answer = gate.ask(&costs(4)).await?;
        same("too much", &(answer.allowed, answer.remaining, answer.never), &(false, 3, false))?;
        gate.lets_through(&costs(1), 3).await?;
    }
    Ok(())
}

async fn a_cost_above_the_limit_is_never_allowed_and_writes_nothing(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        for cost in [6, u32::MAX] {
            let answer = gate.ask(&Check { cost, ..check("k", quota(algorithm, 5, WINDOW)) }).await?;
            let times = (answer.retry_after_ms, answer.reset_after_ms, answer.next_after_ms);
            same("never, times", &(answer.allowed, answer.never, times), &(false, true, (0, 0, 0)))?;
            same("what is left", &answer.remaining, &5)?;
        }
        gate.lets_through(&check("k", quota(algorithm, 5, WINDOW)), 5).await?;
        let never = gate.ask(&Check { cost: 6, ..check("k", quota(algorithm, 5, WINDOW)) }).await?;
        same("once it is used up", &(never.never, never.remaining, never.retry_after_ms), &(true, 0, 0))?;
    }
    Ok(())
}

async fn a_dry_run_says_what_would_be_and_writes_nothing(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let costs = |cost| Check { cost, ..check("k", quota(algorithm, 5, WINDOW)) };
        for cost in [2, 2, 2, 1] {
            let would = gate.dry(&costs(cost)).await?;
            let again = gate.dry(&costs(cost)).await?;
            let real = gate.ask(&costs(cost)).await?;
            for dry in [would, again] {
                same("the verdict", &(dry.allowed, dry.remaining), &(real.allowed, real.remaining))?;
                gate.time("retry", dry.retry_after_ms, Duration::from_millis(real.retry_after_ms))?;
                gate.time("reset", dry.reset_after_ms, Duration::from_millis(real.reset_after_ms))?;
                gate.time("next", dry.next_after_ms, Duration::from_millis(real.next_after_ms))?;
            }
        }
    }
    Ok(())
}

async fn a_refused_request_does_not_count(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let one = check("k", quota(algorithm, 3, WINDOW));
        gate.lets_through(&one, 3).await?;
        let before = gate.dry(&one).await?;
        for _ in 0..20 {
            holds(!gate.ask(&one).await?.allowed, || "it passes".into())?;
        }
        let after = gate.dry(&one).await?;
        gate.time("retry", after.retry_after_ms, Duration::from_millis(before.retry_after_ms))?;
        gate.time("reset", after.reset_after_ms, Duration::from_millis(before.reset_after_ms))?;
    }
    Ok(())
}

async fn a_burst_in_one_moment_is_counted_in_full(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let ten = Check { cost: 10, ..check("k", quota(algorithm, 100, WINDOW)) };
        let mut left = Vec::new();
        for _ in 0..11 {
            left.push(gate.ask(&ten).await?.remaining);
        }
        same("what is left", &left, &vec![90, 80, 70, 60, 50, 40, 30, 20, 10, 0, 0])?;
    }
    Ok(())
}

async fn a_reset_forgets_all_that_was_counted(gate: Gate) -> Verdict {
    let all = |text: &'static str| Algorithm::ALL.map(|algorithm| check(text, quota(algorithm, 3, WINDOW)));
    let shadow = Check { shadow: true, ..check("k", Quota::fixed_window(3, WINDOW)) };
    for one in all("k").iter().chain(&all("other")).chain([&shadow]) {
        gate.ask(one).await?;
    }
    gate.b.reset(&crate::limit::gate::namespace(), &key("k")).await?;
    gate.b.reset(&crate::limit::gate::namespace(), &key("never counted")).await?;
    for one in all("k").iter().chain([&shadow]) {
        let answer = gate.dry(one).await?;
        same("what is left after a reset", &answer.remaining, &2)?;
        gate.lets_through(one, 3).await?;
    }
    for one in &all("other") {
        same("what is left of another", &gate.dry(one).await?.remaining, &1)?;
    }
    Ok(())
}

async fn names_do_not_meet(gate: Gate) -> Verdict {
    let quota = Quota::fixed_window(1, WINDOW);
    let names = [
        ("suite", "k"),
        ("suite", "{k}"),
        ("suite", "k:1"),
        ("suite:k", "1"),
        ("suite", "k\0"),
        ("suite", "K"),
        ("suite", "k "),
        ("suit", "ek"),
        ("suite", "%"),
        ("suite", "ключ 🦀"),
    ];
    let long: Vec<_> = [512, 513, 514, 65_536].map(|n| "x".repeat(n)).into();
    let long = long.iter().map(|text| ("suite", text.as_str()));
    let names: Vec<_> = names.into_iter().chain(long).collect();
    for expected in [true, false] {
        for (namespace, text) in &names {
            let namespace = Namespace::new(namespace)?;
            let req = Decide { namespace, ..decide(&[check(text, quota)]) };
            let decided = gate.a.decide(&req).await?;
            same("whether it passes", &decided.allowed(&req.checks), &expected)?;
        }
    }
    Ok(())
}

async fn algorithms_and_shadows_do_not_meet(gate: Gate) -> Verdict {
    for shadow in [false, true] {
        for algorithm in Algorithm::ALL {
            gate.lets_through(&Check { shadow, ..check("k", quota(algorithm, 2, WINDOW)) }, 2).await?;
        }
    }
    Ok(())
}

async fn a_changed_limit_is_seen_at_once(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        let of = |limit| check("k", quota(algorithm, limit, WINDOW));
        gate.lets_through(&of(4), 4).await?;
        let raised = gate.dry(&of(6)).await?;
        // A bucket that becomes larger does not become fuller.
        let more = u32::from(algorithm != Algorithm::TokenBucket);
        same("what is left of more", &(raised.limit, raised.remaining), &(6, more))?;
        gate.b.reset(&crate::limit::gate::namespace(), &key("k")).await?;
        let half = gate.ask(&Check { cost: 5, ..of(9) }).await?;
        same("what is left", &half.remaining, &4)?;
        let lowered = gate.ask(&of(4)).await?;
        let fits = algorithm == Algorithm::TokenBucket;
        same("whether it passes the smaller one", &lowered.allowed, &fits)?;
        gate.b.reset(&crate::limit::gate::namespace(), &key("k")).await?;
    }
    Ok(())
}

async fn large_numbers_are_exact(gate: Gate) -> Verdict {
    let day = Duration::from_hours(24);
    for quota in [
        Quota::fixed_window(1 << 31, day * 400),
        Quota::sliding_window(10_000, day * 400),
        Quota::sliding_counter(104_000_000, day),
        Quota::token_bucket(104_000_000, day),
        Quota::token_bucket(1 << 31, Duration::from_hours(1)),
    ] {
        let name = quota.to_string();
        let most = Check { cost: quota.limit() - 1, ..check(&name, quota) };
        let first = gate.ask(&most).await?;
        // So large a bucket fills while a clock that runs by itself is read.
        if quota.algorithm() == Algorithm::TokenBucket && !gate.exact() {
            holds(first.allowed, || format!("{first:?}"))?;
            continue;
        }
        same(&name, &first.remaining, &1)?;
        same(&name, &gate.ask(&check(&name, quota)).await?.remaining, &0)?;
        let refused = gate.ask(&most).await?;
        holds(!refused.allowed && refused.retry_after_ms > 0, || format!("{refused:?}"))?;
    }
    Ok(())
}

async fn a_new_start_finds_what_was_counted(gate: Gate) -> Verdict {
    for algorithm in Algorithm::ALL {
        gate.ask(&check("k", quota(algorithm, 5, WINDOW))).await?;
    }
    let gate = gate.reopened().await?;
    for algorithm in Algorithm::ALL {
        gate.lets_through(&check("k", quota(algorithm, 5, WINDOW)), 4).await?;
    }
    Ok(())
}
