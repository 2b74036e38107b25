//! From what SQLite says to what a store says.

use hapax_core::{Applied, StoreError, StoreErrorKind};
use rusqlite::{Error, ErrorCode};
use std::{path::Path, sync::Arc, time::Duration};

pub(crate) const BACKEND: &str = "sqlite";

/// Why something failed, before it is known whose call it was: one commit may carry the calls of many.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    reason: String,
    applied: Applied,
    cause: Option<Arc<Error>>,
}

impl Failure {
    pub(crate) fn new(kind: StoreErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), applied: Applied::No, cause: None }
    }

    /// A statement failed, or anything else whose transaction is certainly undone.
    pub(crate) fn of(path: &Path, error: Error) -> Self {
        let (kind, reason) = explain(path, &error);
        Self { kind, reason, applied: Applied::No, cause: Some(Arc::new(error)) }
    }

    /// The commit itself failed.
    pub(crate) fn of_commit(path: &Path, error: Error) -> Self {
        let applied = if is_undone(&error) { Applied::No } else { Applied::Unknown };
        Self { applied, ..Self::of(path, error) }
    }

    pub(crate) fn timeout(path: &Path, limit: Duration) -> Self {
        let reason = format!("`{}` stayed locked, or its disk busy, for {limit:?}", path.display());
        Self::new(StoreErrorKind::Timeout, reason)
    }

    /// Another file, or none, is where the store was.
    pub(crate) fn moved(path: &Path) -> Self {
        let reason = format!(
            "`{}` was moved, removed or replaced since it was opened; nothing was written: open the store again",
            path.display()
        );
        Self::new(StoreErrorKind::Unavailable, reason)
    }

    pub(crate) fn no_runtime() -> Self {
        let reason = "it needs a tokio runtime, and this call was made outside of one";
        Self::new(StoreErrorKind::Unsupported, reason)
    }

    /// The thread that was to do the work is gone.
    pub(crate) fn gone() -> Self {
        Self::new(StoreErrorKind::Unavailable, "the runtime is shutting down")
    }

    #[must_use]
    pub(crate) fn maybe_applied(mut self) -> Self {
        self.applied = Applied::Unknown;
        self
    }

    pub(crate) fn is_maybe_applied(&self) -> bool {
        self.applied == Applied::Unknown
    }

    pub(crate) fn error(&self, op: &'static str) -> StoreError {
        let mut error = StoreError::new(self.kind, BACKEND, op, self.reason.clone());
        if self.is_maybe_applied() {
            error = error.maybe_applied();
        }
        match &self.cause {
            Some(cause) => error.with_source(Arc::clone(cause)),
            None => error,
        }
    }
}

/// For what is wrong before the file is touched.
pub(crate) fn config(op: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, BACKEND, op, reason)
}

/// Another connection is in the way, and trying again will do. Beside plain locks that is the repair of the log after
/// a crash, and a lock of the log that was lost too often in a row.
pub(crate) fn is_busy(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}

/// After a failed commit: whether its transaction is certainly undone. When writing or syncing the log fails, its last
/// record may have reached the disk, and would then count after a crash.
fn is_undone(error: &Error) -> bool {
    is_busy(error) || matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::ReadOnly))
}

fn explain(path: &Path, error: &Error) -> (StoreErrorKind, String) {
    let path = path.display();
    match error.sqlite_error_code() {
        _ if is_busy(error) => (StoreErrorKind::Timeout, format!("`{path}` is locked by another process")),
        Some(ErrorCode::DiskFull) => {
            (StoreErrorKind::Unavailable, format!("the disk of `{path}` is full: make room, then try again"))
        }
        Some(ErrorCode::NotADatabase) => {
            (StoreErrorKind::Corrupt, format!("`{path}` is no SQLite database; nothing was written"))
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            (StoreErrorKind::Corrupt, format!("`{path}` is damaged: restore it from a backup"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            (StoreErrorKind::Auth, format!("`{path}` cannot be written by this user"))
        }
        Some(ErrorCode::CannotOpen) => {
            let reason = format!("`{path}` cannot be opened: this user needs to write in its folder too");
            (StoreErrorKind::Auth, reason)
        }
        Some(ErrorCode::SystemIoFailure) => {
            (StoreErrorKind::Unavailable, format!("the disk of `{path}` failed to read or write"))
        }
        Some(ErrorCode::TooBig) => {
            (StoreErrorKind::Unsupported, "the receipt or job is larger than SQLite takes".to_owned())
        }
        _ => (StoreErrorKind::Internal, format!("`{path}` refused a statement")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(extended_code: i32) -> Error {
        Error::SqliteFailure(rusqlite::ffi::Error::new(extended_code), None)
    }

    #[test]
    fn only_a_commit_whose_write_failed_is_in_doubt() {
        let path = Path::new("x.db");
        let applied = |code| Failure::of_commit(path, sqlite(code)).error("commit").applied();
        assert_eq!(applied(rusqlite::ffi::SQLITE_FULL), Applied::No);
        assert_eq!(applied(rusqlite::ffi::SQLITE_BUSY), Applied::No);
        assert_eq!(applied(rusqlite::ffi::SQLITE_IOERR_FSYNC), Applied::Unknown);
        assert_eq!(
            Failure::of(path, sqlite(rusqlite::ffi::SQLITE_IOERR_WRITE)).error("x").applied(),
            Applied::No
        );
    }

    #[test]
    fn a_full_disk_says_where_and_what_to_do() {
        let error =
            Failure::of(Path::new("/data/x.db"), sqlite(rusqlite::ffi::SQLITE_FULL)).error("reserve a key");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("/data/x.db") && text.contains("make room"), "{text}");
    }
}
