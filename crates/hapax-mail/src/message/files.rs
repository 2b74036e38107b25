//! Attachments that lie in files: looked at before the first message is sent, read when their message is.

use super::{Fault, InvalidMessage, Message, MessageJson, check, json::FileRef};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::{
    fs::{File, Metadata},
    io::Read,
    path::Path,
};

/// What a line and the files of its attachments looked like: their text, sizes and times. Sixteen bytes, so that those
/// of a long file can be kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stamp([u8; 16]);

impl Stamp {
    /// The bytes, to be kept elsewhere.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// A stamp that was kept.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn of(digest: &[u8; 32], files: &[Metadata]) -> Self {
        let mut hash = Sha256::new();
        hash.update(digest);
        for file in files {
            hash.update(file.len().to_be_bytes());
            hash.update(times(file));
        }
        let whole: [u8; 32] = hash.finalize().into();
        let mut short = [0; 16];
        short.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        Self(short)
    }
}

/// When a file last changed. Where the system tells, also which file it is and when anything about it changed, which no
/// program can set back.
fn times(file: &Metadata) -> Vec<u8> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let numbers = [file.dev(), file.ino()].map(u64::to_be_bytes);
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()].map(i64::to_be_bytes);
        [numbers.concat(), times.concat()].concat()
    }
    #[cfg(not(unix))]
    {
        let modified = file.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        modified.map_or(Vec::new(), |t| t.as_nanos().to_be_bytes().to_vec())
    }
}

impl MessageJson {
    /// Looks at the files of the attachments without reading them: that each is there, a regular file, readable, and
    /// that all fit. Relative paths start at `folder`.
    pub fn inspect(&self, folder: &Path) -> Result<Stamp, InvalidMessage> {
        let (opened, mut faults) = open_all(self.files(), folder);
        let message = self.message();
        let sizes = message
            .attachments()
            .iter()
            .map(|a| a.bytes().len() as u64)
            .chain(opened.iter().map(|o| o.1.len()));
        check::content_size(message.text(), message.html(), sizes, &mut faults);
        InvalidMessage::unless_empty(faults)?;
        let seen: Vec<Metadata> = opened.into_iter().map(|(_, metadata)| metadata).collect();
        Ok(Stamp::of(self.digest(), &seen))
    }

    /// Reads the files. With the stamp of an earlier [`inspect`](Self::inspect), a line or file that changed since is
    /// refused: `message.changed`.
    pub fn load(self, folder: &Path, expected: Option<Stamp>) -> Result<Message, InvalidMessage> {
        let (opened, mut faults) = open_all(self.files(), folder);
        InvalidMessage::unless_empty(std::mem::take(&mut faults))?;
        let (mut handles, seen): (Vec<File>, Vec<Metadata>) = opened.into_iter().unzip();
        let stamp = Stamp::of(self.digest(), &seen);
        if expected.is_some_and(|expected| expected != stamp) {
            return Err(changed("").into());
        }
        let (message, files) = self.into_parts();
        if files.is_empty() {
            return Ok(message);
        }
        let mut attachments = message.attachments().to_vec();
        for ((file, handle), before) in files.iter().zip(&mut handles).zip(&seen) {
            match read(handle, before) {
                Ok(Some(bytes)) => {
                    if let Some(attachment) = attachments.get_mut(file.index) {
                        attachment.bytes = bytes;
                        attachment.check_bytes(file.index, &mut faults);
                    }
                }
                Ok(None) => faults.push(changed(format!("attachments[{}].path", file.index))),
                Err(e) => faults.push(unreadable(file.index, &e)),
            }
        }
        check::content_size(
            message.text(),
            message.html(),
            attachments.iter().map(|a| a.bytes.len() as u64),
            &mut faults,
        );
        InvalidMessage::unless_empty(faults)?;
        Ok(message.with_attachments(attachments))
    }
}

fn changed(field: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::new(field, "message.changed", "it changed between the check and the send")
}

fn unreadable(index: usize, e: &std::io::Error) -> Fault {
    let reason = match e.kind() {
        std::io::ErrorKind::NotFound => "the file does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "the file may not be read".to_owned(),
        _ => format!("the file cannot be read: {e}"),
    };
    Fault::new(format!("attachments[{index}].path"), "message.attachment_unreadable", reason)
}

fn open_all(files: &[FileRef], folder: &Path) -> (Vec<(File, Metadata)>, Vec<Fault>) {
    let mut opened = Vec::new();
    let mut faults = Vec::new();
    for file in files {
        match open(&folder.join(&file.path)) {
            Ok(Ok(found)) => opened.push(found),
            Ok(Err(reason)) => {
                let field = format!("attachments[{}].path", file.index);
                faults.push(Fault::new(field, "message.attachment_unreadable", reason));
            }
            Err(e) => faults.push(unreadable(file.index, &e)),
        }
    }
    (opened, faults)
}

fn open(path: &Path) -> std::io::Result<Result<(File, Metadata), &'static str>> {
    // Asked before it is opened: opening a pipe waits for its writer.
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Ok(Err("it is a directory"));
    }
    if !metadata.is_file() {
        return Ok(Err("it is no regular file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok(Ok((file, metadata)))
}

/// The whole file; nothing when it changed while it was read.
fn read(file: &mut File, before: &Metadata) -> std::io::Result<Option<Bytes>> {
    let limit = check::MAX_CONTENT_BYTES as u64 + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(before.len().min(limit)).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes)?;
    let after = file.metadata()?;
    let same = after.len() == before.len() && times(&after) == times(before);
    Ok(same.then(|| Bytes::from(bytes)))
}
