//! The store: opening it, and taking one step.

use crate::{
    clock::Moment,
    error::{BACKEND, Failure},
    keys, layout,
    options::MongoOptions,
    rules::Change,
    sessions::Sessions,
    step::Step,
    value,
    write::{self, Wrote},
};
use hapax_core::{Clock, StoreError, StoreErrorKind, StoreResult, idempotency::machine::Slot};
use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock},
};
use tokio::time::Instant;

const OPEN: &str = "open the store";
/// Looks at a document that changes under each write. Every change that stands in the way of a step brings its key on:
/// few can follow each other.
const ROUNDS: usize = 3;
/// The largest receipt: a document has 16 MiB at most.
const MOST_BYTES: usize = 15 * 1024 * 1024;

/// Idempotency keys, locks and rate limits in a MongoDB database. See the [crate](crate) for what it promises.
///
/// Its methods are called from within a tokio runtime whose timers and input are enabled; from outside of one they
/// answer an error. A call that is dropped may have been done.
#[derive(Clone)]
pub struct MongoStore {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) secret: Arc<OnceLock<[u8; 32]>>,
    pub(crate) position: Arc<Mutex<String>>,
}

impl MongoStore {
    /// Connects, and makes the collections where they are missing. Many processes may do so at once.
    ///
    /// Codes: `store.unavailable`, `store.timeout`, `store.auth`, `store.config`, `store.version`, `store.corrupt`,
    /// `store.unsupported`.
    pub async fn connect(options: MongoOptions) -> StoreResult<Self> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Failure::no_runtime().error(OPEN));
        }
        let sessions = Sessions::new(options);
        let deadline = sessions.deadline();
        let opened = async {
            sessions.greet(deadline).await?;
            layout::prepare(&sessions, deadline).await
        };
        opened.await.map_err(|failure: Failure| failure.undone().error(OPEN))?;
        Ok(Self { sessions: Arc::new(sessions), secret: Arc::default(), position: Arc::default() })
    }

    /// The server's clock, as far as it is known here.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.sessions.clock) as _
    }

    /// Takes one step.
    pub(crate) async fn one<S: Step>(&self, step: &S) -> StoreResult<S::Answer> {
        if let Some(error) = refusal(step) {
            return Err(error);
        }
        let deadline = self.sessions.deadline();
        self.take(step, deadline).await.map_err(|failure| failure.error(S::OP))
    }

    async fn take<S: Step>(&self, step: &S, deadline: Instant) -> Result<S::Answer, Failure> {
        let at = self.sessions.moment(deadline).await?;
        if let Some((usual, answer)) = step.usual(&at)
            && self.sessions.write(usual, S::RESEND, deadline).await? == Wrote::Yes
        {
            return Ok(answer);
        }
        self.decided(step, at, deadline).await
    }

    /// Looks, and writes on the condition that nothing has changed since.
    pub(crate) async fn decided<S: Step>(
        &self,
        step: &S,
        mut at: Moment,
        deadline: Instant,
    ) -> Result<S::Answer, Failure> {
        let id = keys::id(step.name());
        let (mut is_fresh, mut invisible) = (false, true);
        for _ in 0..ROUNDS {
            let found = value::slot(self.sessions.look(&id, deadline).await?.as_ref());
            invisible &= found.is_none();
            let (mut change, mut answer) = step.decide(&found, &at);
            // Nothing is taken over on what the server's clock showed a while ago.
            if !is_fresh && takes_over(&found, &change, &at) {
                (at, is_fresh) = (self.sessions.hello(deadline).await?.1, true);
                (change, answer) = step.decide(&found, &at);
            }
            match write::change(&id, &found, &change) {
                None if !S::CLAIMS => return Ok(answer),
                None => {
                    self.sessions.write(write::nothing(&id), true, deadline).await?;
                    return Ok(answer);
                }
                Some(write) => match self.sessions.write(write, S::RESEND, deadline).await? {
                    Wrote::Yes => return Ok(answer),
                    Wrote::Duplicate { is_told: false } => {}
                    Wrote::Duplicate { is_told: true } | Wrote::No => invisible = false,
                },
            }
        }
        // A duplicate of what cannot be seen by its id.
        Err(if invisible {
            Failure::foreign_index(&self.sessions.place)
        } else {
            Failure::never_still(&self.sessions.place)
        })
    }
}

/// Whether the change rests on something being over.
fn takes_over(found: &Slot, change: &Change, at: &Moment) -> bool {
    *change != Change::Keep && crate::rules::settle(found, at).1 != Change::Keep
}

/// What is wrong with a step before it is sent.
pub(crate) fn refusal<S: Step>(step: &S) -> Option<StoreError> {
    let bytes = step.receipt().map(|receipt| receipt.bytes.len().saturating_add(receipt.codec.len()))?;
    (bytes > MOST_BYTES).then(|| {
        let reason = format!("the receipt has {bytes} bytes, and {MOST_BYTES} are the most");
        StoreError::new(StoreErrorKind::Unsupported, BACKEND, S::OP, reason)
    })
}

impl fmt::Debug for MongoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoStore").field("options", &self.sessions.options).finish_non_exhaustive()
    }
}
