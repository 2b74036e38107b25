//! A handler of typed jobs over bytes.

use super::{
    Job, JobError, QueueDef,
    job::told,
    raw::{Handler, Outcome, RawJob},
};
use crate::protocol::unencodable;
use hapax_core::{
    async_trait,
    idempotency::{JSON, Receipt},
    queue::DeadReason,
};
use serde::{Serialize, de::DeserializeOwned};
use std::marker::PhantomData;

pub(super) struct Typed<S, T: 'static, F, R> {
    pub(super) def: &'static QueueDef<T>,
    pub(super) state: S,
    pub(super) handler: F,
    pub(super) result: PhantomData<fn() -> R>,
}

impl<S, T: DeserializeOwned, F, R> Typed<S, T, F, R> {
    /// The payload, or why the job is dead.
    fn decode(&self, bytes: &[u8]) -> Result<T, Outcome> {
        let dead = |reason, error| Outcome::Dead { reason, error };
        let data: T = serde_json::from_slice(bytes)
            .map_err(|error| dead(DeadReason::Undecodable, format!("the payload cannot be read: {error}")))?;
        self.def.checked(data).map_err(|error| dead(DeadReason::Invalid, told(&*error)))
    }
}

#[async_trait]
impl<S, T, F, Fut, R> Handler for Typed<S, T, F, R>
where
    S: Clone + Send + Sync + 'static,
    T: DeserializeOwned + Send + Sync + 'static,
    F: Fn(S, Job<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, JobError>> + Send + 'static,
    R: Serialize + Send + 'static,
{
    async fn handle(&self, job: RawJob) -> Outcome {
        let data = match self.decode(&job.taken.payload) {
            Ok(data) => data,
            Err(outcome) => return outcome,
        };
        match (self.handler)(self.state.clone(), Job::new(data, job)).await {
            Ok(result) => Outcome::Done { result: Some(receipt(&result)) },
            Err(error) => error.into_outcome(),
        }
    }
}

/// The result as it is kept. One without a form is kept as that: the job is done all the same.
fn receipt<R: Serialize>(result: &R) -> Receipt {
    match serde_json::to_vec(result) {
        Ok(bytes) => Receipt::new(JSON, bytes),
        Err(error) => unencodable(&format!("the result could not be encoded: {error}")),
    }
}
