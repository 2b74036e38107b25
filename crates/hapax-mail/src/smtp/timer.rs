//! The time that a step may take.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// The limit of a step passed.
#[derive(Debug)]
pub(super) struct Late;

/// One alarm for all steps of a connection. It is set when a step first has to wait, and stays set when the step ends: the
/// next one that waits mostly ends later, and finds it set early enough. One that rings too early is set again.
#[derive(Debug, Default)]
pub(super) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// A step that may take so long.
    pub(super) async fn within<T>(
        &mut self,
        limit: Duration,
        step: impl Future<Output = T>,
    ) -> Result<T, Late> {
        let mut step = pin!(step);
        let mut end = None;
        poll_fn(|cx| {
            if let Poll::Ready(output) = step.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let end = *end.get_or_insert_with(|| after(limit));
            let alarm = self.0.get_or_insert_with(|| Box::pin(sleep_until(end)));
            if alarm.deadline() > end {
                alarm.as_mut().reset(end);
            }
            while alarm.as_mut().poll(cx).is_ready() {
                if alarm.deadline() >= end {
                    return Poll::Ready(Err(Late));
                }
                alarm.as_mut().reset(end);
            }
            Poll::Pending
        })
        .await
    }
}

/// A limit that no clock reaches counts as a year.
fn after(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or_else(|| now + Duration::from_hours(365 * 24))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::sleep;

    /// How long a step waits that would never end.
    async fn waited(timer: &mut Timer, limit: Duration) -> Duration {
        let begun = Instant::now();
        assert!(timer.within(limit, pending::<()>()).await.is_err());
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn each_step_has_its_own_limit_whatever_came_before() {
        let seconds = [5, 2, 9, 9, 1, 600, 3].map(Duration::from_secs);
        let mut timer = Timer::default();
        for limit in seconds {
            let took = waited(&mut timer, limit).await;
            assert!((limit..limit + Duration::from_millis(5)).contains(&took), "{limit:?}: {took:?}");
            // A step that ends in time leaves the alarm behind.
            timer.within(limit, sleep(limit / 2)).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_at_once_sets_nothing_and_what_is_endless_does_not_panic() {
        let mut timer = Timer::default();
        assert_eq!(timer.within(Duration::ZERO, async { 7 }).await.unwrap(), 7);
        assert!(timer.0.is_none());
        timer.within(Duration::MAX, sleep(Duration::from_secs(1))).await.unwrap();
    }
}
