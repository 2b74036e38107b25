//! Pages of records. Redis keeps keys in no order, so a page is a scan over all of them; unknown outcomes alone are
//! noted apart.

use crate::{
    ask::Ask, error::Failure, idempotency::unreadable, keys, nodes::On, step::Read, store::RedisStore,
};
use hapax_core::{
    Key, Name, Scope, StoreErrorKind, StoreResult,
    idempotency::{List, Page, Record, StateFilter},
};
use std::collections::BTreeSet;

const OP: &str = "list keys";
/// So many keys a server looks at before others have their turn.
const LOOKED_AT: usize = 1_000;
/// So many names are held at once; where there are more, the scan is made again for the next of them.
const HELD: usize = 10_000;
/// So many records are read at once.
const READ: usize = 64;

/// Scope and key, in the order of a list.
type Place = (String, String);

/// The smallest names after a place.
struct Names {
    after: Option<Place>,
    found: BTreeSet<Place>,
    /// Whether some were let go.
    is_cut: bool,
}

impl Names {
    fn add(&mut self, scope: &str, key: &str) {
        if self.after.as_ref().is_some_and(|(s, k)| (scope, key) <= (s.as_str(), k.as_str())) {
            return;
        }
        self.found.insert((scope.to_owned(), key.to_owned()));
        if self.found.len() > HELD {
            self.found.pop_last();
            self.is_cut = true;
        }
    }
}

impl RedisStore {
    pub(crate) async fn page(&self, req: &List) -> StoreResult<Page> {
        let mut page = Page::default();
        let mut after =
            req.after.as_ref().map(|(scope, key)| (scope.as_str().to_owned(), key.as_str().to_owned()));
        loop {
            let mut names = Names { after, found: BTreeSet::new(), is_cut: false };
            let scanned = match req.state {
                Some(StateFilter::Unknown) => self.noted(req, &mut names).await,
                _ => self.scan(req, &mut names).await,
            };
            scanned.map_err(|failure| failure.error(OP))?;
            let found: Vec<_> = names.found.into_iter().collect();
            for chunk in found.chunks(READ) {
                for (name, record) in self.records(req, chunk).await? {
                    if page.records.len() == req.limit {
                        page.more = true;
                        return Ok(page);
                    }
                    page.records.push((name, record));
                }
            }
            if !names.is_cut {
                return Ok(page);
            }
            after = found.into_iter().next_back();
        }
    }

    /// The records of these names that are there and wanted.
    async fn records(&self, req: &List, places: &[Place]) -> StoreResult<Vec<(Name, Record)>> {
        // Written by another program than hapax.
        let name = |(scope, key): &Place| {
            Some(Name::new(&req.namespace, &Scope::from_shown(scope).ok()?, &Key::from_shown(key).ok()?))
        };
        let names: Vec<_> = places.iter().filter_map(name).collect();
        let looks: Vec<_> = names.iter().map(Read).collect();
        let mut records = Vec::with_capacity(names.len());
        for (name, found) in names.iter().zip(self.take_many(&looks).await) {
            let found = match found {
                // Something of another program lies there; the others are still to be listed.
                Err(error) if error.kind() == StoreErrorKind::Corrupt => Some(unreadable()),
                found => found?,
            };
            if let Some(record) = found.filter(|record| req.state.is_none_or(|state| record.is(state))) {
                records.push((name.clone(), record));
            }
        }
        Ok(records)
    }

    /// Looks at every key of every primary.
    async fn scan(&self, req: &List, names: &mut Names) -> Result<(), Failure> {
        let namespace = self.keys().of_namespace(&req.namespace);
        let wanted = match &req.scope {
            Some(scope) => self.keys().of_scope(&req.namespace, scope) + &req.prefix,
            None => namespace.clone(),
        };
        let pattern = keys::pattern(&wanted) + "*";
        for primary in self.primaries().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(LOOKED_AT);
                let reply = self.lines.call(&[On(&primary, scan)], true).await.pop();
                let reply = reply.unwrap_or_else(|| Err(self.nonsense()))?;
                let (next, keys): (u64, Vec<Vec<u8>>) =
                    redis::from_redis_value(reply).map_err(|_| self.nonsense())?;
                for key in keys {
                    let Ok(key) = String::from_utf8(key) else { continue };
                    let place = key.strip_prefix(&namespace).and_then(keys::parts);
                    // A length that is not that of the namespace's end is another namespace.
                    let Some((scope, key)) = place else { continue };
                    if key.starts_with(&req.prefix) {
                        names.add(scope, key);
                    }
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The names whose outcome was unknown once, and which have not come to their end.
    async fn noted(&self, req: &List, names: &mut Names) -> Result<(), Failure> {
        let key = self.keys().unknowns(req.namespace.as_str());
        let mut cursor = 0_u64;
        let mut forget = redis::cmd("ZREMRANGEBYSCORE");
        forget.arg(&key).arg("-inf").arg(format!("({}", self.connector().clock.millis()));
        // Whoever may only read leaves the old ones there.
        let _ = self.lines.call(&[Ask::Plain(key.clone(), forget)], true).await;
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(&key).arg(cursor).arg("COUNT").arg(LOOKED_AT);
            let reply = self.lines.call(&[Ask::Plain(key.clone(), scan)], true).await.pop();
            let reply = reply.unwrap_or_else(|| Err(self.nonsense()))?;
            let (next, members): (u64, Vec<(String, String)>) =
                redis::from_redis_value(reply).map_err(|_| self.nonsense())?;
            for (member, _) in &members {
                let Some((scope, key)) = keys::parts(member) else { continue };
                let is_of_scope = req.scope.as_ref().is_none_or(|wanted| wanted.as_str() == scope);
                if is_of_scope && key.starts_with(&req.prefix) {
                    names.add(scope, key);
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    fn nonsense(&self) -> Failure {
        Failure::nonsense(&self.connector().place)
    }
}
