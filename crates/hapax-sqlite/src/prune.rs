//! Finding rows that are over, without an index: a few at a time, from where the last look ended.

use crate::{
    schema,
    step::{Forget, Moment, Step},
};
use hapax_core::{Key, Name, Namespace, Now, Scope};
use rusqlite::{Connection, OptionalExtension, Row, params, types::ValueRef};

/// A file with fewer pages is left alone: 1 MiB needs no tidying.
const SMALL: i64 = 256;

const SCAN: &str = "SELECT namespace, scope, key, state, until, boot_id, late_until FROM hapax_idempotency \
                    WHERE (namespace, scope, key) > (?1, ?2, ?3) ORDER BY namespace, scope, key";

/// After this name the next look begins. In the order of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    namespace: String,
    scope: String,
    key: String,
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What looks over. Whoever removes it looks again.
    pub(crate) over: Vec<Name>,
    /// The last row; none when the table ends before it.
    pub(crate) last: Option<Position>,
}

/// Looks at so many rows.
pub(crate) fn scan(at: &Moment<'_>, after: &Position, rows: usize) -> rusqlite::Result<Seen> {
    let mut statement = at.conn.prepare_cached(SCAN)?;
    // Without LIMIT: with a variable one, SQLite would compile the statement anew each time.
    let mut found = statement.query(params![after.namespace, after.scope, after.key])?;
    let (mut seen, mut count) = (Seen { over: Vec::new(), last: None }, 0);
    while count < rows
        && let Some(row) = found.next()?
    {
        count += 1;
        let is_over = is_over(row, &at.now, at.boot_id)?;
        if is_over || count == rows {
            let place = Position { namespace: row.get(0)?, scope: row.get(1)?, key: row.get(2)? };
            if is_over {
                seen.over.extend(place.name());
            }
            seen.last = (count == rows).then_some(place);
        }
    }
    Ok(seen)
}

/// By the columns alone. A row that this version cannot read may look over, and is held all the same by the rules.
fn is_over(row: &Row<'_>, now: &Now, boot_id: &str) -> rusqlite::Result<bool> {
    let ended = |at: usize, now: i64| {
        Ok::<_, rusqlite::Error>(matches!(row.get_ref(at)?, ValueRef::Integer(until) if until <= now))
    };
    let wall = now.wall.as_millis();
    if row.get_ref(3)? != ValueRef::Integer(0) {
        return ended(4, wall);
    }
    let boot = i64::try_from(now.boot.as_millis()).unwrap_or(i64::MAX);
    let is_dead = row.get_ref(5)? != ValueRef::Text(boot_id.as_bytes()) || ended(4, boot)?;
    Ok(is_dead && (row.get_ref(6)? == ValueRef::Null || ended(6, wall)?))
}

/// Whether the file needs no tidying yet.
pub(crate) fn is_small(tx: &Moment<'_>) -> rusqlite::Result<bool> {
    let pages: i64 = tx.conn.prepare_cached("PRAGMA page_count")?.query_row([], |row| row.get(0))?;
    Ok(pages < SMALL)
}

/// Looks at so many rows from where the last sweep ended, whichever process that was, and removes those that are over.
pub(crate) fn sweep(tx: &Moment<'_>, rows: usize) -> rusqlite::Result<()> {
    let seen = scan(tx, &position(tx.conn)?, rows)?;
    for name in seen.over {
        Forget(name).take(tx)?;
    }
    keep(tx.conn, &seen.last.unwrap_or_default())
}

const PLACE: [&str; 3] = ["pruned_namespace", "pruned_scope", "pruned_key"];

/// Where the last look ended.
pub(crate) fn position(conn: &Connection) -> rusqlite::Result<Position> {
    let part = |name: &str| -> rusqlite::Result<String> {
        let kept = conn.prepare_cached(schema::META)?.query_row([name], |row| row.get(0)).optional()?;
        Ok(kept.unwrap_or_default())
    };
    let [namespace, scope, key] = PLACE;
    Ok(Position { namespace: part(namespace)?, scope: part(scope)?, key: part(key)? })
}

fn keep(conn: &Connection, position: &Position) -> rusqlite::Result<()> {
    let parts = [&position.namespace, &position.scope, &position.key];
    PLACE.iter().zip(parts).try_for_each(|(name, part)| schema::set_meta(conn, name, part.as_str()))
}

/// Keeps where the next look begins.
#[derive(Clone, Debug)]
pub(crate) struct KeepPosition(pub(crate) Position);

impl Step for KeepPosition {
    type Answer = ();
    const OP: &'static str = "prune";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<()> {
        keep(tx.conn, &self.0)
    }
}

impl Position {
    /// None where the parts were not written by hapax.
    fn name(&self) -> Option<Name> {
        let namespace = Namespace::from_shown(&self.namespace).ok()?;
        Some(Name::new(&namespace, &Scope::from_shown(&self.scope).ok()?, &Key::from_shown(&self.key).ok()?))
    }
}

impl From<&Name> for Position {
    fn from(name: &Name) -> Self {
        Self {
            namespace: name.namespace().to_owned(),
            scope: name.scope().to_owned(),
            key: name.key().to_owned(),
        }
    }
}
