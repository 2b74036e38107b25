//! Removing records that are over: a few at a time, from where the last look ended.

use crate::{
    clock::Moment,
    error::Failure,
    rules::Change,
    sessions::Sessions,
    store::MongoStore,
    value::{self, number},
    write::{self, Write},
};
use hapax_core::StoreResult;
use mongodb::bson::{Document, doc};
use std::sync::PoisonError;
use tokio::time::Instant;

const OP: &str = "prune";
/// So many documents are looked at in one trip, without their receipts.
const ROWS: usize = 1_024;
/// So many are removed in one.
const MOST: usize = 128;

impl MongoStore {
    /// Looks at the whole collection once at most, and no longer than a call may take; the next call goes on from there.
    pub(crate) async fn sweep(&self, limit: usize) -> StoreResult<usize> {
        self.swept(limit).await.map_err(|failure| failure.error(OP))
    }

    async fn swept(&self, limit: usize) -> Result<usize, Failure> {
        let deadline = self.sessions.deadline();
        let (_, at) = self.sessions.hello(deadline).await?;
        let began = self.position.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut position, mut gone, mut again) = (began.clone(), 0, began.is_empty());
        while gone < limit && Instant::now() < deadline {
            let found = self.rows(&position, deadline).await?;
            let over: Vec<_> = found.iter().filter(|document| may_be_over(document, &at)).collect();
            let (mut left, mut stopped) = (over.as_slice(), None);
            while let Some((some, rest)) = left.split_at_checked((limit - gone).min(MOST).min(left.len()))
                && !some.is_empty()
            {
                gone += remove(&self.sessions, some, &at, deadline).await?;
                (left, stopped) = (rest, some.last().and_then(|last| id(last)));
            }
            let last = if left.is_empty() { found.last().and_then(id) } else { stopped };
            match last {
                Some(last) if found.len() == ROWS || !left.is_empty() => last.clone_into(&mut position),
                // The end of the collection: on from its beginning, where the look did not begin there.
                _ if again => {
                    position.clear();
                    break;
                }
                _ => {
                    position.clear();
                    again = true;
                }
            }
            if again && !began.is_empty() && position >= began {
                break;
            }
        }
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = position;
        Ok(gone)
    }

    async fn rows(&self, after: &str, deadline: Instant) -> Result<Vec<Document>, Failure> {
        let times = doc! { "result.receipt": 0, "late.receipt": 0 };
        let collection = &self.sessions.options.collection;
        self.sessions.find(collection, doc! { "_id": { "$gt": after } }, ROWS, Some(times), deadline).await
    }
}

fn id(document: &Document) -> Option<&str> {
    document.get_str("_id").ok()
}

/// By its ends alone. Whether it can be read is seen when it is to go.
fn may_be_over(document: &Document, at: &Moment) -> bool {
    let mut ends = ["pending", "result", "late"]
        .iter()
        .filter_map(|part| number(document.get_document(part).ok()?, "until"))
        .peekable();
    ends.peek().is_some() && ends.all(|end| end <= at.over.as_millis())
}

/// Those of them that are over, and that nobody has changed meanwhile.
async fn remove(
    sessions: &Sessions,
    over: &[&Document],
    at: &Moment,
    deadline: Instant,
) -> Result<usize, Failure> {
    let ids: Vec<_> = over.iter().filter_map(|document| id(document)).collect();
    let filter = doc! { "_id": { "$in": ids } };
    let found = sessions.find(&sessions.options.collection, filter, over.len(), None, deadline).await?;
    let writes: Vec<Write> = found
        .iter()
        .filter_map(|document| {
            let slot = value::slot(Some(document));
            let (_, change) = crate::rules::settle(&slot, at);
            (change == Change::Forget).then(|| write::change(id(document)?, &slot, &change)).flatten()
        })
        .collect();
    if writes.is_empty() {
        return Ok(0);
    }
    Ok(sessions.write_many(writes, true, deadline).await?.count)
}
