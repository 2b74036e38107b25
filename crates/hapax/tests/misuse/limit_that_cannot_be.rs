//! Nothing could ever pass, or too much would have to be remembered.
use hapax::Quota;
use std::time::Duration;

const NOTHING: Quota = Quota::fixed_window(0, Duration::from_secs(1));
const EXACT: Quota = Quota::sliding_window(10_001, Duration::from_secs(1));
const SHORT: Quota = Quota::token_bucket(1, Duration::from_micros(10));

fn main() {
    let _ = (NOTHING, EXACT, SHORT);
}
