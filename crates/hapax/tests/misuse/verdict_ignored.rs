//! An older holder writes all the same.
#![deny(unused_must_use)]
use hapax::{
    Fence, StoreError,
    sqlite::{admit, rusqlite::Transaction},
};

fn close(tx: &Transaction<'_>, fence: Fence) -> Result<(), StoreError> {
    admit(tx, "account:7", fence)?;
    Ok(())
}

fn main() {
    let _ = close;
}
