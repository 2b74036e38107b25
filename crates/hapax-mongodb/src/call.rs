//! The commands. Said with each: that a write waits for the majority and its journal, that a read is of what the primary
//! has, and how long the server may take, whatever the URL or the server's own defaults are.

use crate::{
    error::{self, Failure},
    sessions::Sessions,
    value::number,
    write::{Write, Wrote},
};
use hapax_core::Timestamp;
use mongodb::{
    bson::{Bson, Document, doc},
    options::{Acknowledgment, WriteConcern},
};
use std::sync::LazyLock;
use tokio::time::Instant;

/// So many documents are removed in one trip.
const MOST: usize = 1_024;

/// That a write waits for the majority and its journal, for the driver.
pub(crate) static MAJORITY: LazyLock<WriteConcern> =
    LazyLock::new(|| WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build());

/// What became of many statements.
#[derive(Debug)]
pub(crate) struct Written {
    /// How many documents were inserted, found or deleted.
    pub(crate) count: usize,
    /// By statement. The others were done, or found nothing.
    pub(crate) failed: Vec<(usize, Refused)>,
}

/// Why a statement was not done.
#[derive(Debug)]
pub(crate) enum Refused {
    /// See [`Wrote::Duplicate`].
    Duplicate {
        is_told: bool,
    },
    Failed(Failure),
}

impl Sessions {
    /// One statement.
    pub(crate) async fn write(
        &self,
        write: Write,
        resend: bool,
        deadline: Instant,
    ) -> Result<Wrote, Failure> {
        self.write_in(&self.options.collection, write, resend, deadline).await
    }

    /// One statement, on any collection.
    pub(crate) async fn write_in(
        &self,
        collection: &str,
        write: Write,
        resend: bool,
        deadline: Instant,
    ) -> Result<Wrote, Failure> {
        lone(self.write_many_in(collection, vec![write], resend, deadline).await?)
    }

    /// Statements of one kind, each on a key of its own, in one trip. One that fails leaves the others alone.
    pub(crate) async fn write_many(
        &self,
        writes: Vec<Write>,
        resend: bool,
        deadline: Instant,
    ) -> Result<Written, Failure> {
        self.write_many_in(&self.options.collection, writes, resend, deadline).await
    }

    /// The same on any collection.
    pub(crate) async fn write_many_in(
        &self,
        collection: &str,
        writes: Vec<Write>,
        resend: bool,
        deadline: Instant,
    ) -> Result<Written, Failure> {
        let mut command = statements(collection, writes);
        let limit = Self::server_ms(deadline);
        command.insert("ordered", false);
        command.insert("writeConcern", concern(limit));
        command.insert("maxTimeMS", limit);
        let reply = self.call(command, resend, deadline).await?;
        let errors = match reply.get("writeErrors") {
            None => &Vec::new(),
            Some(Bson::Array(errors)) => errors,
            Some(_) => return Err(Failure::nonsense(&self.place)),
        };
        let failed: Option<Vec<_>> = errors.iter().map(|error| self.failed(error.as_document()?)).collect();
        let count = number(&reply, "n").and_then(|n| usize::try_from(n).ok());
        match (failed, count) {
            (Some(failed), Some(count)) => Ok(Written { count, failed }),
            _ => Err(Failure::nonsense(&self.place)),
        }
    }

    /// Changes what a filter finds, and shows it as it is then; none where it finds nothing. Not sent twice.
    pub(crate) async fn modify(
        &self,
        collection: &str,
        filter: Document,
        update: Document,
        deadline: Instant,
    ) -> Result<Option<Document>, Failure> {
        let limit = Self::server_ms(deadline);
        let command = doc! {
            "findAndModify": collection,
            "query": filter,
            "update": update,
            "new": true,
            "writeConcern": concern(limit),
            "maxTimeMS": limit,
        };
        let mut reply = self.call(command, false, deadline).await?;
        match reply.remove("value") {
            None | Some(Bson::Null) => Ok(None),
            Some(Bson::Document(found)) => Ok(Some(found)),
            Some(_) => Err(Failure::nonsense(&self.place)),
        }
    }

