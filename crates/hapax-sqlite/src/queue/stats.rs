//! The figures of queues.

use super::{
    book::{Book, Sub, natural},
    state,
};
use crate::step::Moment;
use hapax_core::{
    Namespace,
    queue::{Priority, QueueId, QueueName, QueueStats},
};
use rusqlite::params;

const NAMES: &str = "SELECT name FROM hapax_queue WHERE namespace = ?1 AND name >= ?2 ORDER BY name";
const READY: &str =
    "SELECT count(*) FROM hapax_job_copy WHERE grp = ?1 AND state = 0 AND priority = ?2 AND due <= ?3";

/// Of all groups of one queue, or of all queues, by name.
pub(super) fn read(
    at: &Moment<'_>,
    namespace: &Namespace,
    queue: Option<&QueueName>,
) -> rusqlite::Result<Vec<QueueStats>> {
    let names = match queue {
        Some(queue) => vec![queue.clone()],
        None => names(at, namespace)?,
    };
    let mut stats = Vec::new();
    for name in names {
        if let Some(book) = Book::load(at, &QueueId::new(namespace, &name))? {
            for sub in &book.subs {
                stats.push(of(at, &name, sub)?);
            }
        }
    }
    Ok(stats)
}

fn names(at: &Moment<'_>, namespace: &Namespace) -> rusqlite::Result<Vec<QueueName>> {
    let mut statement = at.conn.prepare_cached(NAMES)?;
    let mut rows = statement.query([namespace.as_str(), ""])?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        // Another was written by another program.
        names.extend(QueueName::new(row.get_ref(0)?.as_str()?).ok());
    }
    Ok(names)
}

pub(super) fn of(at: &Moment<'_>, queue: &QueueName, sub: &Sub) -> rusqlite::Result<QueueStats> {
    let now = at.now.wall;
    let mut statement = at.conn.prepare_cached(READY)?;
    let mut ready = 0;
    for class in Priority::ALL {
        ready += statement
            .query_row(params![sub.id, class.number(), now.as_millis()], |row| row.get::<_, i64>(0))?;
    }
    let oldest = state::oldest(at, sub.id)?.map(|since| now.since(since));
    Ok(QueueStats {
        queue: queue.clone(),
        group: sub.group.clone(),
        ready: natural(ready),
        delayed: natural(sub.waiting - ready),
        running: natural(sub.running),
        dead: natural(sub.dead),
        added: natural(sub.added),
        done: natural(sub.done),
        cancelled: natural(sub.cancelled),
        lost: natural(sub.lost),
        paused: sub.paused,
        oldest,
        seen: sub.seen,
    })
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[NAMES, READY];
