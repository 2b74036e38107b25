//! The blocking part: one mail to its place.

use super::sync::GroupSync;
use crate::{Failure, MailCategory, transport::SendContext};
use hapax_core::{Timestamp, Token};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{Duration, SystemTime},
};

/// What hidden files are called: nobody else's are removed.
const HIDDEN: &str = ".hapax-";
const TEMPORARY: &str = ".tmp";
/// No send takes so long.
const LEFT_OVER: Duration = Duration::from_hours(1);

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    sync: GroupSync,
    swept: AtomicBool,
}

/// What became of a mail.
#[derive(Debug)]
pub(super) enum Placed {
    /// It is in the folder.
    New,
    /// It was in the folder.
    There,
    /// It is in the folder, and may be gone after a power cut.
    NotSynced(Failure),
    /// It is not in the folder.
    Failed(Failure),
    /// It is not in the folder: its send was dropped.
    Stopped,
}

/// Decides between a send that is dropped and its task, which goes on: either nothing is linked, or the context is
/// committed by the time the drop is over.
#[derive(Debug)]
pub(super) struct Turn {
    state: Arc<AtomicU8>,
    context: SendContext,
}

const OPEN: u8 = 0;
const COMMITTED: u8 = 1;
const STOPPED: u8 = 2;

impl Turn {
    pub(super) fn new(context: SendContext) -> (Self, TurnGuard) {
        let state = Arc::new(AtomicU8::new(OPEN));
        let guard = TurnGuard { state: Arc::clone(&state), context: context.clone(), armed: true };
        (Self { state, context }, guard)
    }

    /// Whether the send goes on; from then on it may not be stopped any more.
    fn commit(&self) -> bool {
        match self.state.compare_exchange(OPEN, COMMITTED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => self.context.commit(),
            Err(state) => return state == COMMITTED,
        }
        true
    }

    fn is_stopped(&self) -> bool {
        self.state.load(Ordering::SeqCst) == STOPPED
    }
}

/// The sender's side of a [`Turn`].
#[derive(Debug)]
pub(super) struct TurnGuard {
    state: Arc<AtomicU8>,
    context: SendContext,
    armed: bool,
}

