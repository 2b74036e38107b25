//! Writes that compare fences, in the database that is written to.

use crate::support::{file, folder, open, raw};
use hapax_core::{
    Applied, StoreErrorKind,
    lock::{Fence, Guarded},
};
use hapax_sqlite::admit;
use rusqlite::{Connection, OpenFlags, TransactionBehavior::Immediate};

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

/// Sets the one value where the fence admits it.
fn write(database: &mut Connection, resource: &str, number: u64) -> Guarded {
    let tx = database.transaction_with_behavior(Immediate).unwrap();
    let verdict = admit(&tx, resource, fence(number)).unwrap();
    if verdict == Guarded::Applied {
        tx.execute("INSERT INTO written (resource, fence) VALUES (?1, ?2)", (resource, number.cast_signed()))
            .unwrap();
        tx.commit().unwrap();
    }
    verdict
}

fn written(database: &Connection) -> Vec<u64> {
    let mut statement = database.prepare("SELECT fence FROM written ORDER BY rowid").unwrap();
    let numbers = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    numbers.map(|number| number.unwrap().cast_unsigned()).collect()
}

#[test]
fn a_write_of_an_older_holder_changes_nothing() {
    let folder = folder();
    let (mut mine, mut other) = (raw(&file(&folder)), raw(&file(&folder)));
    mine.execute_batch("CREATE TABLE written (resource, fence)").unwrap();
    assert_eq!(write(&mut mine, "account:7", 5), Guarded::Applied);
    assert_eq!(write(&mut other, "account:7", 5), Guarded::Repeat);
    assert_eq!(write(&mut other, "account:7", 4), Guarded::Stale);
    assert_eq!(write(&mut other, "account:7", Fence::MAX.get()), Guarded::Applied);
    assert_eq!(write(&mut mine, "account:7", 6), Guarded::Stale);
    assert_eq!(write(&mut mine, "account:8", 1), Guarded::Applied, "another resource");
    assert_eq!(written(&mine), [5, Fence::MAX.get(), 1]);
}

#[test]
fn a_write_that_is_rolled_back_was_none() {
    let folder = folder();
    let mut database = raw(&file(&folder));
    database.execute_batch("CREATE TABLE written (resource, fence)").unwrap();
    assert_eq!(write(&mut database, "account:7", 1), Guarded::Applied);
    let tx = database.transaction().unwrap();
    assert_eq!(admit(&tx, "account:7", fence(9)).unwrap(), Guarded::Applied);
    drop(tx);
    assert_eq!(write(&mut database, "account:7", 2), Guarded::Applied);
}

#[tokio::test]
async fn a_write_beside_the_keys_is_guarded_too() {
    let folder = folder();
    let store = open(&file(&folder)).await;
    let admitted = store.transaction(|tx| admit(tx, "account:7", fence(3))).await.unwrap().unwrap();
    assert_eq!(admitted.0, Guarded::Applied);
    // Nothing was committed.
    drop(admitted);
    let mut database = raw(&file(&folder));
    database.execute_batch("CREATE TABLE written (resource, fence)").unwrap();
    assert_eq!(write(&mut database, "account:7", 3), Guarded::Applied);
}

#[test]
fn a_resource_has_a_name() {
    let mut database = Connection::open_in_memory().unwrap();
    let tx = database.transaction().unwrap();
    let error = admit(&tx, "", fence(1)).unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Config, Applied::No), "{error}");
    // A long one is kept as its hash, like every key.
    let long = "r".repeat(10_000);
    assert_eq!(admit(&tx, long.as_str(), fence(2)).unwrap(), Guarded::Applied);
    assert_eq!(admit(&tx, long.as_str(), fence(1)).unwrap(), Guarded::Stale);
}

#[test]
fn a_guard_fails_as_a_store_does() {
    let folder = folder();
    drop(raw(&file(&folder)));
    let mut database = Connection::open_with_flags(file(&folder), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let tx = database.transaction().unwrap();
    let error = admit(&tx, "account:7", fence(1)).unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Auth, Applied::No), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}
