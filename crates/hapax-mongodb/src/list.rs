//! Pages of records: a range of ids, in their order.

use crate::{batch, clock::Moment, keys, rules, store::MongoStore, value};
use hapax_core::{
    Name, StoreResult,
    idempotency::{List, Page, Record, StateFilter},
};
use mongodb::bson::{Bson, Document, doc};

const OP: &str = "list keys";
/// So many documents are in one reply at most.
const MOST: usize = 256;

impl MongoStore {
    /// The page that was asked for.
    pub(crate) async fn page(&self, req: &List) -> StoreResult<Page> {
        let deadline = self.sessions.deadline();
        let failed = |failure: crate::error::Failure| failure.error(OP);
        let at = self.sessions.moment(deadline).await.map_err(failed)?;
        let (mut start, end) = range(req);
        let mut page = Page::default();
        loop {
            // One more than asked for tells whether there are more.
            let limit = (req.limit - page.records.len()).saturating_add(1).min(MOST);
            let filter = filter(&start, &end, req.state);
            let collection = &self.sessions.options.collection;
            let found =
                self.sessions.find(collection, filter, limit, None, deadline).await.map_err(failed)?;
            for document in &found {
                let Some((name, record)) = shown(document, req, &at) else { continue };
                if page.records.len() == req.limit {
                    page.more = true;
                    return Ok(page);
                }
                page.records.push((name, record));
            }
            let last = found.last().and_then(|document| document.get_str("_id").ok());
            match last {
                Some(last) if found.len() == limit || batch::is_large(&found) => {
                    // The next text in the order of bytes.
                    start = format!("{last}\0");
                }
                _ => return Ok(page),
            }
        }
    }
}

/// The record of a document that the request asks for. One that hapax did not name is passed over.
fn shown(document: &Document, req: &List, at: &Moment) -> Option<(Name, Record)> {
    let name = keys::name(document.get_str("_id").ok()?)?;
    if !name.key().starts_with(&req.prefix) {
        return None;
    }
    let record = rules::read(&value::slot(Some(document)), at)?;
    req.state.is_none_or(|state| record.is(state)).then_some((name, record))
}

/// From where on to look, and where to end.
fn range(req: &List) -> (String, String) {
    let start = match &req.scope {
        Some(scope) => keys::of_scope(&req.namespace, scope),
        None => keys::of_namespace(&req.namespace),
    };
    let end = keys::after(&start);
    let first = if req.scope.is_some() { start + &req.prefix } else { start };
    let next = req
        .after
        .as_ref()
        .map(|(scope, key)| format!("{}\0", keys::id(&Name::new(&req.namespace, scope, key))));
    (next.map_or_else(|| first.clone(), |next| next.max(first.clone())), end)
}

/// Those that may be in the state; what a clock decides is decided here.
fn filter(start: &str, end: &str, state: Option<StateFilter>) -> Document {
    let mut filter = doc! { "_id": { "$gte": start, "$lt": end } };
    let late = doc! { "late": { "$exists": true } };
    let (field, wanted) = match state {
        None => return filter,
        Some(StateFilter::Pending) => ("pending", Bson::from(doc! { "$exists": true })),
        Some(StateFilter::Done) => ("$or", Bson::from(vec![doc! { "result.kind": "done" }, late])),
        Some(StateFilter::Unknown) => ("$or", Bson::from(vec![doc! { "result.kind": "unknown" }, late])),
    };
    filter.insert(field, wanted);
    filter
}
