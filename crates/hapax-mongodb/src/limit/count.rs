//! The writes of a decision.

use super::value::{Seen, ends, entry, fields, integer};
use crate::{value::FORM, write::Write};
use hapax_core::limit::{Algorithm, Check, machine::Kept};
use mongodb::bson::{Document, doc};

/// What has to be found, but for whose it is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Filter(Document);

impl Filter {
    fn new(seen: &Seen) -> Self {
        let mut filter = doc! {
            "form": FORM,
            "most": i64::from(seen.quota.limit()),
            "window": integer(seen.quota.window_ms()),
            "at": seen.at,
        };
        if let Some(previous) = seen.previous {
            filter.insert("previous", previous);
        }
        Self(filter)
    }

    fn with(mut self, count: Document) -> Self {
        self.0.insert("count", count);
        self
    }

    pub(super) fn of(self, id: &str) -> Document {
        let mut filter = doc! { "_id": id };
        filter.extend(self.0);
        filter
    }
}

/// Counts a request that fits in what was seen, whatever others have counted since, as long as it fits beside it. None
/// where more than the count changes. `left` is what is left after it.
pub(super) fn on(seen: &Seen, check: &Check, left: u32, now: u64) -> Option<(Filter, Document)> {
    let quota = &check.quota;
    let (window, cost) = (integer(quota.window_ms()), i64::from(check.cost));
    let past = integer(now) - seen.at;
    if seen.quota != *quota {
        return None;
    }
    let (room, inc) = match quota.algorithm() {
        // A window that goes on, and did not begin more than one away in the future.
        Algorithm::FixedWindow | Algorithm::SlidingCounter => {
            let room = doc! { "$lte": seen.count.saturating_add(left.into()) };
            (-window..window).contains(&past).then_some((room, cost))?
        }
        // What is over is still in it: it is written anew where that takes the room.
        Algorithm::SlidingWindow => {
            let most = i64::from(quota.limit()) - cost;
            let is_now = seen.log.iter().all(|(at, _)| *at <= now + quota.window_ms());
            (is_now && seen.count <= most).then_some((doc! { "$lte": most }, cost))?
        }
        Algorithm::TokenBucket => {
            let credits = past.clamp(0, window) * i64::from(quota.limit());
            let (least, full) = (cost * window - credits, i64::from(quota.limit()) * window - credits);
            let fits = (least..full).contains(&seen.count) && (-window..window).contains(&past);
            fits.then(|| (doc! { "$gte": least, "$lt": full }, -cost * window))?
        }
    };
    let (mut later, mut update) = (ends(quota, now), doc! { "$inc": { "count": inc } });
    if quota.algorithm() == Algorithm::SlidingWindow {
        update.insert("$push", doc! { "log": entry(now, check.cost.into()) });
        later.insert("from", integer(now).saturating_sub(window));
    }
    update.insert("$max", later);
    Some((Filter::new(seen).with(room), update))
}

/// Writes a state in place of what was seen, where that is still there; none where there is nothing to write.
pub(super) fn anew(id: &str, seen: Option<&Seen>, kept: Option<&Kept>, now: u64) -> Option<Write> {
    let kept = kept?;
    let turn = seen.map_or(0, |seen| seen.at.saturating_add(1)).max(integer(now));
    let (set, later) = (fields(kept, turn), ends(&kept.quota, now));
    let Some(seen) = seen else {
        let mut document = doc! { "_id": id };
        document.extend(set);
        document.extend(later);
        return Some(Write::Insert(document));
    };
    let mut filter = Filter::new(seen).of(id);
    filter.insert("count", seen.count);
    Some(Write::Update { filter, update: doc! { "$set": set, "$max": later }, upsert: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::limit::{
        LimitKey, Quota,
        machine::{self, Slot},
    };
    use std::time::Duration;

    const WINDOW: Duration = Duration::from_mins(1);

    fn seen(slot: &Slot, check: &Check, turn: i64) -> Seen {
        let document = fields(slot.as_ref().unwrap(), turn);
        Seen::read(Some(&document), check, "x").unwrap().unwrap()
    }

    /// Whether a request is counted on in a state that was made `ms` before.
    fn counts_on(quota: Quota, later: Quota, ms: u64) -> bool {
        let (mut slot, first) = (None, Check::new(LimitKey::new("k").unwrap(), quota));
        machine::take(&mut slot, &first, 1_000_000);
        let next = Check { quota: later, ..first.clone() };
        let seen = seen(&slot, &first, 1_000_000);
        let mut slot = Some(seen.kept());
        let now = 1_000_000 + ms;
        machine::take(&mut slot, &next, now);
        let left = machine::answer(&slot, &next, machine::Verdict::Allowed, now).remaining;
        on(&seen, &next, left, now).is_some()
    }

    #[test]
    fn a_state_is_written_anew_where_more_than_the_count_changes() {
        for algorithm in Algorithm::ALL {
            let quota = Quota::new(algorithm, 5, WINDOW).unwrap();
            assert!(counts_on(quota, quota, 1_000), "{algorithm}");
            assert!(!counts_on(quota, quota.with_limit(6).unwrap(), 1_000), "{algorithm}");
            let is_log = algorithm == Algorithm::SlidingWindow;
            assert_eq!(counts_on(quota, quota, 60_000), is_log, "{algorithm}");
            let longer = Quota::new(algorithm, 5, WINDOW * 2).unwrap();
            assert!(!counts_on(quota, longer, 1_000), "{algorithm}");
        }
    }

    #[test]
    fn what_was_over_when_one_was_counted_is_over_for_a_longer_window_too() {
        let check = Check::new(LimitKey::new("k").unwrap(), Quota::sliding_window(5, WINDOW));
        let mut slot = None;
        machine::take(&mut slot, &check, 1_000);
        let seen = seen(&slot, &check, 1_000);
        let (_, update) = on(&seen, &check, 4, 70_000).unwrap();
        let mut document = fields(slot.as_ref().unwrap(), 1_000);
        document.insert("log", vec![entry(1_000, 1), entry(70_000, 1)]);
        document.insert("count", 2);
        document.insert("from", update.get_document("$max").unwrap().get_i64("from").unwrap());
        machine::take(&mut slot, &check, 70_000);
        let found = Seen::read(Some(&document), &check, "x").unwrap().unwrap();
        assert_eq!(Some(found.kept()), slot);
    }

    #[test]
    fn a_log_is_written_anew_where_what_is_over_takes_the_room() {
        let check = Check::new(LimitKey::new("k").unwrap(), Quota::sliding_window(2, WINDOW));
        let mut slot = None;
        machine::take(&mut slot, &check, 1_000);
        machine::take(&mut slot, &check, 2_000);
        let seen = seen(&slot, &check, 2_000);
        assert!(on(&seen, &check, 1, 61_500).is_none());
        machine::take(&mut slot, &check, 61_500);
        let Some(Write::Update { filter, update, .. }) = anew("id", Some(&seen), slot.as_ref(), 61_500)
        else {
            panic!("no update")
        };
        assert_eq!((filter.get_i64("at").unwrap(), filter.get_i64("count").unwrap()), (2_000, 2));
        let set = update.get_document("$set").unwrap();
        assert_eq!((set.get_i64("at").unwrap(), set.get_array("log").unwrap().len()), (61_500, 2));
    }
}
