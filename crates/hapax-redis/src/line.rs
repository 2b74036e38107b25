//! One connection, or one set of connections to a cluster, for many callers at once.

use futures_util::future::join_all;
use redis::{
    Cmd, Pipeline, RedisError, Value,
    aio::MultiplexedConnection,
    cluster_async::ClusterConnection,
    cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr},
};
use std::{
    fmt,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{sync::watch, task::AbortHandle};

/// A command, and where in a cluster it goes.
pub(crate) struct Routed {
    cmd: Cmd,
    /// One server needs none.
    route: Option<Route>,
}

impl Routed {
    /// Before it is known what it is sent over.
    pub(crate) fn anywhere(cmd: Cmd) -> Self {
        Self { cmd, route: None }
    }

    /// To the primary that has the key.
    pub(crate) fn new(to_cluster: bool, key: &str, cmd: Cmd) -> Self {
        Self { cmd, route: to_cluster.then(|| Route::with_key(key, SlotAddr::Master)) }
    }

    /// To the primary that has the slot.
    pub(crate) fn to_slot(slot: u16, cmd: Cmd) -> Self {
        Self { cmd, route: Some(Route::new(slot, SlotAddr::Master)) }
    }

    fn routing(&self) -> RoutingInfo {
        RoutingInfo::SingleNode(match self.route {
            Some(route) => SingleNodeRoutingInfo::SpecificNode(route),
            None => SingleNodeRoutingInfo::RandomPrimary,
        })
    }
}

enum Wire {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Closed when it is dropped.
pub(crate) struct Line {
    wire: Wire,
    over: Arc<AtomicBool>,
    driver: Option<Driver>,
}

/// The task that drives a connection.
struct Driver {
    task: AbortHandle,
    /// Closes when the task ends.
    alive: watch::Receiver<()>,
}

impl Line {
    /// Drives the connection on the runtime of the caller.
    pub(crate) fn one(
        connection: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (alive, watched) = watch::channel(());
        // Also when the runtime ends and takes the task with it.
        let ended = Ended(Arc::clone(&over), alive);
        let task = tokio::spawn(async move {
            let _ended = ended;
            driver.await;
        });
        let driver = Driver { task: task.abort_handle(), alive: watched };
        Self { wire: Wire::One(connection), over, driver: Some(driver) }
    }

    /// The driver connects to the nodes again by itself.
    pub(crate) fn cluster(connection: ClusterConnection) -> Self {
        Self { wire: Wire::Cluster(connection), over: Arc::default(), driver: None }
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Lets nobody use it any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Sends what is given in one go. To one server the order is kept.
    pub(crate) async fn send(&self, commands: Vec<Routed>) -> Vec<Result<Value, RedisError>> {
        let count = commands.len();
        let sent = pin!(self.sent(commands));
        self.while_alive(sent).await.unwrap_or_else(|| vec![Err(broken()); count])
    }

    /// Sends one command.
    pub(crate) async fn send_one(&self, command: Routed) -> Result<Value, RedisError> {
        // Pinned here, so that a future of some kilobytes is not moved from call to call.
        let sent = pin!(self.sent_one(command));
        self.while_alive(sent).await.unwrap_or_else(|| Err(broken()))
    }

    /// A request that was handed over in the moment in which the task ended has no answer, and no error either.
    async fn while_alive<T>(&self, answer: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let Some(driver) = &self.driver else { return Some(answer.await) };
        let mut alive = driver.alive.clone();
        tokio::select! {
            // What was answered counts.
            biased;
            answer = answer => Some(answer),
            _ = alive.changed() => None,
        }
    }

    async fn sent_one(&self, command: Routed) -> Result<Value, RedisError> {
        match &self.wire {
            Wire::One(connection) => connection.clone().send_packed_command(&command.cmd).await,
            Wire::Cluster(connection) => {
                let routing = command.routing();
                connection.clone().route_command(command.cmd, routing).await
            }
        }
    }

    async fn sent(&self, mut commands: Vec<Routed>) -> Vec<Result<Value, RedisError>> {
        if commands.len() == 1 {
            return join_all(commands.pop().map(|lone| self.sent_one(lone))).await;
        }
        let Wire::One(connection) = &self.wire else {
            return join_all(commands.into_iter().map(|command| self.sent_one(command))).await;
        };
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count);
        for command in commands {
            pipeline.add_command(command.cmd);
        }
        match connection.clone().send_packed_commands(&pipeline, 0, count).await {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        }
    }
}

fn broken() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.task.abort();
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("over", &self.is_over()).finish_non_exhaustive()
    }
}

/// Says that the task has ended: to those who come, and to those who wait.
struct Ended(Arc<AtomicBool>, #[expect(dead_code, reason = "dropping it tells")] watch::Sender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
