//! A look at the records themselves, for `hapax doctor`.

use super::{info, row, row::natural};
use crate::{store::PostgresStore, value::Value};
use hapax_core::{
    Namespace, StoreResult,
    queue::{
        Books, Consumer, GroupBooks, QueueId, QueueName,
        books::{MOST_ENTRIES, MOST_QUEUES, OVERDUE},
    },
};
use sqlx::{Error, Row as _, postgres::PgRow};

const OP: &str = "look at queues";

impl PostgresStore {
    pub(super) async fn look_at_books(&self, queue: Option<&QueueId>) -> StoreResult<Books> {
        let values = vec![
            row::maybe_text(queue.map(|queue| queue.namespace.as_str())),
            row::maybe_text(queue.map(|queue| queue.name.as_str())),
            Value::Big(row::size(MOST_QUEUES)),
            Value::Big(row::size(MOST_ENTRIES)),
            Value::Big(i64::try_from(OVERDUE.as_millis()).unwrap_or(i64::MAX)),
        ];
        self.asked(OP, "queue_books", values, true, books).await
    }
}

fn books(rows: &[PgRow]) -> Result<Books, Error> {
    let mut found = Books::default();
    for row in rows {
        if row.try_get("is_more")? {
            found.is_more = true;
        } else {
            found.groups.push(group(row)?);
        }
    }
    Ok(found)
}

fn group(row: &PgRow) -> Result<GroupBooks, Error> {
    let queue = QueueId::new(
        &row::name(row, "namespace", Namespace::from_shown)?,
        &row::name(row, "queue", QueueName::new)?,
    );
    let counted: [u64; 3] =
        [natural(row, "has_waiting")?, natural(row, "has_running")?, natural(row, "has_dead")?];
    let most = u64::try_from(MOST_ENTRIES).unwrap_or(u64::MAX);
    let are_more = counted.iter().sum::<u64>() > most;
    Ok(GroupBooks {
        counted: (!are_more).then_some(counted),
        bodiless: natural(row, "bodiless")?,
        homeless: natural(row, "homeless")?,
        dangling: natural(row, "dangling")?,
        overdue: natural(row, "overdue")?,
        overdue_of: row::named(row, "overdue_of", Consumer::new)?,
        looked_at: are_more.then_some(most),
        ..GroupBooks::sound(queue, info::stats(row)?, row::instant(row, "now")?)
    })
}
