//! In which order the members of a pool are tried.

/// How a pool chooses the member that is tried first. Whichever it is, the others follow when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// The first, then the second. Members of the same [priority](crate::Member::priority) take turns.
    #[default]
    Priority,
    /// Each in turn.
    RoundRobin,
    /// Each as often as its [weight](crate::Member::weight) says, evenly spread.
    Weighted,
    /// The one that has failed least of late.
    LeastFailing,
}

/// How a member stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    weight: i64,
    priority: u32,
    /// Of the smooth weighted round robin: what it has saved up.
    saved: i64,
    /// Of late: a failure counts 256, and each success halves what there is.
    failing: u32,
}

impl Standing {
    pub(super) fn new(weight: u32, priority: u32) -> Self {
        Self { weight: i64::from(weight), priority, saved: 0, failing: 0 }
    }
}

/// Lives as long as the pool: a batch does not start at the first member again.
#[derive(Debug)]
pub(super) struct Choice {
    strategy: Strategy,
    standings: Vec<Standing>,
    turn: usize,
}

impl Choice {
    pub(super) fn new(strategy: Strategy, standings: Vec<Standing>) -> Self {
        Self { strategy, standings, turn: 0 }
    }

    /// Notes what became of an attempt.
    pub(super) fn seen(&mut self, at: usize, well: bool) {
        if let Some(standing) = self.standings.get_mut(at) {
            standing.failing =
                if well { standing.failing / 2 } else { standing.failing.saturating_add(256).min(1 << 16) };
        }
    }

    /// These members, the first choice first.
    pub(super) fn order(&mut self, among: &[usize]) -> Vec<usize> {
        let mut order = among.to_vec();
        if order.len() < 2 {
            return order;
        }
        if self.strategy == Strategy::Weighted {
            self.weighted(&mut order);
            return order;
        }
        let turn = self.turn % order.len();
        self.turn = self.turn.wrapping_add(1);
        order.rotate_left(turn);
        match self.strategy {
            // Stable: those that are equal keep their turns.
            Strategy::Priority => order.sort_by_key(|at| self.of(*at, |standing| standing.priority)),
            Strategy::LeastFailing => order.sort_by_key(|at| self.of(*at, |standing| standing.failing)),
            Strategy::RoundRobin | Strategy::Weighted => {}
        }
        order
    }

    /// The smooth weighted round robin: all save up their weight, who has most is chosen and pays for all.
    fn weighted(&mut self, order: &mut [usize]) {
        let mut total = 0;
        for at in order.iter() {
            if let Some(standing) = self.standings.get_mut(*at) {
                standing.saved += standing.weight;
                total += standing.weight;
            }
        }
        order.sort_by_key(|at| std::cmp::Reverse(self.of(*at, |standing| standing.saved)));
        if let Some(first) = order.first().and_then(|at| self.standings.get_mut(*at)) {
            first.saved -= total;
        }
    }

    fn of<T: Default>(&self, at: usize, figure: impl FnOnce(&Standing) -> T) -> T {
        self.standings.get(at).map(figure).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(strategy: Strategy, weights_and_priorities: &[(u32, u32)]) -> Choice {
        let standings =
            weights_and_priorities.iter().map(|(weight, priority)| Standing::new(*weight, *priority));
        Choice::new(strategy, standings.collect())
    }

    fn firsts(choice: &mut Choice, among: &[usize], n: usize) -> Vec<usize> {
        (0..n).map(|_| choice.order(among)[0]).collect()
    }

    #[test]
    fn round_robin_takes_turns() {
        let mut choice = choice(Strategy::RoundRobin, &[(1, 0), (1, 0), (1, 0)]);
        assert_eq!(choice.order(&[0, 1, 2]), [0, 1, 2]);
        assert_eq!(choice.order(&[0, 1, 2]), [1, 2, 0]);
        assert_eq!(firsts(&mut choice, &[0, 1, 2], 4), [2, 0, 1, 2]);
    }

    #[test]
    fn weights_are_spread_evenly() {
        let mut choice = choice(Strategy::Weighted, &[(5, 0), (1, 0), (1, 0)]);
        assert_eq!(firsts(&mut choice, &[0, 1, 2], 14), [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(firsts(&mut choice, &[1, 2], 4), [1, 2, 1, 2]);
    }

    #[test]
    fn priorities_come_first_and_equal_ones_take_turns() {
        let mut choice = choice(Strategy::Priority, &[(1, 1), (1, 0), (1, 0)]);
        let orders: Vec<_> = (0..3).map(|_| choice.order(&[0, 1, 2])).collect();
        assert!(orders.iter().all(|order| order[2] == 0), "{orders:?}");
        assert!(orders.iter().any(|order| order[0] == 1) && orders.iter().any(|order| order[0] == 2));
        let mut distinct = self::choice(Strategy::Priority, &[(1, 0), (1, 1)]);
        assert_eq!(firsts(&mut distinct, &[0, 1], 3), [0, 0, 0]);
    }

    #[test]
    fn what_has_failed_least_comes_first() {
        let mut choice = choice(Strategy::LeastFailing, &[(1, 0), (1, 0)]);
        choice.seen(0, false);
        assert_eq!(firsts(&mut choice, &[0, 1], 4), [1, 1, 1, 1]);
        (0..2).for_each(|_| choice.seen(1, false));
        assert_eq!(choice.order(&[0, 1]), [0, 1]);
        (0..10).for_each(|_| choice.seen(1, true));
        assert_eq!(choice.order(&[0, 1])[0], 1);
    }
}
