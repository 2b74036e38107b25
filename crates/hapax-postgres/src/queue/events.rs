//! What passed in a queue, where it keeps events.

use super::row::{self, natural};
use crate::{store::PostgresStore, value::Value};
use hapax_core::{
    StoreResult,
    queue::{EventPage, Group, Happening, QueueEvent, ReadEvents},
};
use sqlx::{Error, Row as _, postgres::PgRow};

const OP: &str = "read events";

impl PostgresStore {
    pub(super) async fn passed(&self, req: &ReadEvents) -> StoreResult<EventPage> {
        let mut values: Vec<_> = row::queue(&req.queue).into();
        values.extend([Value::Big(row::integer(req.after)), Value::Big(row::size(req.limit))]);
        let read = |rows: &[PgRow]| {
            let (last, events) = rows.split_last().ok_or_else(|| row::unreadable("no row"))?;
            Ok(EventPage {
                events: events.iter().filter_map(|row| event(row).transpose()).collect::<Result<_, _>>()?,
                last: natural(last, "newest")?,
                missed: EventPage::is_gap(req.after, natural(last, "first")?),
            })
        };
        self.asked(OP, "queue_events", values, true, read).await
    }
}

/// Nothing where a newer version has written it.
fn event(row: &PgRow) -> Result<Option<QueueEvent>, Error> {
    let what = u8::try_from(row.try_get::<i16, _>("what")?).ok().and_then(Happening::from_number);
    let Some(what) = what else { return Ok(None) };
    Ok(Some(QueueEvent {
        number: natural(row, "number")?,
        at: row::instant(row, "at")?,
        what,
        uid: row::uid(row, "uid")?,
        group: row::named(row, "name", Group::new)?,
        attempts: natural(row, "attempts")?,
    }))
}
