//! The file itself: what may be there, who may read it, and on which file system.
//!
//! Nothing here opens a file that exists. Closing a file drops all POSIX locks that the process has on it, those of
//! SQLite's connections too; so a file is opened by name only to make it, when nobody can have it open yet.

use crate::error::{BACKEND, config};
use hapax_core::{StoreError, StoreErrorKind, StoreResult};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const OP: &str = "open the store";

/// Makes the file where it is missing, in a folder that has to be there: a path with a mistake in it leads to no store.
/// Answers its path from the root.
pub(crate) fn prepare(path: &Path, allow_network: bool) -> StoreResult<PathBuf> {
    let (path, is_there) = look(path, allow_network)?;
    if is_there {
        return Ok(path);
    }
    match new_file(&path) {
        Ok(()) => Ok(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(no_folder(&path, e)),
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(refused(&path, "made", e)),
        Err(_) => match fs::metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(config(OP, format!("`{}` is a symbolic link to nothing", path.display())))
            }
            // Another process was faster.
            _ => Ok(path),
        },
    }
}

/// The path, from the root, of a file that must be there.
pub(crate) fn existing(path: &Path, allow_network: bool) -> StoreResult<PathBuf> {
    match look(path, allow_network)? {
        (path, true) => Ok(path),
        (path, false) => Err(config(OP, format!("there is no store at `{}`", path.display()))),
    }
}

/// The path from the root, and whether a file is there. Refuses what cannot be a store.
fn look(path: &Path, allow_network: bool) -> StoreResult<(PathBuf, bool)> {
    if path.as_os_str().is_empty() {
        return Err(config(OP, "the path of the file is empty"));
    }
    // From the root, so that a later change of the working directory moves nothing, and no name means more to SQLite
    // than a file.
    let path = std::path::absolute(path).map_err(|e| refused(path, "found", e))?;
    if !allow_network {
        refuse_network(&path)?;
    }
    match fs::metadata(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok((path, false)),
        Err(e) => Err(refused(&path, "looked at", e)),
        Ok(found) if found.is_dir() => {
            Err(config(OP, format!("`{}` is a folder: name a file in it", path.display())))
        }
        Ok(found) if !found.is_file() => {
            Err(config(OP, format!("`{}` is not a regular file", path.display())))
        }
        Ok(found) => {
            warn_if_open_to_others(&path, &found);
            Ok((path, true))
        }
    }
}

fn no_folder(path: &Path, error: io::Error) -> StoreError {
    let folder = path.parent().unwrap_or(path).display();
    let reason =
        format!("its folder `{folder}` is not there: make it (`mkdir -p`), or name a file in one that is");
    config(OP, reason).with_source(error)
}

fn refused(path: &Path, what: &str, error: io::Error) -> StoreError {
    let (kind, hint) = match error.kind() {
        io::ErrorKind::PermissionDenied => (StoreErrorKind::Auth, ": this user may not"),
        io::ErrorKind::ReadOnlyFilesystem => (StoreErrorKind::Auth, ": its file system is read-only"),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            (StoreErrorKind::Config, ": a part of the path is a file, not a folder")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (StoreErrorKind::Unavailable, ": the disk is full; make room, then try again")
        }
        _ => (StoreErrorKind::Config, ""),
    };
    let reason = format!("`{}` could not be {what}{hint}", path.display());
    StoreError::new(kind, BACKEND, OP, reason).with_source(error)
}

#[cfg(unix)]
fn new_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    // Keys hold addresses, receipts hold results: the owner's alone. SQLite gives the files beside it the same mode.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

#[cfg(not(unix))]
fn new_file(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(path).map(drop)
}

/// What tells one file from another, whatever its name.
#[cfg(unix)]
pub(crate) type FileId = (u64, u64);
#[cfg(not(unix))]
pub(crate) type FileId = std::convert::Infallible;

/// Which file a path leads to, where that can be told.
pub(crate) fn identity(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().as_ref().and_then(id_of)
}

/// Whether it is still that one. What can't be looked at has not moved.
pub(crate) fn is_still(path: &Path, file: &FileId) -> bool {
    match fs::metadata(path) {
        Ok(found) => id_of(&found).is_none_or(|id| id == *file),
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "the twin of the function below")]
fn id_of(found: &fs::Metadata) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn id_of(_: &fs::Metadata) -> Option<FileId> {
    None
}

