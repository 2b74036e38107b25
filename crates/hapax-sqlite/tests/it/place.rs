//! Where the file may be, who may read it, and what is no store.

use crate::{
    child::Process,
    support::{file, folder, name, open, open_on, raw, reserve, settle},
};
use hapax_core::{
    Applied, BackendUrl, ManualClock, StoreError, StoreErrorKind, SystemClock,
    idempotency::{Extended, IdempotencyStore, Reserved},
    registry::{ConnectOptions, Registry},
};
use hapax_sqlite::{DRIVER, SqliteOptions, SqliteStore};
use std::{fs, path::Path, sync::Arc, time::Duration};

async fn refusal(path: impl AsRef<Path>) -> StoreError {
    SqliteStore::open(SqliteOptions::new(path.as_ref()), Arc::new(SystemClock)).await.unwrap_err()
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn files_that_are_made_belong_to_their_owner_alone() {
    let folder = folder();
    let path = file(&folder);
    settle(&open(&path).await, "k").await;
    let files = names_in(folder.path());
    assert_eq!(files.len(), 3, "{files:?}");
    for made in files {
        assert_eq!(mode(&path.with_file_name(&made)), 0o600, "{made}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_kept_in_a_file_that_was_removed() {
    let (folder, clock) = (folder(), ManualClock::new());
    let path = file(&folder);
    let (store, req) = (open_on(&path, &clock).await, reserve("k"));
    assert!(matches!(store.reserve(&req).await.unwrap(), Reserved::Yours { .. }));
    fs::remove_file(&path).unwrap();
    clock.advance(Duration::from_secs(1));
    let answer = store.extend(&req.name, &req.token, req.lease).await.unwrap();
    assert_eq!(answer, Extended::Fenced);
    // The first look at a key is on the connection that writes, later ones want a connection of their own.
    for n in 0..40 {
        let error = store.reserve(&reserve(&format!("other {n}"))).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
        let text = error.to_string();
        assert!(
            text.contains(&path.display().to_string()) && text.contains("open the store again"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named_and_not_made() {
    let folder = folder();
    let error = refusal(folder.path().join("new/deeper/store.db")).await;
    assert_eq!(error.kind(), StoreErrorKind::Config);
    let text = error.to_string();
    assert!(text.contains(&folder.path().join("new/deeper").display().to_string()), "{text}");
    assert!(text.contains("mkdir -p"), "{text}");
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[cfg(unix)]
#[tokio::test]
async fn the_mode_of_a_file_that_is_there_stays() {
    let folder = folder();
    let path = file(&folder);
    fs::write(&path, "").unwrap();
    set_mode(&path, 0o640);
    settle(&open(&path).await, "k").await;
    assert_eq!(mode(&path), 0o640);
}

#[tokio::test]
async fn a_url_makes_the_store_it_names() {
    let folder = folder();
    let registry = Registry::new().with(DRIVER);
    for form in ["sqlite:", "sqlite://"] {
        let path = folder.path().join(format!("{}.db", form.len()));
        let url = BackendUrl::parse(&format!("{form}{}?synchronous=normal", path.display())).unwrap();
        let backend = registry.connect(&url, &ConnectOptions::default()).await.unwrap();
        assert!(backend.idempotency.read(&name("k")).await.unwrap().is_none());
        assert!(path.exists());
    }
    let url = BackendUrl::parse("sqlite:x.db?journal=wal").unwrap();
    let error = registry.connect(&url, &ConnectOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(!Path::new("x.db").exists());
}

#[tokio::test]
async fn places_that_are_no_file_are_refused_by_name() {
    let folder = folder();
    let path = file(&folder);
    let in_a_file = path.join("store.db");
    fs::write(&path, "").unwrap();
    for (path, part) in
        [(folder.path(), "is a folder"), (Path::new(""), "is empty"), (&in_a_file, "not a folder")]
    {
        let error = refusal(path).await;
        assert_eq!(error.kind(), StoreErrorKind::Config);
        let text = error.to_string();
        assert!(text.contains(part) && text.contains(&*path.to_string_lossy()), "{text}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_nothing_is_refused() {
    let folder = folder();
    let path = file(&folder);
    std::os::unix::fs::symlink(folder.path().join("nothing"), &path).unwrap();
    assert!(refusal(&path).await.to_string().contains("link to nothing"));
}

/// The kind and text with which a user without rights is refused.
#[cfg(unix)]
fn refused_to_another_user(path: &Path) -> String {
    use std::os::unix::process::CommandExt;
    // Rights do not bind root. Another user may not reach this program where it lies.
    let mut command = Process::command("open", path);
    let reachable = folder();
    if rustix::process::geteuid().is_root() {
        set_mode(reachable.path(), 0o755);
        let program = reachable.path().join("it");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        command = Process::command_of(&program, "open", path);
        command.uid(65_534).gid(65_534).current_dir(reachable.path());
    }
    Process::spawn(&mut command).hear().unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_cannot_be_written_is_refused() {
    let folder = folder();
    let path = file(&folder);
    settle(&open(&path).await, "k").await;
    set_mode(folder.path(), 0o777);
    for file in names_in(folder.path()) {
        set_mode(&folder.path().join(file), 0o444);
    }
    let said = refused_to_another_user(&path);
    assert!(said.starts_with("Auth") && said.contains(&*path.to_string_lossy()), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused() {
    let folder = folder();
    set_mode(folder.path(), 0o555);
    let said = refused_to_another_user(&file(&folder));
    assert!(said.starts_with("Auth") && said.contains(&*folder.path().to_string_lossy()), "{said}");
    // With the file there, its log cannot be made.
    set_mode(folder.path(), 0o755);
    fs::write(file(&folder), "").unwrap();
    set_mode(&file(&folder), 0o666);
    set_mode(folder.path(), 0o555);
    let said = refused_to_another_user(&file(&folder));
    assert!(said.starts_with("Auth"), "{said}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    for text in ["short", &"no database, but long enough for a header\n".repeat(300)] {
        let folder = folder();
        let path = file(&folder);
        fs::write(&path, text).unwrap();
        let error = refusal(&path).await;
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        assert!(error.to_string().contains(&*path.to_string_lossy()));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(names_in(folder.path()), ["store.db"]);
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    for journal in ["DELETE", "WAL"] {
        let folder = folder();
        let path = file(&folder);
        let conn = raw(&path);
        conn.execute_batch(&format!(
            "PRAGMA journal_mode = {journal}; CREATE TABLE orders (id); INSERT INTO orders VALUES (7)"
        ))
        .unwrap();
        drop(conn);
        let before = fs::read(&path).unwrap();
        let error = refusal(&path).await;
        assert_eq!(error.kind(), StoreErrorKind::Config);
        assert!(error.to_string().contains("another program"));
        assert_eq!(fs::read(&path).unwrap(), before);
        let orders: i64 = raw(&path).query_row("SELECT id FROM orders", [], |row| row.get(0)).unwrap();
        assert_eq!(orders, 7);
    }
}

#[tokio::test]
async fn a_damaged_store_answers_nothing_and_grants_nothing() {
    let folder = folder();
    let path = file(&folder);
    let store = open(&path).await;
    for n in 0..200 {
        settle(&store, &format!("k{n}")).await;
    }
    drop(store);
    raw(&path).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    // All but the first page, which says whose database it is.
    let mut bytes = fs::read(&path).unwrap();
    bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0xa5);
    fs::write(&path, &bytes).unwrap();
    // Some damage shows at the opening, some at the first look.
    let error = match SqliteStore::open(SqliteOptions::new(&path), Arc::new(SystemClock)).await {
        Err(error) => error,
        Ok(store) => store.reserve(&reserve("k7")).await.unwrap_err(),
    };
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[tokio::test]
async fn a_copy_of_all_its_files_is_the_store() {
    let (from, to) = (folder(), folder());
    let store = open(&file(&from)).await;
    settle(&store, "k").await;
    drop(store);
    for name in names_in(from.path()) {
        fs::copy(from.path().join(&name), to.path().join(&name)).unwrap();
    }
    assert!(open(&file(&to)).await.read(&name("k")).await.unwrap().is_some());
}
