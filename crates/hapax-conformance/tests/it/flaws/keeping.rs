//! Flaws in what is kept, found and listed.

use super::{BATCHES, MODEL, flaw};
use crate::plain::Flaw;
use hapax_core::{
    Name, Now,
    idempotency::{Entry, List, Page, Receipt, Record, machine::Slot},
};
use std::sync::atomic::{AtomicU8, Ordering};

flaw!(a_store_that_joins_names_carelessly, JoinsCarelessly: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::names_come_back_from_a_list_as_they_were",
] {
    fn key(name: &Name) -> String {
        format!("{}:{}:{}", name.namespace(), name.scope(), name.key())
    }
});

flaw!(a_store_that_ignores_case, IgnoresCase: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::list_keeps_to_its_scope",
] {
    fn key(name: &Name) -> String {
        name.joined().to_lowercase()
    }
});

flaw!(a_store_that_trims_keys, TrimsKeys: ["contract::names_that_look_alike_do_not_meet"] {
    fn key(name: &Name) -> String {
        name.joined().trim_end().to_owned()
    }
});

flaw!(a_store_whose_keys_end_at_nul, EndsAtNul: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::list_finds_a_prefix_to_the_letter",
] {
    fn key(name: &Name) -> String {
        name.joined().split('\0').next().unwrap_or_default().to_owned()
    }
});

flaw!(a_store_that_forgets_the_scope, ForgetsScope: [
    "contract::names_that_look_alike_do_not_meet",
    "contract::list_is_ordered_by_scope_and_then_key",
] {
    fn key(name: &Name) -> String {
        format!("{}:{}{}", name.namespace().len(), name.namespace(), name.key())
    }
});

flaw!(a_store_that_keeps_receipts_as_text, ReceiptsAsText: [
    "contract::receipts_come_back_byte_for_byte",
    "contract::a_late_receipt_comes_back_byte_for_byte",
    "contract::the_codec_comes_back",
] {
    fn receipt(receipt: &Receipt) -> Receipt {
        Receipt::new(receipt.codec.clone(), String::from_utf8_lossy(&receipt.bytes).into_owned())
    }
});

flaw!(a_store_that_cuts_long_receipts, CutsReceipts: [
    "contract::large_receipts_come_back",
    "contract::a_batch_of_large_receipts_is_stored_whole",
] {
    fn receipt(receipt: &Receipt) -> Receipt {
        Receipt::new(receipt.codec.clone(), receipt.bytes.slice(..receipt.bytes.len().min(65_535)))
    }
});

flaw!(a_store_that_sorts_a_batch, SortsBatch: [
    "contract::a_batch_answers_each_request_in_order",
    "contract::a_batch_of_a_thousand_keeps_its_order",
    BATCHES,
] {
    fn batch_order<T: Clone>(batch: &[T], name: impl Fn(&T) -> Name) -> Vec<T> {
        let mut batch = batch.to_vec();
        batch.sort_by_key(name);
        batch
    }
});

flaw!(a_store_that_runs_a_batch_backwards, RunsBackwards: [
    "contract::a_key_that_stands_twice_in_a_batch_is_reserved_once",
    BATCHES,
] {
    fn batch_order<T: Clone>(batch: &[T], _name: impl Fn(&T) -> Name) -> Vec<T> {
        batch.iter().rev().cloned().collect()
    }
});

flaw!(a_store_that_lists_in_the_order_of_joined_names, ListsByJoined: [
    "contract::list_is_ordered_by_scope_and_then_key",
    "contract::pages_pass_over_names_that_are_kept_hashed",
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { limit: usize::MAX, ..req.clone() });
        page.records.sort_by(|(a, _), (b, _)| a.joined().cmp(b.joined()));
        page.more = page.records.len() > req.limit;
        page.records.truncate(req.limit);
        page
    }
});

flaw!(a_store_whose_prefix_ignores_case, PrefixIgnoresCase: [
    "contract::list_finds_a_prefix_to_the_letter",
    MODEL,
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { prefix: String::new(), limit: usize::MAX, ..req.clone() });
        page.records.retain(|(name, _)| name.key().to_lowercase().starts_with(&req.prefix.to_lowercase()));
        page.more = page.records.len() > req.limit;
        page.records.truncate(req.limit);
        page
    }
});

flaw!(a_store_that_filters_a_page_after_cutting_it, FiltersLate: [
    "contract::a_page_of_a_filtered_list_goes_on",
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { state: None, ..req.clone() });
        page.records.retain(|(_, record)| req.state.is_none_or(|state| record.is(state)));
        page
    }
});

flaw!(a_store_whose_pages_begin_with_the_last_record, RepeatsLast: [
    "contract::pages_of_any_size_give_each_record_once",
    MODEL,
] {
    fn list(rows: &[(Name, Record)], req: &List) -> Page {
        let mut page = crate::plain::list(rows, &List { after: None, limit: usize::MAX, ..req.clone() });
        let after = req.after.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str()));
        page.records.retain(|(name, _)| after.is_none_or(|after| (name.scope(), name.key()) >= after));
        page.more = page.records.len() > req.limit;
        page.records.truncate(req.limit);
        page
    }
});

flaw!(a_store_that_prunes_live_reservations, PrunesLive: [
    "contract::prune_never_removes_what_is_live",
    "races::pruning_takes_nothing_that_is_live",
    MODEL,
] {
    fn prunes(slot: &Slot, _now: &Now) -> bool {
        matches!(slot, Some(Entry::Pending(_)))
    }
});

flaw!(a_store_that_prunes_without_end, PrunesAll: ["contract::prune_stops_at_its_limit"] {
    fn prune_limit(_limit: usize) -> usize {
        usize::MAX
    }
});

flaw!(a_store_with_a_secret_that_changes, SecretChanges: [
    "contract::the_secret_is_the_same_for_all_clients",
    "contract::the_secret_survives_a_restart",
    "races::the_secret_is_made_once",
] {
    fn secret() -> u8 {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
});

flaw!(a_store_that_prunes_late_results, PrunesLate: [
    "contract::prune_keeps_a_late_result",
    "expiry::pruning_changes_no_answer",
    MODEL,
] {
    fn prunes(slot: &Slot, now: &Now) -> bool {
        matches!(slot, Some(Entry::Pending(p)) if p.until <= now.boot)
    }
});
