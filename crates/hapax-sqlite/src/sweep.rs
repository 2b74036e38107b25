//! Removing locks and limits that are over, without an index: a few rows at a time, from where the last look ended.

use crate::{
    patience::real_time,
    schema,
    step::{Moment, Step},
    store::SqliteStore,
};
use hapax_core::{Name, StoreResult};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{fmt, marker::PhantomData};

/// So many rows are looked at in one step.
const ROWS: usize = 1_024;

/// A table in which rows end by themselves.
pub(crate) trait Ground: Send + 'static {
    /// Names a row.
    type Id;
    /// The rows after the namespace and key of `?1` and `?2`, in this order; they begin with the two.
    const SCAN: &'static str;
    /// Under these names the store keeps the last two.
    const PLACE: [&'static str; 2];

    /// The row, if it is over.
    fn over(row: &Row<'_>, at: &Moment<'_>) -> rusqlite::Result<Option<Self::Id>>;
    /// Removes it.
    fn remove(conn: &Connection, id: &Self::Id) -> rusqlite::Result<()>;
}

/// What a look did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swept {
    gone: usize,
    /// Whether it began at the beginning of the table, and whether it came to the end.
    from_start: bool,
    at_end: bool,
}

/// Looks at so many rows from where the last look ended, whichever process that was, and removes those that are over,
/// up to `most`.
pub(crate) fn sweep<G: Ground>(tx: &Moment<'_>, rows: usize, most: usize) -> rusqlite::Result<Swept> {
    let after = place::<G>(tx.conn)?;
    let (mut over, mut seen, mut last) = (Vec::new(), 0, None);
    let mut statement = tx.conn.prepare_cached(G::SCAN)?;
    let mut found = statement.query(params![after.0, after.1])?;
    while let Some(row) = found.next()? {
        seen += 1;
        over.extend(G::over(row, tx)?);
        if seen == rows || over.len() == most {
            last = Some((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            break;
        }
    }
    drop(found);
    for id in &over {
        G::remove(tx.conn, id)?;
    }
    let swept = Swept { gone: over.len(), from_start: after == <_>::default(), at_end: last.is_none() };
    let last = last.unwrap_or_default();
    if last != after {
        for (name, part) in G::PLACE.iter().zip([last.0, last.1]) {
            schema::set_meta(tx.conn, name, part)?;
        }
    }
    Ok(swept)
}

fn place<G: Ground>(conn: &Connection) -> rusqlite::Result<(String, String)> {
    let part = |name: &str| -> rusqlite::Result<String> {
        let kept = conn.prepare_cached(schema::META)?.query_row([name], |row| row.get(0)).optional()?;
        Ok(kept.unwrap_or_default())
    };
    let [namespace, key] = G::PLACE;
    Ok((part(namespace)?, part(key)?))
}

/// One look, as a step of its own.
struct Sweep<G> {
    most: usize,
    ground: PhantomData<fn() -> G>,
}

impl<G> fmt::Debug for Sweep<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("most", &self.most).finish_non_exhaustive()
    }
}

impl<G: Ground> Step for Sweep<G> {
    type Answer = Swept;
    const OP: &'static str = "prune";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn rows(&self) -> usize {
        ROWS
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Swept> {
        sweep::<G>(tx, ROWS, self.most)
    }
}

impl SqliteStore {
    /// Removes up to `limit` rows. Looks at the whole table, and no longer than a call may take.
    pub(crate) async fn sweep_all<G: Ground>(&self, limit: usize) -> StoreResult<usize> {
        let deadline = real_time() + self.options.timeout;
        let (mut gone, mut whole) = (0, false);
        while gone < limit && real_time() < deadline {
            let swept = self.writer.owned(Sweep::<G> { most: limit - gone, ground: PhantomData }).await?;
            gone += swept.gone;
            whole |= swept.from_start;
            if swept.at_end && whole {
                break;
            }
        }
        Ok(gone)
    }
}
