//! What the driver tells of the servers: why one cannot be reached, and when there is another primary.

use crate::{clock::ServerClock, error::Failure, options::MongoOptions};
use mongodb::{
    ServerType,
    error::Error,
    event::{
        EventHandler,
        sdam::{SdamEvent, TopologyDescriptionChangedEvent},
    },
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Notify;

/// Of one client of the driver.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// By server, since it last answered.
    failures: Mutex<HashMap<String, Error>>,
    news: Notify,
}

impl Watch {
    /// Tells this, and the clock.
    pub(crate) fn handler(self: &Arc<Self>, clock: &Arc<ServerClock>) -> EventHandler<SdamEvent> {
        let (watch, clock) = (Arc::clone(self), Arc::clone(clock));
        EventHandler::callback(move |event| match event {
            SdamEvent::ServerHeartbeatFailed(event) => {
                watch.failures().insert(event.server_address.to_string(), event.failure);
                watch.news.notify_waiters();
            }
            SdamEvent::ServerHeartbeatSucceeded(event) => {
                watch.failures().remove(&event.server_address.to_string());
            }
            SdamEvent::TopologyDescriptionChanged(event) => {
                if let Some(primary) = primary(&event) {
                    clock.is_of(&primary);
                }
            }
            _ => {}
        })
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, HashMap<String, Error>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when every server that the URL names has failed.
    pub(crate) async fn all_failed(&self, options: &MongoOptions) -> Failure {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // From here on nothing is missed.
            news.as_mut().enable();
            if self.failures().len() >= options.hosts()
                && let Some(failure) = self.why(options)
            {
                return failure;
            }
            news.await;
        }
    }

    /// Why a server cannot be reached, where one cannot.
    pub(crate) fn why(&self, options: &MongoOptions) -> Option<Failure> {
        let error = self.failures().values().next().cloned()?;
        Some(Failure::of_connect(&options.place(), options.is_tls(), error))
    }
}

fn primary(event: &TopologyDescriptionChangedEvent) -> Option<String> {
    let takes_writes = |kind| {
        matches!(
            kind,
            ServerType::RsPrimary | ServerType::Standalone | ServerType::Mongos | ServerType::LoadBalancer
        )
    };
    let servers = event.new_description.servers();
    let mut addresses: Vec<_> = servers
        .iter()
        .filter(|(_, server)| takes_writes(server.server_type()))
        .map(|(address, _)| address.to_string())
        .collect();
    addresses.sort_unstable();
    (!addresses.is_empty()).then(|| addresses.join(","))
}
