//! Queues, locks and limits beside the keys of a store under test.

use crate::{Cluster, Cut, Only62, Place, Resp2, Resp3, Sentinel, given, shift, skips};
use hapax_conformance::{
    BoxError, HandedOut, InsistingQueues, LaterLocks, LimitUnderTest, LockUnderTest, QueueClient,
    QueueUnderTest, StoreUnderTest, async_trait,
};
use hapax_core::{limit::LimitStore, lock::LockStore};
use hapax_redis::{RedisLimits, RedisLocks, RedisQueues, RedisStore};
use hapax_testkit::{Rotation, is_long, skips_cut_queues};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

impl Place {
    async fn queues(&self, more: &str) -> Result<QueueClient, BoxError> {
        let store = Arc::new(self.client(more).await?);
        Ok(QueueClient::new(Arc::new(RedisQueues::of(&store))).with_keys(store))
    }
}

/// The queues beside the keys of a store under test.
macro_rules! queues {
    ($name:ident, $keys:ident, $more:literal, $is_usual:literal) => {
        pub(crate) struct $name($keys);

        #[async_trait]
        impl QueueUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                <$keys as StoreUnderTest>::fresh().await.map(Self)
            }

            async fn client(&self) -> Result<QueueClient, BoxError> {
                self.0.place().queues($more).await
            }

            async fn elapse(&self, by: Duration) {
                StoreUnderTest::elapse(&self.0, by).await;
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                StoreUnderTest::reopen(&self.0).await
            }

            fn skips(case: &str) -> Option<&'static str> {
                is_spared(case, $is_usual).or_else(|| <$keys as StoreUnderTest>::skips(case))
            }
        }
    };
}

queues!(Queues, Resp2, "", true);
queues!(Queues3, Resp3, "&protocol=3", false);
queues!(Queues62, Only62, "&commands=6.2", false);
queues!(ClusterQueues, Cluster, "", false);
queues!(SentinelQueues, Sentinel, "", false);

/// The queues of one server through a proxy that cuts.
pub(crate) struct CutQueues {
    cut: Cut,
    handed_out: HandedOut,
}

#[async_trait]
impl QueueUnderTest for CutQueues {
    async fn fresh() -> Result<Self, BoxError> {
        Ok(Self { cut: <Cut as StoreUnderTest>::fresh().await?, handed_out: HandedOut::default() })
    }

    async fn client(&self) -> Result<QueueClient, BoxError> {
        let (store, faults) = self.cut.met_by_faults("").await?;
        let (store, faults) = (Arc::new(store), faults.ok_or("no proxy")?);
        let queues = InsistingQueues::new(Arc::new(RedisQueues::of(&store)), faults, &self.handed_out);
        Ok(QueueClient::new(Arc::new(queues)).with_keys(store))
    }

    async fn elapse(&self, by: Duration) {
        StoreUnderTest::elapse(&self.cut, by).await;
    }

    fn exact_time() -> bool {
        false
    }

    async fn reopen(&self) -> Result<bool, BoxError> {
        StoreUnderTest::reopen(&self.cut).await
    }

    fn skips(case: &str) -> Option<&'static str> {
        match given() {
            Some(_) => Some("a server is given, and no proxy"),
            None => skips_cut_queues(case, is_long()).or_else(|| skips(case, true)),
        }
    }
}

/// Where nothing is in the way.
macro_rules! plain {
    ($($name:ident),*) => {
        $(impl $name {
            async fn met_by_faults(&self, more: &str) -> Result<(RedisStore, Option<Rotation>), BoxError> {
                Ok((self.place().client(more).await?, None))
            }
        })*
    };
}

plain!(Resp2, Resp3, Only62, Cluster, Sentinel);

/// Whether a case that takes long is left out of a usual run.
fn is_spared(case: &str, is_usual: bool) -> Option<&'static str> {
    let is_heavy = case.contains("::races::") || case.contains("::model::");
    (is_heavy && !is_usual && !is_long())
        .then_some("on one server alone, and elsewhere with HAPAX_TEST_LONG=1")
}

/// The locks beside the keys of a store under test.
macro_rules! locks {
    ($name:ident, $keys:ident, $more:literal, $is_usual:literal) => {
        pub(crate) struct $name {
            keys: $keys,
            passed: Arc<AtomicU64>,
        }

        #[async_trait]
        impl LockUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                let keys = <$keys as StoreUnderTest>::fresh().await?;
                Ok(Self { keys, passed: Arc::default() })
            }

            async fn client(&self) -> Result<Arc<dyn LockStore>, BoxError> {
                let (store, faults) = self.keys.met_by_faults($more).await?;
                let inner = Arc::new(RedisLocks::of(&Arc::new(store)));
                let locks = LaterLocks::new(inner, Arc::clone(&self.passed));
                Ok(match faults {
                    Some(faults) => Arc::new(locks.met_by(faults)),
                    None => Arc::new(locks),
                })
            }

            async fn elapse(&self, by: Duration) {
                StoreUnderTest::elapse(&self.keys, by).await;
                self.passed.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                StoreUnderTest::reopen(&self.keys).await
            }

            async fn lose_everything(&self) -> Result<bool, BoxError> {
                for server in self.keys.servers() {
                    shift::lose(&server, &self.keys.place().prefix).await;
                }
                Ok(true)
            }

            fn skips(case: &str) -> Option<&'static str> {
                is_spared(case, $is_usual).or_else(|| <$keys as StoreUnderTest>::skips(case))
            }
        }
    };
}

locks!(Locks, Resp2, "", true);
locks!(Locks3, Resp3, "&protocol=3", false);
locks!(Locks62, Only62, "&commands=6.2", false);
locks!(CutLocks, Cut, "", false);
locks!(ClusterLocks, Cluster, "", false);
locks!(SentinelLocks, Sentinel, "", false);

/// The limits beside the keys of a store under test.
macro_rules! limits {
    ($name:ident, $keys:ident, $more:literal, $is_usual:literal) => {
        pub(crate) struct $name($keys);

        #[async_trait]
        impl LimitUnderTest for $name {
            async fn fresh() -> Result<Self, BoxError> {
                <$keys as StoreUnderTest>::fresh().await.map(Self)
            }

            async fn client(&self) -> Result<Arc<dyn LimitStore>, BoxError> {
                Ok(Arc::new(RedisLimits::of(&Arc::new(self.0.place().client($more).await?))))
            }

            async fn elapse(&self, by: Duration) {
                StoreUnderTest::elapse(&self.0, by).await;
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                StoreUnderTest::reopen(&self.0).await
            }

            fn skips(case: &str) -> Option<&'static str> {
                is_spared(case, $is_usual).or_else(|| <$keys as StoreUnderTest>::skips(case))
            }
        }
    };
}

limits!(Limits, Resp2, "", true);
limits!(Limits3, Resp3, "&protocol=3", false);
limits!(Limits62, Only62, "&commands=6.2", false);
limits!(ClusterLimits, Cluster, "", false);
limits!(SentinelLimits, Sentinel, "", false);