    fn failed(&self, error: &Document) -> Option<(usize, Refused)> {
        let (at, code) = (usize::try_from(number(error, "index")?).ok()?, number(error, "code")?);
        if code != i64::from(error::DUPLICATE) {
            let name = error.get_str("codeName").unwrap_or_default();
            let failure = error::of_code(&self.place, i32::try_from(code).unwrap_or(0), name);
            return Some((at, Refused::Failed(failure)));
        }
        let refused = match error.get_document("keyPattern") {
            Ok(pattern) if pattern.len() == 1 && pattern.contains_key("_id") => {
                Refused::Duplicate { is_told: true }
            }
            Ok(_) => Refused::Failed(Failure::foreign_index(&self.place)),
            // A look by `_id` will tell.
            Err(_) => Refused::Duplicate { is_told: false },
        };
        Some((at, refused))
    }

    /// The documents that a filter finds, in the order of their ids: at most so many, and no more than one reply holds.
    pub(crate) async fn find(
        &self,
        collection: &str,
        filter: Document,
        limit: usize,
        projection: Option<Document>,
        deadline: Instant,
    ) -> Result<Vec<Document>, Failure> {
        let mut command = doc! {
            "find": collection,
            "filter": filter,
            "sort": { "_id": 1 },
            "limit": i64::try_from(limit).unwrap_or(i64::MAX),
            "singleBatch": true,
            "batchSize": i64::try_from(limit).unwrap_or(i64::MAX),
            "readConcern": { "level": "local" },
            "maxTimeMS": Self::server_ms(deadline),
        };
        if let Some(projection) = projection {
            command.insert("projection", projection);
        }
        let reply = self.call(command, true, deadline).await.map_err(Failure::undone)?;
        let nonsense = || Failure::nonsense(&self.place).undone();
        let cursor = reply.get_document("cursor").map_err(|_| nonsense())?;
        let batch = cursor.get_array("firstBatch").map_err(|_| nonsense())?;
        batch.iter().map(|found| found.as_document().cloned().ok_or_else(nonsense)).collect()
    }

    /// What is under an id.
    pub(crate) async fn look(&self, id: &str, deadline: Instant) -> Result<Option<Document>, Failure> {
        self.look_in(&self.options.collection, id, deadline).await
    }

    /// The same in any collection.
    pub(crate) async fn look_in(
        &self,
        collection: &str,
        id: &str,
        deadline: Instant,
    ) -> Result<Option<Document>, Failure> {
        let found = self.find(collection, doc! { "_id": id }, 1, None, deadline).await?;
        Ok(found.into_iter().next())
    }

    /// Removes up to so many locks or limits of those that were over then, as [`later`](crate::value::later) says; how many.
    pub(crate) async fn remove_due(
        &self,
        collection: &str,
        over: Timestamp,
        limit: usize,
        deadline: Instant,
    ) -> Result<usize, Failure> {
        let (over, mut gone) = (doc! { "$lte": over.as_millis() }, 0);
        while gone < limit && Instant::now() < deadline {
            let most = (limit - gone).min(MOST);
            let (filter, id) = (doc! { "ends": &over }, doc! { "_id": 1 });
            let found = self.find(collection, filter, most, Some(id), deadline).await?;
            let count = found.len();
            let remove = |mut document: Document| {
                document.insert("ends", over.clone());
                Write::Delete(document)
            };
            let writes: Vec<_> = found.into_iter().map(remove).collect();
            if writes.is_empty() {
                break;
            }
            gone += self.write_many_in(collection, writes, true, deadline).await?.count;
            if count < most {
                break;
            }
        }
        Ok(gone)
    }
}

fn concern(limit: i64) -> Document {
    doc! { "w": "majority", "j": true, "wtimeout": limit }
}

fn lone(written: Written) -> Result<Wrote, Failure> {
    match written.failed.into_iter().next() {
        Some((_, Refused::Failed(failure))) => Err(failure),
        Some((_, Refused::Duplicate { is_told })) => Ok(Wrote::Duplicate { is_told }),
        None if written.count == 0 => Ok(Wrote::No),
        None => Ok(Wrote::Yes),
    }
}

fn statements(collection: &str, writes: Vec<Write>) -> Document {
    let is_insert = matches!(writes.first(), Some(Write::Insert(_)));
    let is_delete = matches!(writes.first(), Some(Write::Delete(_)));
    let list: Vec<_> = writes
        .into_iter()
        .map(|write| match write {
            Write::Insert(document) => document,
            Write::Update { filter, update, upsert } => doc! { "q": filter, "u": update, "upsert": upsert },
            Write::Delete(filter) => doc! { "q": filter, "limit": 1 },
        })
        .collect();
    match (is_insert, is_delete) {
        (true, _) => doc! { "insert": collection, "documents": list },
        (_, true) => doc! { "delete": collection, "deletes": list },
        _ => doc! { "update": collection, "updates": list },
    }
}
