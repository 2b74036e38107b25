//! One line of a JSON Lines file.

mod line;
mod node;
mod print;

use super::{Fault, InvalidMessage, Message};
use sha2::{Digest, Sha256};
use std::{fmt, path::PathBuf};

/// A message as one line of a JSON Lines file gives it, checked, with the files of its attachments still to be read.
///
/// ```json
/// {"from":"Shop <shop@example.com>","to":["ada@example.com"],"subject":"Welcome","text":"Welcome aboard.",
///  "attachments":[{"filename":"terms.pdf","path":"terms.pdf"}],"idempotency_key":"welcome:1"}
/// ```
///
/// (on one line). `from`, `to`, `cc`, `bcc` and `reply_to` are one address or a list of them; further fields: `sender`,
/// `html`, `headers` (an object of texts or lists of texts), `attachments` (`filename`, `content_type`, `path` or
/// `base64`, `cid`), `in_reply_to`, `references`, `message_id`, `metadata` (an object of texts), `tags`, `send_at`
/// (RFC 3339), `tracking` (`opens`, `clicks`), `unsubscribe` (`url`, `mailto`). `null` is the same as leaving the field
/// out. Unknown fields and fields given twice are refused.
///
/// Two passes are meant: [`inspect`](Self::inspect) every line before the first is sent, [`load`](Self::load) each
/// when its turn comes, with the stamp of the first pass.
#[derive(Clone)]
pub struct MessageJson {
    message: Message,
    files: Vec<FileRef>,
    digest: [u8; 32],
}

/// An attachment whose bytes lie in a file.
#[derive(Clone)]
pub(super) struct FileRef {
    pub(super) index: usize,
    pub(super) path: PathBuf,
}

/// The longest line: what a message of the largest size needs, with its attachments as base64.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

impl MessageJson {
    pub(super) fn from_line(line: &str) -> Result<Self, InvalidMessage> {
        if line.len() > MAX_LINE_BYTES {
            let reason = format!("the line has {} bytes: {MAX_LINE_BYTES} are the most", line.len());
            return Err(Fault::new("", "message.size", reason).into());
        }
        let (builder, files, faults) = line::read(line)?;
        let message = builder.build_after(faults)?;
        Ok(Self { message, files, digest: Sha256::digest(line.as_bytes()).into() })
    }

    /// A line as bytes, which have to be UTF-8.
    pub fn from_bytes(line: &[u8]) -> Result<Self, InvalidMessage> {
        match std::str::from_utf8(line) {
            Ok(line) => Self::from_line(line),
            Err(e) => {
                let reason = format!("byte {} of the line is no valid UTF-8", e.valid_up_to() + 1);
                Err(Fault::new("", "message.encoding", reason).into())
            }
        }
    }

    /// The message. Attachments that lie in files are empty in it.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Whether files have to be read before it can be sent.
    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    pub(super) fn files(&self) -> &[FileRef] {
        &self.files
    }

    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    pub(super) fn into_parts(self) -> (Message, Vec<FileRef>) {
        (self.message, self.files)
    }
}

impl fmt::Debug for MessageJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageJson")
            .field("message", &self.message)
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// `Content-Type` by the ending of a name, for attachments that do not say. Only what every reader knows.
fn type_by_ending(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "csv" => "text/csv",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "gif" => "image/gif",
        "html" | "htm" => "text/html",
        "ics" => "text/calendar",
        "jpg" | "jpeg" => "image/jpeg",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain",
        "webp" => "image/webp",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "xml" => "application/xml",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}
