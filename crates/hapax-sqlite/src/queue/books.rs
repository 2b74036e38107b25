//! A look at the records themselves, for `hapax doctor`.

use super::{
    book::{Book, Sub, integer, natural},
    stats,
};
use crate::step::Moment;
use hapax_core::{
    Namespace,
    queue::{
        Books, Consumer, GroupBooks, QueueId, QueueName,
        books::{MOST_ENTRIES, MOST_QUEUES, OVERDUE},
    },
};
use rusqlite::params;

const QUEUES: &str = "SELECT namespace, name FROM hapax_queue ORDER BY namespace, name LIMIT ?1";
const COUNTED: &str =
    "SELECT state, count(*) FROM (SELECT state FROM hapax_job_copy WHERE grp = ?1 LIMIT ?2) GROUP BY state";
const BODILESS: &str = "\
    SELECT count(*) FROM (SELECT job, payload FROM hapax_job_copy WHERE grp = ?1 LIMIT ?2) c LEFT JOIN hapax_job j ON j.id = c.job \
    WHERE j.id IS NULL OR (c.payload IS NULL AND j.payload IS NULL)";
const HOMELESS: &str = "\
    SELECT count(*) FROM (SELECT id, alive, dead FROM hapax_job WHERE queue = ?1 AND alive + dead > 0 LIMIT ?2) j \
    WHERE j.alive + j.dead > (SELECT count(*) FROM hapax_queue_group g JOIN hapax_job_copy c ON c.grp = g.id AND c.job = j.id \
    WHERE g.queue = ?1)";
const DANGLING: &str = "\
    SELECT count(*) FROM (SELECT 1 FROM hapax_job WHERE queue = ?1 AND holds = 1 AND alive = 0 AND dead = 0 AND until IS NULL \
    LIMIT ?2)";
const OVER: &str = "\
    SELECT count(*), min(consumer) FROM (SELECT consumer FROM hapax_job_copy WHERE grp = ?1 AND state = 1 \
    AND CASE WHEN boot_id = ?2 THEN lease < ?3 ELSE ?3 > 0 END LIMIT ?4)";

/// All at one instant.
pub(super) fn look(at: &Moment<'_>, queue: Option<&QueueId>) -> rusqlite::Result<Books> {
    let tx = at.conn.unchecked_transaction()?;
    let mut found = Books::default();
    let mut queues = match queue {
        Some(queue) => vec![queue.clone()],
        None => queues(at)?,
    };
    if queues.len() > MOST_QUEUES {
        found.is_more = true;
        queues.truncate(MOST_QUEUES);
    }
    for id in queues {
        let Some(book) = Book::load(at, &id)? else { continue };
        for (n, sub) in book.subs.iter().enumerate() {
            let mut group = of(at, &id, sub)?;
            if n == 0 {
                // Of the queue, and told once.
                let most = integer_of(MOST_ENTRIES);
                let count =
                    |sql: &str| at.conn.query_row(sql, params![book.queue.id, most], |row| row.get(0));
                (group.homeless, group.dangling) = (natural(count(HOMELESS)?), natural(count(DANGLING)?));
            }
            found.groups.push(group);
        }
    }
    tx.finish()?;
    Ok(found)
}

fn queues(at: &Moment<'_>) -> rusqlite::Result<Vec<QueueId>> {
    let mut statement = at.conn.prepare(QUEUES)?;
    let mut rows = statement.query([integer_of(MOST_QUEUES + 1)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (namespace, name) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        // Another was written by another program.
        if let (Ok(namespace), Ok(name)) = (Namespace::from_shown(namespace), QueueName::new(name)) {
            found.push(QueueId::new(&namespace, &name));
        }
    }
    Ok(found)
}

fn of(at: &Moment<'_>, id: &QueueId, sub: &Sub) -> rusqlite::Result<GroupBooks> {
    let most = integer_of(MOST_ENTRIES);
    let mut counted = [0_u64; 3];
    let mut statement = at.conn.prepare(COUNTED)?;
    let mut rows = statement.query([sub.id, most + 1])?;
    while let Some(row) = rows.next()? {
        let count = usize::try_from(row.get::<_, i64>(0)?).ok().and_then(|state| counted.get_mut(state));
        if let Some(count) = count {
            *count = natural(row.get(1)?);
        }
    }
    let are_more = counted.iter().sum::<u64>() > natural(most);
    let bodiless = at.conn.query_row(BODILESS, [sub.id, most], |row| row.get(0))?;
    let since =
        at.now.boot.as_millis().saturating_sub(u64::try_from(OVERDUE.as_millis()).unwrap_or_default());
    let (overdue, consumer) =
        at.conn.query_row(OVER, params![sub.id, at.boot_id, integer(since), most], |row| {
            Ok((row.get(0)?, row.get::<_, Option<String>>(1)?))
        })?;
    Ok(GroupBooks {
        counted: (!are_more).then_some(counted),
        bodiless: natural(bodiless),
        overdue: natural(overdue),
        overdue_of: consumer.and_then(|name| Consumer::new(&name).ok()),
        looked_at: are_more.then_some(natural(most)),
        ..GroupBooks::sound(id.clone(), stats::of(at, &id.name, sub)?, at.now.wall)
    })
}

fn integer_of(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
