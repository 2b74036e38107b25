//! Random lists of steps; one that fails is made as short as it gets.

use crate::{
    fixture::{Stop, Verdict, failed},
    suite::seed,
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::fmt::Debug;

/// A list is made shorter so often at most.
const SHRINKS: usize = 400;

/// Checks `count` lists, each under a number of its own.
pub(crate) async fn check<L, F, Fut>(count: usize, lists: L, mut check: F) -> Verdict
where
    L: Strategy,
    L::Value: Debug,
    F: FnMut(usize, L::Value) -> Fut,
    Fut: Future<Output = Verdict>,
{
    let seed = seed()?;
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(seed.to_be_bytes()).for_each(|(to, from)| *to = from);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut number = 0;
    for _ in 0..count {
        let mut tree = lists.new_tree(&mut runner).map_err(failed)?;
        number += 1;
        let Err(mut stop) = check(number, tree.current()).await else { continue };
        let (mut list, mut tries, mut going) = (tree.current(), 0, tree.simplify());
        while going && tries < SHRINKS {
            (tries, number) = (tries + 1, number + 1);
            going = match check(number, tree.current()).await {
                Err(simpler) => {
                    (stop, list) = (simpler, tree.current());
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        let Stop::Failed(what) = stop else { return Err(stop) };
        return Err(Stop::Failed(format!("{what}\nin this list (HAPAX_TEST_SEED={seed}):\n{list:#?}")));
    }
    Ok(())
}