fn warn_if_open_to_others(path: &Path, found: &fs::Metadata) {
    if let Some(mode) = open_to_others(found) {
        tracing::warn!(path = %path.display(), mode = format_args!("{mode:o}"), "other users may open the store: `chmod 600` keeps its keys and receipts private");
    }
}

/// The mode of a file that is not its owner's alone.
#[cfg(unix)]
pub(crate) fn open_to_others(found: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = found.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(crate) fn open_to_others(_: &fs::Metadata) -> Option<u32> {
    None
}

/// Locks and shared memory, which the log needs, hold within one machine only.
fn refuse_network(path: &Path) -> StoreResult<()> {
    match file_system_of(path) {
        Some(name) if is_network(&name) => {
            let reason = format!(
                "`{}` is on the network file system `{name}`, where locks do not hold: name a file on a local disk; \
                 `?network=allow` takes it where this machine alone ever opens it",
                path.display()
            );
            Err(StoreError::new(StoreErrorKind::Config, BACKEND, OP, reason))
        }
        _ => Ok(()),
    }
}

/// The name of the file system, where it can be told.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn file_system_of(path: &Path) -> Option<String> {
    // The magic number of `statfs` is the same for virtiofs and local FUSE file systems; the name is not. Where there
    // is no list of mounts, as in some sandboxes, nothing can be said.
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let real = path.ancestors().find_map(|known| fs::canonicalize(known).ok())?;
    file_system(&mounts, &real).map(str::to_owned)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn file_system_of(_: &Path) -> Option<String> {
    None
}

/// The type of the file system that `path` lies on, by the text of `/proc/self/mountinfo`.
#[cfg(any(target_os = "linux", target_os = "android", test))]
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mut nearest: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        // `id parent major:minor root mount-point options… - type source …`
        let Some((mount, rest)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(name)) = (mount.split(' ').nth(4), rest.split(' ').next()) else { continue };
        let point = unescaped(point);
        // Of two mounts at one point the later hides the earlier.
        if path.starts_with(&point) && nearest.is_none_or(|(length, _)| point.len() >= length) {
            nearest = Some((point.len(), name));
        }
    }
    nearest.map(|(_, name)| name)
}

/// Blanks, line ends and backslashes stand as three octal digits.
#[cfg(any(target_os = "linux", target_os = "android", test))]
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

pub(crate) fn is_network(name: &str) -> bool {
    const NETWORK: &[&str] = &[
        "9p",
        "acfs",
        "afs",
        "afpfs",
        "auristorfs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "prl_fs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
        "wekafs",
    ];
    const OVER_FUSE: &[&str] = &[
        "blobfuse",
        "blobfuse2",
        "ceph",
        "ceph-fuse",
        "cephfs",
        "curlftpfs",
        "gcsfuse",
        "geesefs",
        "glusterfs",
        "goofys",
        "grpcfuse",
        "hdfs",
        "juicefs",
        "mfs",
        "moosefs",
        "mount-s3",
        "osxfs",
        "rclone",
        "s3fs",
        "seaweedfs",
        "smbnetfs",
        "sshfs",
        "vmhgfs-fuse",
    ];
    match name.strip_prefix("fuse.") {
        Some(name) => OVER_FUSE.contains(&name),
        None => NETWORK.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:22 / /srv rw - nfs4 server:/srv rw
24 23 0:23 / /srv/fast rw - xfs /dev/vdb rw
25 22 0:24 / /my\\040disk rw master:1 - fuse.sshfs host: rw
26 22 0:25 / /again rw - virtiofs share rw
27 26 0:26 / /again rw - tmpfs tmpfs rw
a line of another kind
";

    fn at(path: &str) -> Option<&'static str> {
        file_system(MOUNTS, Path::new(path))
    }

    #[test]
    fn the_nearest_and_latest_mount_counts() {
        assert_eq!(at("/home/x.db"), Some("ext4"));
        assert_eq!(at("/srv/x.db"), Some("nfs4"));
        assert_eq!(at("/srvx/x.db"), Some("ext4"));
        assert_eq!(at("/srv/fast/x.db"), Some("xfs"));
        assert_eq!(at("/my disk/x.db"), Some("fuse.sshfs"));
        assert_eq!(at("/again/x.db"), Some("tmpfs"));
        assert_eq!(file_system("", Path::new("/x")), None);
    }

    #[test]
    fn network_file_systems_are_known() {
        for name in ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs", "ceph", "lustre", "afs"] {
            assert!(is_network(name), "{name}");
        }
        for name in
            ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.gocryptfs", "apfs", "f2fs"]
        {
            assert!(!is_network(name), "{name}");
        }
    }
}