impl TurnGuard {
    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        let stopped = self.armed
            && self.state.compare_exchange(OPEN, STOPPED, Ordering::SeqCst, Ordering::SeqCst)
                == Err(COMMITTED);
        if stopped {
            // The task may not have come to say so yet.
            self.context.commit();
        }
    }
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, sync: GroupSync::default(), swept: AtomicBool::new(false) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a mail and gives it its name, unless the name is there.
    pub(super) fn place(&self, name: &str, bytes: &[u8], now: Timestamp, turn: &Turn) -> Placed {
        if turn.is_stopped() {
            return Placed::Stopped;
        }
        if let Err(failure) = self.prepare(now) {
            return Placed::Failed(failure);
        }
        let place = self.path.join(name);
        // Mostly it is not there: this look only spares the writing, and decides nothing.
        if place.symlink_metadata().is_ok() {
            return self.found(&place, turn);
        }
        let hidden = match Hidden::write(&self.path, bytes) {
            Ok(hidden) => hidden,
            Err(failure) => return Placed::Failed(failure),
        };
        if !turn.commit() {
            return Placed::Stopped;
        }
        match fs::hard_link(&hidden.path, &place) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                drop(hidden);
                return self.found(&place, turn);
            }
            // Over a network the answer can be lost.
            Err(error) if !same_file(&hidden.path, &place) => return Placed::Failed(link_failure(&error)),
            Ok(()) | Err(_) => {}
        }
        drop(hidden);
        self.synced(Placed::New)
    }

    /// Does what a mail needs, with a file that is gone at the end.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), Failure> {
        self.prepare(now)?;
        let (one, name) = (Hidden::write(&self.path, b"")?, Hidden::name(&self.path)?);
        fs::hard_link(&one.path, &name).map_err(|error| link_failure(&error))?;
        drop(Hidden { path: name });
        Ok(())
    }

    /// The name is there. Another process may be about to sync it, and may die before.
    fn found(&self, place: &Path, turn: &Turn) -> Placed {
        match place.symlink_metadata() {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => {
                let failure = Failure::new(MailCategory::Configuration, "file.name_taken")
                    .with_detail("something that is no file has the name of the mail");
                return Placed::Failed(failure);
            }
            Err(error) => return Placed::Failed(failure_of(&error)),
        }
        if !turn.commit() {
            return Placed::Stopped;
        }
        self.synced(Placed::There)
    }

    fn synced(&self, placed: Placed) -> Placed {
        match self.sync.sync(|| sync_folder(&self.path)) {
            Ok(()) => placed,
            Err(error) => {
                let detail =
                    format!("the mail is in the folder, which could not be synced: {}", error.kind());
                Placed::NotSynced(Failure::new(MailCategory::Service, "file.not_synced").with_detail(detail))
            }
        }
    }

    fn prepare(&self, now: Timestamp) -> Result<(), Failure> {
        if self.swept.load(Ordering::Acquire) && self.path.is_dir() {
            return Ok(());
        }
        match fs::create_dir_all(&self.path) {
            Ok(()) => {}
            Err(error) => {
                let in_the_way = matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory);
                return Err(if in_the_way { not_a_folder() } else { failure_of(&error) });
            }
        }
        if !self.swept.swap(true, Ordering::AcqRel) {
            self.sweep(now);
        }
        Ok(())
    }

    /// Removes what dead processes left. Best effort: it is in nobody's way.
    fn sweep(&self, now: Timestamp) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let ours =
                name.to_str().is_some_and(|name| name.starts_with(HIDDEN) && name.ends_with(TEMPORARY));
            let changed =
                entry.metadata().ok().filter(fs::Metadata::is_file).and_then(|meta| meta.modified().ok());
            if ours && changed.is_some_and(|at| now.since(timestamp(at)) > LEFT_OVER) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// A file that has no name yet; it is removed when it has one, or is given up.
struct Hidden {
    path: PathBuf,
}

impl Hidden {
    /// A name that nothing has.
    fn name(folder: &Path) -> Result<PathBuf, Failure> {
        let token = Token::random().map_err(|error| super::no_chance(&error))?;
        Ok(folder.join(format!("{HIDDEN}{}{TEMPORARY}", hex::encode(token.as_bytes()))))
    }

    fn write(folder: &Path, bytes: &[u8]) -> Result<Self, Failure> {
        let path = Self::name(folder)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(|error| failure_of(&error))?;
        let hidden = Self { path };
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| failure_of(&error))?;
        Ok(hidden)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // What cannot be removed now is removed by a later process.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
fn same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    id(one).is_some_and(|one| id(other) == Some(one))
}

#[cfg(not(unix))]
fn same_file(_: &Path, _: &Path) -> bool {
    false
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // This file system keeps folders as it keeps them.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        ended => ended,
    }
}

/// A folder cannot be opened here.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp::default().after(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn not_a_folder() -> Failure {
    Failure::new(MailCategory::Configuration, "file.not_a_folder")
        .with_detail("the path of the folder is something else")
}

fn link_failure(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::Unsupported | ErrorKind::PermissionDenied => {
            Failure::new(MailCategory::Configuration, "file.unsupported")
                .with_detail("the file system of the folder gives a file no second name")
        }
        _ => failure_of(error),
    }
}

/// Nothing is in the folder: which of the reasons it is.
fn failure_of(error: &io::Error) -> Failure {
    let (category, code, detail) = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            (MailCategory::Service, "file.disk_full", "the disk is full, or the quota used up")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            (MailCategory::Configuration, "file.unwritable", "the folder may not be written")
        }
        ErrorKind::NotADirectory => return not_a_folder(),
        kind => {
            let detail = format!("the system answered: {kind}");
            return Failure::new(MailCategory::Network, "file.io").with_detail(detail);
        }
    };
    Failure::new(category, code).with_detail(detail)
}
