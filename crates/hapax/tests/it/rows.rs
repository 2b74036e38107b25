//! Rows and receipt in one transaction of the embedded store.

use hapax::{
    Claim, IdempotencyError, KeyState,
    sqlite::{SqliteStore, Transactional, rusqlite},
};
use std::path::Path;

async fn orders(folder: &Path) -> (hapax::Hapax, Transactional) {
    let file = folder.join("shop.db");
    let hapax = hapax::connect(format!("sqlite:{}", file.display())).await.unwrap();
    let orders = Transactional::new(&hapax).unwrap();
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE orders (cart TEXT)").unwrap();
    (hapax, orders)
}

fn rows(folder: &Path) -> i64 {
    let conn = rusqlite::Connection::open(folder.join("shop.db")).unwrap();
    conn.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
}

fn insert(tx: &rusqlite::Transaction<'_>) -> rusqlite::Result<i64> {
    tx.execute("INSERT INTO orders (cart) VALUES ('c')", [])?;
    Ok(tx.last_insert_rowid())
}

#[tokio::test]
async fn rows_and_receipt_commit_together_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_hapax, orders) = orders(folder.path()).await;
    for _ in 0..3 {
        assert_eq!(orders.run("c", &1, insert).await.unwrap().unwrap(), 1);
    }
    assert_eq!(rows(folder.path()), 1);
    let other = orders.run("c", &2, insert).await.unwrap_err();
    assert!(matches!(other, IdempotencyError::KeyReused { .. }));
}

#[tokio::test]
async fn an_error_rolls_back_and_frees_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let (hapax, orders) = orders(folder.path()).await;
    let failed = orders.run("c", &1, |tx| insert(tx).map_err(drop).and(Err::<i64, ()>(()))).await.unwrap();
    assert_eq!((failed, rows(folder.path())), (Err(()), 0));
    assert_eq!(hapax.idempotency("transaction").get("c").await.unwrap(), KeyState::Vacant);
    assert_eq!(orders.run("c", &1, insert).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_panic_rolls_back_and_frees_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let (hapax, orders) = orders(folder.path()).await;
    let call = orders.clone();
    let panics = |tx: &rusqlite::Transaction<'_>| -> rusqlite::Result<i64> {
        insert(tx)?;
        panic!("in the middle")
    };
    assert!(
        tokio::spawn(async move { call.run("c", &1, panics).await.map(drop) }).await.unwrap_err().is_panic()
    );
    assert!(hapax.close().await.is_clean());
    assert_eq!(rows(folder.path()), 0);
    assert_eq!(orders.run("c", &1, insert).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_key_that_was_lost_meanwhile_rolls_back() {
    let folder = tempfile::tempdir().unwrap();
    let (hapax, orders) = orders(folder.path()).await;
    let keys = hapax.idempotency("transaction");
    let Claim::New(slow) = keys.claim("c", &1).await.unwrap() else { panic!("the key is held") };
    keys.force_release("c").await.unwrap();
    assert_eq!(orders.run("c", &1, insert).await.unwrap().unwrap(), 1);
    let store = hapax.backend().native::<SqliteStore>().unwrap();
    let (id, tx) = store.transaction(insert).await.unwrap().unwrap();
    let lost = slow.complete_by(&id, async |receipt| tx.complete_in(receipt).await).await.unwrap_err();
    assert!(matches!(lost, IdempotencyError::StoreFailed { .. }), "{lost}");
    assert_eq!((orders.run("c", &1, insert).await.unwrap().unwrap(), rows(folder.path())), (1, 1));
}

#[tokio::test]
async fn a_claim_that_is_dropped_frees_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let (hapax, _orders) = orders(folder.path()).await;
    let keys = hapax.idempotency("transaction");
    let claim: Claim<i64> = keys.claim("c", &1).await.unwrap();
    assert!(matches!(keys.claim::<i64>("c", &1).await, Err(IdempotencyError::InFlight { .. })));
    drop(claim);
    assert!(hapax.close().await.is_clean());
    assert_eq!(keys.get("c").await.unwrap(), KeyState::Vacant);
}

#[tokio::test]
async fn another_store_is_refused() {
    let hapax = hapax::connect("memory:").await.unwrap();
    let error = Transactional::new(&hapax).unwrap_err();
    assert_eq!(error.kind(), hapax::StoreErrorKind::Unsupported);
    assert!(error.to_string().contains("connect to a `sqlite:` URL"), "{error}");
}
