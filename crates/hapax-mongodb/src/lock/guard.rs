//! Writes of holders, told apart by their fences where they arrive: in the document that is written.

use crate::{
    call::MAJORITY,
    error::{BACKEND, Failure, is_duplicate},
    value::number,
};
use hapax_core::{
    StoreError, StoreErrorKind, StoreResult,
    lock::{Fence, Guarded},
    registry::ConnectOptions,
};
use mongodb::{
    Collection,
    bson::{Bson, Document, doc},
};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const OP: &str = "write under a fence";
/// A document that somebody else removes meanwhile is made anew.
const ROUNDS: usize = 3;

/// Lets the holder of a lock write to a document, unless a newer holder has: a holder whose lease passed while it was
/// paused changes nothing when it wakes.
///
/// The largest fence that wrote is a field of the document, so that the look at it and the write are one step, over your
/// own collection.
///
/// ```no_run
/// # async fn example(accounts: mongodb::Collection<mongodb::bson::Document>, fence: hapax_core::lock::Fence)
/// # -> Result<(), hapax_core::StoreError> {
/// use hapax_core::lock::Guarded;
/// use hapax_mongodb::Guard;
/// use mongodb::bson::doc;
///
/// match Guard::new().write(&accounts, 7, fence, doc! { "$set": { "state": "closed" } }).await? {
///     Guarded::Applied => {}
///     Guarded::Repeat => { /* this holder has written before */ }
///     Guarded::Stale => { /* a newer holder has written: stop */ }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    field: String,
    timeout: Duration,
}

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

impl Guard {
    /// Remembers the fence in the field `fence`. A call takes 5 s at most.
    pub fn new() -> Self {
        Self { field: "fence".to_owned(), timeout: ConnectOptions::TIMEOUT }
    }

    /// Remembers it in another field, at the top of the document: one for each part that holders write once.
    ///
    /// # Errors
    /// `store.config` where it is no name of such a field: empty, `_id`, or with `$`, `.` or NUL in it.
    pub fn field(self, name: &str) -> StoreResult<Self> {
        if name.is_empty() || name == "_id" || name.contains(['$', '.', '\0']) {
            let reason = format!("`{name}` is no field at the top of a document: leave out `$` and `.`");
            return Err(StoreError::new(StoreErrorKind::Config, BACKEND, OP, reason));
        }
        Ok(Self { field: name.to_owned(), ..self })
    }

