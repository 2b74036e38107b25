//! Pages of locks. Redis keeps keys in no order, so a page is a scan over all of them.

use super::{Locks, step::Show};
use crate::{
    error::Failure,
    keys::{self, outside, parts},
    nodes::On,
};
use hapax_core::{
    Key, Name, Scope, StoreErrorKind, StoreResult,
    lock::{ListLocks, LockPage, SCOPE},
};
use std::collections::BTreeSet;

const OP: &str = "list locks";
/// So many keys a server looks at before others have their turn.
const LOOKED_AT: usize = 1_000;
/// So many names are held at once; where there are more, the scan is made again for the next of them.
const HELD: usize = 10_000;
/// So many locks are looked at at once.
const READ: usize = 64;

impl Locks {
    pub(super) async fn page(&self, req: &ListLocks) -> StoreResult<LockPage> {
        let mut page = LockPage::default();
        let mut after = req.after.as_ref().map(|key| key.as_str().to_owned());
        loop {
            let names = self.scan(req, after.as_deref()).await.map_err(|failure| failure.error(OP))?;
            let is_cut = names.len() == HELD;
            after = names.last().cloned();
            let names: Vec<_> = names.into_iter().collect();
            for chunk in names.chunks(READ) {
                let scope = Scope::from_shown(SCOPE).ok();
                let name = |key: &String| {
                    Some(Name::new(&req.namespace, scope.as_ref()?, &Key::from_shown(key).ok()?))
                };
                let names: Vec<_> = chunk.iter().filter_map(name).collect();
                let looks: Vec<_> = names.iter().map(Show).collect();
                for (name, shown) in names.iter().zip(self.store.take_many(&looks).await) {
                    let held = match shown {
                        // Something of another program lies there; the others are still to be listed.
                        Err(error) if error.kind() == StoreErrorKind::Corrupt => None,
                        shown => shown?.held,
                    };
                    let Some(held) = held else { continue };
                    if page.locks.len() == req.limit {
                        page.more = true;
                        return Ok(page);
                    }
                    page.locks.push((name.clone(), held));
                }
            }
            if !is_cut {
                return Ok(page);
            }
        }
    }

    /// The first keys behind one, of every primary.
    async fn scan(&self, req: &ListLocks, after: Option<&str>) -> Result<BTreeSet<String>, Failure> {
        let namespace = self.store.keys().locks_of(&req.namespace);
        let nonsense = || Failure::nonsense(&self.store.connector().place);
        // A mark has a letter behind the brace.
        let pattern = keys::pattern(&namespace) + "*}";
        let mut names = BTreeSet::new();
        for primary in self.store.primaries().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(LOOKED_AT);
                let reply = self.store.lines.call_one(&On(&primary, scan), true).await?;
                let (next, found): (u64, Vec<Vec<u8>>) =
                    redis::from_redis_value(reply).map_err(|_| nonsense())?;
                for key in found {
                    let Ok(key) = String::from_utf8(key) else { continue };
                    let inside = key.strip_prefix(&namespace).and_then(|rest| rest.strip_suffix('}'));
                    let Some(member) = inside.map(outside) else { continue };
                    let Some((SCOPE, key)) = parts(&member) else { continue };
                    if key.starts_with(&req.prefix) && after.is_none_or(|after| key > after) {
                        names.insert(key.to_owned());
                        if names.len() > HELD {
                            names.pop_last();
                        }
                    }
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(names)
    }
}
