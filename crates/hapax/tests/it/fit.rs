//! A store that cannot keep its promise is refused where that was asked for.

use hapax::{ConnectError, core::doctor::Severity};
use std::{
    convert::Infallible,
    fs,
    io::{Seek, SeekFrom, Write},
    path::Path,
};

/// Destroys the page that holds the keys.
fn damage(path: &Path) {
    let database = rusqlite::Connection::open(path).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let root: u32 =
        database.query_row("SELECT max(rootpage) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    drop(database);
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(u64::from(root - 1) * 4096)).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
}

#[tokio::test]
async fn a_strict_connection_refuses_what_has_errors_and_takes_what_has_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let url = format!("sqlite:{}?synchronous=normal", path.display());
    {
        let hapax = hapax::connect(&url).strict().await.unwrap();
        assert_eq!(hapax.examine().await.unwrap().severity(), Some(Severity::Warning));
        hapax.idempotency("t").run("k", &1, async || Ok::<_, Infallible>(1)).await.unwrap().unwrap();
        assert!(hapax.close().await.is_clean());
    }
    damage(&path);
    let error = hapax::connect(&url).strict().await.unwrap_err();
    let ConnectError::Unfit(unfit) = error else { panic!("{error:?}") };
    let checks: Vec<_> = unfit.findings.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["integrity"]);
    assert!(unfit.to_string().contains("backup"), "{unfit}");
}
