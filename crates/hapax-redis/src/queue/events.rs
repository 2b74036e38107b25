//! What passed in a queue, where it keeps events. `scripts/queue/common.lua` describes them.

use super::{
    Queues,
    call::{self, Args, Op},
    form,
    keys::Place,
    script,
};
use crate::error::Failure;
use hapax_core::{
    Timestamp,
    queue::{EventPage, Happening, QueueEvent, ReadEvents},
};
use redis::Value;

impl Queues {
    pub(super) async fn passed(&self, req: &ReadEvents) -> Result<EventPage, Failure> {
        let place = self.place(&req.queue);
        let args = || Args::new().arg(req.after).arg(req.limit);
        let Some(mut said) = self.on_all(&place, Op::again(&script::EVENTS), args).await? else {
            return Ok(EventPage::default());
        };
        let mut read = || {
            let (last, first, from) = (said.count()?, said.count()?, said.count()?);
            let found = said.list()?.into_iter().zip(from..);
            let events = found.filter_map(|(event, number)| read(&place, number, event)).collect();
            Some(EventPage { events, last, missed: EventPage::is_gap(req.after, first) })
        };
        read().ok_or_else(|| self.nonsense())
    }
}

/// Nothing where a newer version has written it.
fn read(place: &Place, number: u64, event: Value) -> Option<QueueEvent> {
    let bytes = call::bytes(event)?;
    let (at, bytes) = bytes.split_first_chunk()?;
    let ([what], bytes) = bytes.split_first_chunk()?;
    let (group, bytes) = bytes.split_first_chunk()?;
    let (attempts, uid) = bytes.split_first_chunk()?;
    Some(QueueEvent {
        number,
        at: Timestamp::from_millis(i64::from_be_bytes(*at)),
        what: Happening::from_number(*what)?,
        uid: form::uid(uid)?,
        group: place.groups().name(u32::from_be_bytes(*group)),
        attempts: u32::from_be_bytes(*attempts),
    })
}
