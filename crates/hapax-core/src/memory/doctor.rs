//! How the store is: for whoever looks after it.

use super::MemoryStore;
use crate::{
    StoreResult,
    doctor::{Examination, Examine, Severity},
};
use async_trait::async_trait;

#[async_trait]
impl Examine for MemoryStore {
    async fn examine(&self) -> StoreResult<Examination> {
        let mut found = Examination::default();
        found.fact("place", "this process");
        found.fact("keys", format!("{} of {} at most", self.len(), self.max_entries()));
        found.find(
            "persistence",
            Severity::Warning,
            "every key ends with this process: what it did runs again in the next",
            "use `sqlite:PATH`, or a server, for what must not",
        );
        Ok(found)
    }
}