    /// How long a call may take: 1 ms to 1 h.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.clamp(Duration::from_millis(1), Duration::from_hours(1)), ..self }
    }

    /// Changes the document of an `_id`, made where it is missing, unless a larger fence has, or this one. The update
    /// has operators alone (`$set`, `$inc`, …), and none for the field of the fence. It waits for the majority, whatever
    /// the collection says, and is no part of a transaction.
    ///
    /// To be sent again after a lost reply: what was carried out is a [`Repeat`](Guarded::Repeat) then.
    ///
    /// # Errors
    /// Codes: `store.unavailable`, `store.timeout`, `store.auth`, `store.config` (the update), `store.corrupt` (the field
    /// holds no fence), `store.unsupported` (outside of a runtime). [`Applied::No`](hapax_core::Applied) says that
    /// nothing was written.
    ///
    /// # Cancel safety
    /// A dropped call may have been carried out.
    pub async fn write<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        id: impl Into<Bson>,
        fence: Fence,
        update: Document,
    ) -> StoreResult<Guarded> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Failure::no_runtime().error(OP));
        }
        let update = self.fenced(fence, update)?;
        let place = format!("the collection `{}`", collection.namespace());
        let written = self.written(collection, &place, &id.into(), fence, update).await;
        written.map_err(|failure| failure.error(OP))
    }

    /// The update with the fence in it.
    fn fenced(&self, fence: Fence, mut update: Document) -> StoreResult<Document> {
        let refused = |reason: String| StoreError::new(StoreErrorKind::Config, BACKEND, OP, reason);
        for (operator, fields) in &update {
            let Bson::Document(fields) = fields else {
                return Err(refused(format!(
                    "`{operator}` of the update has no fields: write `{{$set: {{…}}}}`"
                )));
            };
            if !operator.starts_with('$') {
                return Err(refused(format!(
                    "`{operator}` of the update is no operator: a guarded write changes fields, `{{$set: {{…}}}}`"
                )));
            }
            let top = |path: &str| path.split('.').next() == Some(self.field.as_str());
            if fields.keys().any(|path| top(path)) {
                return Err(refused(format!(
                    "the update writes `{}`, where the guard keeps the fence: name another field",
                    self.field
                )));
            }
        }
        let number = i64::try_from(fence.get()).unwrap_or(i64::MAX);
        match update.get_document_mut("$set") {
            Ok(set) => drop(set.insert(&self.field, number)),
            Err(_) => drop(update.insert("$set", doc! { &self.field: number })),
        }
        Ok(update)
    }

    async fn written<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        place: &str,
        id: &Bson,
        fence: Fence,
        update: Document,
    ) -> Result<Guarded, Failure> {
        let (deadline, number_of) =
            (Instant::now() + self.timeout, i64::try_from(fence.get()).unwrap_or(i64::MAX));
        let older = [doc! { &self.field: { "$exists": false } }, doc! { &self.field: { "$lt": number_of } }];
        let documents = collection.clone_with_type::<Document>();
        for _ in 0..ROUNDS {
            let filter = doc! { "_id": id.clone(), "$or": older.to_vec() };
            let sent =
                documents.update_one(filter, update.clone()).upsert(true).write_concern(MAJORITY.clone());
            match timeout_at(deadline, sent.into_future()).await {
                Err(_) => return Err(Failure::timeout(place, self.timeout).maybe_applied()),
                Ok(Ok(done)) if done.matched_count > 0 || done.upserted_id.is_some() => {
                    return Ok(Guarded::Applied);
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) if is_duplicate(&error) => {}
                Ok(Err(error)) => return Err(Failure::of(place, error)),
            }
            // The document is there, with another fence.
            let look = documents.find_one(doc! { "_id": id.clone() }).projection(doc! { &self.field: 1 });
            let found = match timeout_at(deadline, look.into_future()).await {
                Err(_) => return Err(Failure::timeout(place, self.timeout)),
                Ok(found) => found.map_err(|error| Failure::of(place, error).undone())?,
            };
            let Some(found) = found else { continue };
            return match number(&found, &self.field) {
                Some(last) if last == number_of => Ok(Guarded::Repeat),
                Some(last) if last > number_of => Ok(Guarded::Stale),
                // Written by another holder meanwhile, or removed: once more.
                Some(_) => continue,
                None if !found.contains_key(&self.field) => continue,
                None => {
                    let reason = format!(
                        "`{}` of a document in {place} is no fence: name another field for the guard",
                        self.field
                    );
                    Err(Failure::new(StoreErrorKind::Corrupt, reason))
                }
            };
        }
        Err(Failure::never_still(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(update: Document) -> String {
        let error = Guard::new().fenced(Fence::MAX, update).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn an_update_has_operators_and_leaves_the_fence_alone() {
        let fenced = Guard::new().fenced(Fence::MAX, doc! { "$inc": { "n": 1 } }).unwrap();
        assert_eq!(fenced, doc! { "$inc": { "n": 1 }, "$set": { "fence": (1_i64 << 53) - 1 } });
        assert!(refused(doc! { "state": { "closed": true } }).contains("no operator"));
        assert!(refused(doc! { "$set": 3 }).contains("no fields"));
        for field in ["fence", "fence.x"] {
            assert!(refused(doc! { "$unset": { field: "" } }).contains("name another field"));
        }
        let elsewhere = Guard::new().field("last").unwrap();
        assert!(elsewhere.fenced(Fence::MAX, doc! { "$set": { "fence": 1 } }).is_ok());
        for wrong in ["", "_id", "a.b", "$a", "a\0"] {
            assert_eq!(Guard::new().field(wrong).unwrap_err().kind(), StoreErrorKind::Config, "{wrong:?}");
        }
    }
}
