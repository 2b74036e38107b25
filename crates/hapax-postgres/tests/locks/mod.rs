//! Locks and rate limits under the suite of all stores.

use crate::{Still, pooled, prepared, without_server};
use hapax_conformance::{BoxError, LimitUnderTest, LockUnderTest, Suite, async_trait};
use hapax_core::{limit::LimitStore, lock::LockStore};
use std::{sync::Arc, time::Duration};

/// What a session, or the way of a value to the server, could make a difference to. What the functions do, whoever calls
/// them, is run with `HAPAX_TEST_LONG` on each way.
pub(crate) const AREAS: [&str; 2] = ["lock::faults::", "limit::several::"];

macro_rules! store {
    ($name:ident, $is_pooled:literal, $more:literal, $skips:expr) => {
        struct $name(Still);

        #[async_trait]
        impl LockUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                Still::new($is_pooled, $more).await.map(Self)
            }

            async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
                Ok(Arc::new(self.0.store().await?))
            }

            async fn elapse(&self, by: Duration) {
                self.0.pass(by).await;
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                Ok(true)
            }

            async fn lose_everything(&self) -> Result<bool, BoxError> {
                let schema = &self.0.place.schema;
                self.0.place.run(&format!("TRUNCATE {schema}.lock_slot")).await;
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                $skips(case)
            }
        }

        #[async_trait]
        impl LimitUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                Still::new($is_pooled, $more).await.map(Self)
            }

            async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
                Ok(Arc::new(self.0.store().await?))
            }

            async fn elapse(&self, by: Duration) {
                self.0.pass(by).await;
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                $skips(case)
            }
        }
    };
}

store!(Plain, false, "", without_server);
store!(Prepared, false, "&prepared=on", prepared);
store!(Pooled, true, "", pooled);

pub(crate) fn all(suite: Suite) -> Suite {
    let suite = suite.with_locks::<Plain>("postgres").with_limits::<Plain>("postgres");
    let suite =
        suite.with_locks::<Prepared>("postgres_prepared").with_limits::<Prepared>("postgres_prepared");
    suite.with_locks::<Pooled>("postgres_pooled").with_limits::<Pooled>("postgres_pooled")
}
