//! Pages of locks that are held: a range of ids, in their order.

use super::{step::now, value};
use crate::{error::Failure, keys, store::MongoStore};
use hapax_core::{
    Name, Scope, StoreResult,
    lock::{ListLocks, LockPage, SCOPE, machine},
};
use mongodb::bson::doc;

const OP: &str = "list locks";
/// So many documents are in one reply at most.
const MOST: usize = 1_024;

impl MongoStore {
    pub(super) async fn lock_page(&self, req: &ListLocks) -> StoreResult<LockPage> {
        self.paged(req).await.map_err(|failure| failure.error(OP))
    }

    async fn paged(&self, req: &ListLocks) -> Result<LockPage, Failure> {
        let (deadline, mut page) = (self.sessions.deadline(), LockPage::default());
        let now = now(&self.sessions.moment(deadline).await?);
        // It always is one.
        let Ok(scope) = Scope::new(SCOPE) else { return Ok(page) };
        let start = keys::of_scope(&req.namespace, &scope);
        let (end, prefixed) = (keys::after(&start), start + &req.prefix);
        let after = req.after.as_ref().map(|key| keys::id(&Name::new(&req.namespace, &scope, key)) + "\0");
        let mut from = after.map_or_else(|| prefixed.clone(), |after| after.max(prefixed.clone()));
        loop {
            // One more than asked for tells whether there are more.
            let limit = (req.limit - page.locks.len()).saturating_add(1).min(MOST);
            let filter = doc! { "_id": { "$gte": &from, "$lt": &end }, "held": { "$exists": true } };
            let found = self.sessions.find(&self.sessions.locks(), filter, limit, None, deadline).await?;
            for document in &found {
                let Ok(id) = document.get_str("_id") else { continue };
                if !id.starts_with(&prefixed) {
                    return Ok(page);
                }
                // What cannot be read, or has another name than hapax gives, is passed over.
                let held = value::lock(document).and_then(|lock| machine::holder(&lock, &now));
                let Some((name, held)) = keys::name(id).zip(held) else { continue };
                if page.locks.len() == req.limit {
                    page.more = true;
                    return Ok(page);
                }
                page.locks.push((name, held));
            }
            match found.last().and_then(|last| last.get_str("_id").ok()) {
                Some(last) if found.len() == limit => from = format!("{last}\0"),
                _ => return Ok(page),
            }
        }
    }
}
