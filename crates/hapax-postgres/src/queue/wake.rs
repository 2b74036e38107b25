//! Waiting for jobs: by looking again and again, sooner where the server calls.

use super::row;
use crate::{store::PostgresStore, value::Value};
use hapax_core::{StoreResult, Token, queue::Wait};
use sqlx::{
    Row as _,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow},
};
use std::{fmt, pin::pin, time::Duration};
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};

const OP: &str = "wait for jobs";
const CHANNEL: &str = "hapax";
/// So often somebody who waits looks, and as often again at most: where nobody calls, and where somebody does.
const POLL: Duration = Duration::from_millis(250);
const LISTENED_POLL: Duration = Duration::from_secs(2);
/// So long the server knows that somebody listens to a group.
const LISTENS: Duration = Duration::from_secs(30);
/// A connection that was lost is made again after so long.
const PAUSE: Duration = Duration::from_secs(1);

/// Hears the server's calls, while anybody waits. A call says that a look may be worth it, no more: what it is about may
/// be gone, and a call may be lost with its connection.
pub(crate) struct Ear {
    to: Option<PgConnectOptions>,
    schema: String,
    bell: watch::Sender<()>,
    /// Of those who wait, the one that has it listens for all.
    listener: Mutex<Option<PgListener>>,
}

impl Ear {
    /// `to`: a connection that stays with one session, where there is one.
    pub(crate) fn new(to: Option<PgConnectOptions>, schema: &str) -> Self {
        let schema = schema.to_owned();
        Self { to, schema, bell: watch::Sender::new(()), listener: Mutex::default() }
    }

    /// Whether the server calls.
    pub(crate) fn listens(&self) -> bool {
        self.to.is_some()
    }

    /// Its rings from now on.
    pub(crate) fn rings(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    /// Rings when something may have changed. Ends only by being dropped.
    pub(crate) async fn listen(&self) {
        let Some(to) = &self.to else { return std::future::pending().await };
        let mut listener = self.listener.lock().await;
        loop {
            if let Err(error) = self.hear(to, &mut listener).await {
                tracing::debug!(%error, "nothing is heard of new jobs and free locks; they are looked for");
                *listener = None;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn hear(
        &self,
        to: &PgConnectOptions,
        listener: &mut Option<PgListener>,
    ) -> Result<(), sqlx::Error> {
        if let Some(listener) = listener {
            let call = listener.recv().await?;
            if call.payload().split(' ').next() == Some(&self.schema) {
                self.bell.send_replace(());
            }
            return Ok(());
        }
        let one = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let mut new = PgListener::connect_with(&one.connect_lazy_with(to.clone())).await?;
        new.listen(CHANNEL).await?;
        *listener = Some(new);
        // What came before was not heard.
        self.bell.send_replace(());
        Ok(())
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear").field("listens", &self.to.is_some()).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Waits until a step of the group may find something.
    pub(super) async fn await_jobs(&self, req: &Wait) -> StoreResult<()> {
        let (start, ear) = (Instant::now(), &*self.ear);
        let mut rung = ear.rings();
        let mut listening = pin!(ear.listen());
        let poll = if ear.listens() { LISTENED_POLL } else { POLL };
        loop {
            let left = req.limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let next = self.next_look(req).await?;
            if next.is_some_and(|next| next.is_zero()) {
                return Ok(());
            }
            tokio::select! {
                _ = rung.changed() => {}
                () = tokio::time::sleep(next.unwrap_or(left).min(left).min(jittered(poll))) => {}
                () = &mut listening => {}
            }
        }
    }

    /// In how long a step of the group may find something; `None`: not unless somebody writes.
    async fn next_look(&self, req: &Wait) -> StoreResult<Option<Duration>> {
        let listens = if self.ear.listens() { LISTENS } else { Duration::ZERO };
        let mut values: Vec<_> = row::queue(&req.queue).into();
        values.push(row::text(req.group.as_str()));
        values.push(Value::Big(i64::try_from(listens.as_millis()).unwrap_or_default()));
        let read = |rows: &[PgRow]| {
            let next = rows.first().map(|row| row.try_get::<Option<i64>, _>("next")).transpose()?.flatten();
            Ok(next.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or_default())))
        };
        self.asked(OP, "queue_look", values, true, read).await
    }
}

/// From half of it to all of it, so that those who began together do not go on so.
fn jittered(poll: Duration) -> Duration {
    let random = Token::random().map_or(u8::MAX, |token| token.as_bytes()[0]);
    poll / 2 + poll / 2 * u32::from(random) / u32::from(u8::MAX)
}
