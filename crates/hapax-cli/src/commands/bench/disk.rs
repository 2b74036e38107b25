//! What one sync of the disk takes: the floor of a durable write.

use hapax::BackendUrl;
use std::{
    io::{self, Write},
    path::Path,
};
use tokio::time::Instant;

const SYNCS: usize = 51;
/// As much as a small commit writes.
const BYTES: usize = 4096;

/// Median of `fdatasync` beside the database, in microseconds. None where there is no disk, or it cannot be measured.
pub(super) fn sync_us(url: &BackendUrl) -> Option<u64> {
    if url.scheme() != "sqlite" {
        return None;
    }
    let path = Path::new(url.rest().strip_prefix("//").unwrap_or(url.rest()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    measure(folder).ok()
}

fn measure(folder: &Path) -> io::Result<u64> {
    // Without a name, or removed when this ends.
    let mut file = tempfile::tempfile_in(folder)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[0x5a; BYTES])?;
        let started = Instant::now();
        file.sync_data()?;
        took.push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    took.sort_unstable();
    Ok(took.get(SYNCS / 2).copied().unwrap_or_default())
}
