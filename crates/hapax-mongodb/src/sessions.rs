//! The driver's clients, one for each runtime: its tasks live there, and one that is blocked must not hold up another,
//! which may be renewing leases.

use crate::{
    clock::{Moment, ServerClock},
    error::{Failure, Remedy},
    options::MongoOptions,
    watch::Watch,
};
use hapax_core::{StoreErrorKind, Timestamp};
use mongodb::{
    Client, Database,
    bson::{Bson, Document, doc},
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    runtime::{Handle, Id},
    time::Instant,
};

/// A command is sent so many times at most.
const TRIES: usize = 3;
/// Clients of runtimes that are gone are forgotten when there are more than this.
const RUNTIMES: usize = 16;

pub(crate) struct Sessions {
    pub(crate) options: MongoOptions,
    pub(crate) place: String,
    pub(crate) clock: Arc<ServerClock>,
    berths: Mutex<Vec<(Id, Berth)>>,
}

/// The client of one runtime.
#[derive(Clone)]
struct Berth {
    client: Client,
    watch: Arc<Watch>,
}

impl Sessions {
    pub(crate) fn new(options: MongoOptions) -> Self {
        let (place, here) = (options.place(), Arc::clone(&options.clock));
        Self { options, place, clock: Arc::new(ServerClock::new(here)), berths: Mutex::default() }
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    fn berth(&self) -> Result<Berth, Failure> {
        let here = Handle::try_current().map_err(|_| Failure::no_runtime())?.id();
        let mut berths = self.berths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, berth)) = berths.iter().find(|(id, _)| *id == here) {
            return Ok(berth.clone());
        }
        if berths.len() >= RUNTIMES {
            berths.remove(0);
        }
        let (mut options, watch) = (self.options.driver(), Arc::new(Watch::default()));
        options.sdam_event_handler = Some(watch.handler(&self.clock));
        let client = Client::with_options(options)
            .map_err(|error| Failure::of_connect(&self.place, self.options.is_tls(), error))?;
        let berth = Berth { client, watch };
        berths.push((here, berth.clone()));
        Ok(berth)
    }

    /// Sends a command, and sends it again where that is harmless, until the deadline. One that is dropped may have
    /// been done.
    pub(crate) async fn call(
        &self,
        command: Document,
        resend: bool,
        deadline: Instant,
    ) -> Result<Document, Failure> {
        self.call_in(&self.options.database, command, resend, deadline).await
    }

    /// In another database.
    pub(crate) async fn call_in(
        &self,
        database: &str,
        command: Document,
        resend: bool,
        deadline: Instant,
    ) -> Result<Document, Failure> {
        let database = self.berth()?.client.database(database);
        let (mut left, mut maybe_applied) = (TRIES, false);
        loop {
            left -= 1;
            let failure = match self.send(&database, command.clone(), deadline).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            maybe_applied |= failure.is_maybe_applied();
            let goes_on = match failure.remedy {
                Remedy::Again => true,
                Remedy::Resend => resend,
                Remedy::None | Remedy::Apart => false,
            };
            if !goes_on || left == 0 || Instant::now() >= deadline {
                return Err(if maybe_applied { failure.maybe_applied() } else { failure });
            }
            tracing::debug!(place = self.place, error = %failure.error("take a step"), "once more");
        }
    }

    async fn send(
        &self,
        database: &Database,
        command: Document,
        deadline: Instant,
    ) -> Result<Document, Failure> {
        let sent = tokio::time::timeout_at(deadline, database.run_command(command)).await;
        let Ok(sent) = sent else {
            return Err(Failure::timeout(&self.place, self.options.timeout).maybe_applied());
        };
        let reply = sent.map_err(|error| Failure::of(&self.place, error))?;
        // The driver leaves this to whoever sends a command.
        let concern = reply.get_document("writeConcernError").ok();
        match concern.and_then(|error| crate::value::number(error, "code")) {
            Some(code) => Err(Failure::of_concern(&self.place, i32::try_from(code).unwrap_or(0))),
            None => Ok(reply),
        }
    }

    /// How long the server may work on what is asked now: it gives up first.
    pub(crate) fn server_ms(deadline: Instant) -> i64 {
        let left = deadline.saturating_duration_since(Instant::now()) * 9 / 10;
        i64::try_from(left.as_millis()).unwrap_or(i64::MAX).max(1)
    }

    /// The first question to a place: ends as soon as none of its servers can be reached.
    pub(crate) async fn greet(&self, deadline: Instant) -> Result<Document, Failure> {
        let watch = self.berth()?.watch;
        let asked = async {
            tokio::select! {
                greeted = self.hello(deadline) => greeted,
                failure = watch.all_failed(&self.options) => Err(failure),
            }
        };
        let failure = match asked.await {
            Ok((reply, _)) => return Ok(reply),
            Err(failure) => failure,
        };
        let options = &self.options;
        // Why is known to whoever watches the servers.
        let why = || {
            let silent = || Failure::silent(&self.place, options.is_tls(), options.timeout);
            watch.why(options).unwrap_or_else(silent)
        };
        Err(if failure.is_out_of_reach() { why() } else { failure }.undone())
    }

    /// What the primary says of itself, and the moment.
    pub(crate) async fn hello(&self, deadline: Instant) -> Result<(Document, Moment), Failure> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let asked = self.clock.ask();
            let reply = self.call_in("admin", doc! { "hello": 1 }, false, deadline).await;
            match reply {
                Ok(reply) => {
                    let moment = self.shown(&reply).map(|shown| self.clock.shown(asked, shown));
                    return Ok((reply, moment?));
                }
                // A connection that had gone stale. Asked anew, so that the sample begins with the question.
                Err(failure) if failure.remedy == Remedy::Resend && tries > 0 => {}
                Err(failure) => return Err(failure.undone()),
            }
        }
    }

    fn shown(&self, reply: &Document) -> Result<Timestamp, Failure> {
        let is_primary =
            ["isWritablePrimary", "ismaster"].iter().any(|name| reply.get_bool(name).unwrap_or(false));
        if !is_primary {
            return Err(crate::error::of_code(&self.place, 10_107, ""));
        }
        match reply.get("localTime") {
            Some(Bson::DateTime(time)) => Ok(Timestamp::from_millis(time.timestamp_millis())),
            _ => Err(Failure::new(
                StoreErrorKind::Config,
                format!("what listens at {} does not say what time it is, as MongoDB does", self.place),
            )),
        }
    }

    /// The moment, asking the server where the last answer is old.
    pub(crate) async fn moment(&self, deadline: Instant) -> Result<Moment, Failure> {
        match self.clock.moment() {
            Some(moment) => Ok(moment),
            None => self.hello(deadline).await.map(|(_, moment)| moment),
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("options", &self.options).finish_non_exhaustive()
    }
}
