//! Natural numbers in a database that knows integers only.

/// As SQLite keeps it.
pub(crate) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// As SQLite kept it.
pub(crate) fn natural(n: i64) -> u64 {
    u64::try_from(n).unwrap_or_default()
}
