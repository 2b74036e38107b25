//! What the database must hold, and making it so.

use crate::{error::Failure, sessions::Sessions, value::number, write::Write};
use hapax_core::{StoreErrorKind, error::needs_newer};
use mongodb::bson::{Bson, Document, doc};
use tokio::time::Instant;

/// The layout that this version makes, and the newest that it reads and writes.
const LAYOUT: i64 = 1;
const READS: i64 = 1;
const WRITES: i64 = 1;
/// The index by which the server removes what is long over.
pub(crate) const INDEX: &str = "gone_at";
/// Where the layout says in how many collections beside the keys that index is.
const INDEXED: &str = "indexed";

impl Sessions {
    /// The collection of what the store knows of itself.
    pub(crate) fn meta(&self) -> String {
        format!("{}_meta", self.options.collection)
    }

    /// A document of that collection.
    pub(crate) async fn known(&self, what: &str, deadline: Instant) -> Result<Option<Document>, Failure> {
        let found = self.find(&self.meta(), doc! { "_id": what }, 1, None, deadline).await?;
        Ok(found.into_iter().next())
    }

    /// Adds a document to it, unless there is one; what is there then.
    pub(crate) async fn know(
        &self,
        what: &str,
        fields: Document,
        deadline: Instant,
    ) -> Result<Option<Document>, Failure> {
        let update = doc! { "$setOnInsert": fields };
        let write = Write::Update { filter: doc! { "_id": what }, update, upsert: true };
        // A duplicate is another process that came first.
        self.write_in(&self.meta(), write, true, deadline).await?;
        self.known(what, deadline).await
    }

    /// The collections of keys, locks and limits.
    pub(crate) fn all(&self) -> [String; 3] {
        [self.options.collection.clone(), self.locks(), self.limits()]
    }

    /// Those of them that there are, as the server has them, by name.
    pub(crate) async fn collections(&self, deadline: Instant) -> Result<Vec<(String, Document)>, Failure> {
        let names = self.all();
        let command = doc! { "listCollections": 1, "filter": { "name": { "$in": names.to_vec() } } };
        let reply = self.call(command, true, deadline).await.map_err(Failure::undone)?;
        let found = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let found = found.map_err(|_| Failure::nonsense(&self.place).undone())?;
        let named = |entry: &Document| Some((entry.get_str("name").ok()?.to_owned(), entry.clone()));
        let found = found.iter().filter_map(Bson::as_document).filter_map(named);
        Ok(found.filter(|(name, _)| names.contains(name)).collect())
    }
}

/// Makes the collections where they are missing, and checks any other.
pub(crate) async fn prepare(sessions: &Sessions, deadline: Instant) -> Result<(), Failure> {
    for (name, found) in sessions.collections(deadline).await? {
        if let Some(reason) = unfit(&found) {
            let reason = format!(
                "the collection `{name}` on {} {reason}: name another (`collection=`), which will be made as it must be",
                sessions.place
            );
            return Err(Failure::new(StoreErrorKind::Config, reason));
        }
    }
    let [keys, locks, limits] = sessions.all();
    let layout = match sessions.known("layout", deadline).await? {
        Some(layout) => Some(layout),
        None => {
            make_index(sessions, &keys, deadline).await;
            let ours = doc! { "layout": LAYOUT, "min_reader": LAYOUT, "min_writer": LAYOUT };
            sessions.know("layout", ours, deadline).await?
        }
    };
    check(layout.as_ref(), &format!("the store on {}", sessions.place))?;
    // A store that was made before there were locks and limits gets their indexes now.
    let are_made = layout.is_some_and(|layout| number(&layout, INDEXED).is_some());
    if !are_made
        && make_index(sessions, &locks, deadline).await
        && make_index(sessions, &limits, deadline).await
    {
        let (filter, update) = (doc! { "_id": "layout" }, doc! { "$set": { INDEXED: 2 } });
        sessions
            .write_in(&sessions.meta(), Write::Update { filter, update, upsert: false }, true, deadline)
            .await?;
    }
    Ok(())
}

/// Housekeeping alone: a store without it is as right, and grows. `doctor` says so. Whether there is one now.
async fn make_index(sessions: &Sessions, collection: &str, deadline: Instant) -> bool {
    let index = doc! { "key": { INDEX: 1 }, "name": INDEX, "expireAfterSeconds": 0 };
    let command = doc! { "createIndexes": collection, "indexes": [index] };
    if let Err(failure) = sessions.call(command, true, deadline).await {
        let error = failure.error("make the index that removes old records");
        tracing::warn!(place = sessions.place, collection, %error, "the server will not remove old records by itself");
        return false;
    }
    true
}

/// Why a collection cannot hold records.
pub(crate) fn unfit(found: &Document) -> Option<&'static str> {
    let options = found.get_document("options").ok();
    let has = |name: &str| options.is_some_and(|options| options.contains_key(name));
    if found.get_str("type").is_ok_and(|kind| kind != "collection") {
        return Some("is a view, or another thing that is no plain collection");
    }
    if options.and_then(|options| options.get_bool("capped").ok()).unwrap_or(false) {
        return Some("is capped, so that the server removes records that are not over");
    }
    // A collation that compares bytes is not shown.
    let collation = options.and_then(|options| options.get_document("collation").ok());
    if collation.is_some_and(|collation| collation.get_str("locale").ok() != Some("simple")) {
        return Some("has a collation, by which two keys that differ may be taken for one");
    }
    has("clusteredIndex").then_some("is clustered by an index of its own")
}

/// Whether this version may read and write the store.
fn check(found: Option<&Document>, place: &str) -> Result<(), Failure> {
    let need = |name: &str| {
        found.and_then(|layout| number(layout, name)).ok_or_else(|| {
            let reason = format!("{place} does not say its `{name}`: restore it from a backup");
            Failure::new(StoreErrorKind::Corrupt, reason)
        })
    };
    let (layout, reader, writer) = (need("layout")?, need("min_reader")?, need("min_writer")?);
    if reader <= READS && writer <= WRITES {
        return Ok(());
    }
    Err(Failure::new(StoreErrorKind::Version, needs_newer(place, layout, reader.max(writer), LAYOUT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_says_what_it_needs() {
        let kind = |layout: Document| check(Some(&layout), "x").err().map(|failure| failure.kind);
        assert_eq!(kind(doc! { "layout": 3, "min_reader": 1, "min_writer": 1_i64 }), None);
        assert_eq!(
            kind(doc! { "layout": 3, "min_reader": 2, "min_writer": 1 }),
            Some(StoreErrorKind::Version)
        );
        assert_eq!(
            kind(doc! { "layout": 3, "min_reader": 1, "min_writer": 2 }),
            Some(StoreErrorKind::Version)
        );
        assert_eq!(kind(doc! { "layout": 3, "min_reader": "x" }), Some(StoreErrorKind::Corrupt));
    }

    #[test]
    fn collections_that_may_lose_or_merge_records_are_unfit() {
        let found = |kind: &str, options: Document| unfit(&doc! { "type": kind, "options": options });
        assert_eq!(found("collection", doc! {}), None);
        assert_eq!(found("collection", doc! { "collation": { "locale": "simple" } }), None);
        let strength = doc! { "collation": { "locale": "en", "strength": 2 } };
        assert!(found("collection", strength).is_some_and(|reason| reason.contains("collation")));
        assert!(found("collection", doc! { "capped": true, "size": 9 }).is_some());
        assert!(found("view", doc! {}).is_some());
    }
}
