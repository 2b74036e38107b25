//! Settings of a database that must make no difference.

use crate::support::{Place, complete, is_done, is_yours, name, open, reserve};
use hapax_core::idempotency::{Completed, IdempotencyStore, List, RecordState, Reserved};

crate::list!("settings";
    the_settings_of_a_role_make_no_difference,
    plans_use_the_key,
);

async fn the_settings_of_a_role_make_no_difference() {
    // After a hundred statements they are named.
    for (more, before) in [("", 0), ("", 100), ("&prepared=on", 0)] {
        let place = Place::new();
        let settings = [
            "default_transaction_isolation = 'serializable'",
            "default_transaction_read_only = on",
            "standard_conforming_strings = off",
            "bytea_output = escape",
            "search_path = nowhere",
            "statement_timeout = '1h'",
        ];
        let settings = settings.map(|setting| format!("ALTER ROLE $role SET {setting};")).concat();
        let role = place.role(&format!("ALTER ROLE $role SUPERUSER; {settings}")).await;
        let store = open(&place.url(&role, more)).await.unwrap();
        for _ in 0..before {
            assert_eq!(store.read(&name("before")).await.unwrap(), None);
        }
        let mut req = reserve("it's \\ \0 é");
        req.name = hapax_core::Name::new(
            &hapax_core::Namespace::default(),
            &hapax_core::Scope::new("a'b\\").unwrap(),
            &hapax_core::Key::new("it's \\ \0 é").unwrap(),
        );
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let mut result = complete(&req);
        result.receipt.bytes = (0..=u8::MAX).collect::<Vec<_>>().into();
        assert_eq!(store.complete(&result).await.unwrap(), Completed::Stored);
        let Reserved::Held(record) = store.reserve(&req).await.unwrap() else { panic!("not held") };
        let RecordState::Settled { receipt, .. } = &record.state else { panic!("not settled") };
        assert_eq!(receipt, &result.receipt);
        let page = store.list(&List::new(hapax_core::Namespace::default())).await.unwrap();
        assert_eq!(page.records.first().map(|(name, _)| name), Some(&req.name));
        assert!(is_done(page.records.first().map(|(_, record)| record)));
    }
}

async fn plans_use_the_key() {
    let place = Place::new();
    let store = place.store().await;
    // Made while the table is empty, when reading all of it would be the cheapest.
    assert!(is_yours(&store.reserve(&reserve("k")).await.unwrap()));
    let _record = store.read(&reserve("k").name).await.unwrap();
    let _page = store.list(&List::new(hapax_core::Namespace::default())).await.unwrap();
    store.prune(1).await.unwrap();
    let scans = format!(
        "SELECT coalesce(max(seq_scan), 0) FROM pg_stat_all_tables WHERE schemaname = '{}' AND relname = 'idempotency'",
        place.schema
    );
    let index = scans.replace("seq_scan", "idx_scan");
    // What a session did is counted when it ends at the latest.
    drop(store);
    let counted = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while place.number(&index).await == 0 {
            tokio::task::yield_now().await;
        }
        place.number(&scans).await
    });
    // Making the index reads the empty table.
    assert!(counted.await.unwrap() <= 1);
}
