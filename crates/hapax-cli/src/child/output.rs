//! CMD's stdin, stdout and stderr: what it gets, what is kept, what is copied to our own.

use super::{Input, Output, exec::Stdio, terminal};
use bytes::Bytes;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, PipeReader, pipe},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::{Receiver, Sender},
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

/// Children of CMD may still write for this long after its end.
const AFTERWARDS: Duration = Duration::from_millis(200);
/// And not more than this, which is also more than a pipe holds by default: what CMD itself wrote is always read.
const AFTERWARDS_BYTES: usize = 1 << 20;
const CHUNK: usize = 64 << 10;

/// What was kept of a stream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Recorded {
    /// Its beginning, up to the limit.
    pub(crate) head: Vec<u8>,
    /// All that was written, in bytes.
    pub(crate) total: u64,
}

impl Recorded {
    /// Whether more was written than kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.total > u64::try_from(self.head.len()).unwrap_or(u64::MAX)
    }

    fn push(&mut self, chunk: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.head.len());
        self.head.extend(chunk.iter().take(room));
        self.total = self.total.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
    }
}

/// Ends when our own stdout and stderr have taken all of CMD's output, or are closed.
#[derive(Debug)]
pub(crate) struct Copied(Vec<oneshot::Receiver<()>>);

impl Copied {
    /// Waits as long as it takes: someone may be reading page by page.
    pub(crate) async fn wait(self) {
        for done in self.0 {
            // The sender says nothing, it goes away.
            let _ = done.await;
        }
    }
}

/// The streams of a command, our side.
pub(super) struct Streams {
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    ended: CancellationToken,
    /// A caller that goes away is the end, too.
    _on_drop: DropGuard,
    _stdin: Option<AbortOnDropHandle<()>>,
}

struct Stream {
    recorded: oneshot::Receiver<Recorded>,
    copied: Option<oneshot::Receiver<()>>,
}

impl Streams {
    /// The streams, and the descriptors for CMD. Those have to be closed on our side once CMD has them, or the streams
    /// never end.
    pub(super) fn open(stdin: Input, output: Output) -> io::Result<(Self, Stdio)> {
        let ended = CancellationToken::new();
        let (feeder, stdin) = match stdin {
            Input::Inherit => (None, io::stdin().as_fd().try_clone_to_owned()?),
            Input::Null => (None, File::open("/dev/null")?.into()),
            Input::Bytes(bytes) => {
                let (theirs, ours) = pipe()?;
                let feeder = tokio::spawn(feed(Sender::from_owned_fd(ours.into())?, bytes));
                (Some(AbortOnDropHandle::new(feeder)), theirs.into())
            }
        };
        let (stdout, for_stdout) = stream(io::stdout().as_fd(), "stdout", output, &ended)?;
        let (stderr, for_stderr) = stream(io::stderr().as_fd(), "stderr", output, &ended)?;
        let on_drop = ended.clone().drop_guard();
        let streams = Self { stdout, stderr, ended, _on_drop: on_drop, _stdin: feeder };
        Ok((streams, [stdin, for_stdout, for_stderr]))
    }

    /// To be called when CMD has ended.
    pub(super) async fn finish(mut self) -> (Recorded, Recorded, Copied) {
        self.ended.cancel();
        let mut copied = Vec::new();
        let stdout = finish(self.stdout.take(), &mut copied).await;
        let stderr = finish(self.stderr.take(), &mut copied).await;
        (stdout, stderr, Copied(copied))
    }
}

async fn finish(stream: Option<Stream>, copied: &mut Vec<oneshot::Receiver<()>>) -> Recorded {
    let Some(stream) = stream else { return Recorded::default() };
    copied.extend(stream.copied);
    stream.recorded.await.unwrap_or_default()
}

fn stream(
    ours: BorrowedFd<'_>,
    name: &'static str,
    output: Output,
    ended: &CancellationToken,
) -> io::Result<(Option<Stream>, OwnedFd)> {
    let (limit, copy) = match output {
        Output::Inherit => return Ok((None, ours.try_clone_to_owned()?)),
        Output::Copy { limit } => (limit, true),
        Output::Record { limit } => (limit, false),
    };
    let (from, theirs) = pipe()?;
    let (writer, copied) = match copy.then(|| Writer::new(ours, name)).transpose()? {
        Some((writer, copied)) => (Some(writer), Some(copied)),
        None => (None, None),
    };
    let recorded = record(from, writer, limit, ended.clone())?;
    Ok((Some(Stream { recorded, copied }), theirs.into()))
}

async fn feed(mut to: Sender, bytes: Bytes) {
    // CMD need not read it all.
    let _ = to.write_all(&bytes).await;
}

/// Reads a stream to its end: records, and hands on to the writer.
fn record(
    from: PipeReader,
    mut to: Option<Writer>,
    limit: usize,
    ended: CancellationToken,
) -> io::Result<oneshot::Receiver<Recorded>> {
    let mut from = Receiver::from_owned_fd(from.into())?;
    let (done, recorded) = oneshot::channel();
    tokio::spawn(async move {
        let mut kept = Recorded::default();
        let mut rest = Vec::new();
        // While CMD runs: not faster than our own stream takes it.
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            tokio::select! {
                biased;
                () = ended.cancelled() => break,
                read = from.read_buf(&mut chunk) => if !matches!(read, Ok(1..)) { break },
            }
            kept.push(&chunk, limit);
            let Some(writer) = to.as_mut().and_then(Writer::chunks) else { continue };
            let open = tokio::select! {
                biased;
                room = writer.reserve() => room.map(|room| room.send(chunk)).is_ok(),
                () = ended.cancelled() => {
                    rest = chunk;
                    break;
                }
            };
            if !open {
                // Our stream is closed. That ends the copy, not the work.
                to = None;
            }
        }
        // CMD has ended, or closed its side. What it wrote is in the pipe; the writer may be stuck and is not asked.
        let until = Instant::now() + AFTERWARDS;
        while rest.len() < AFTERWARDS_BYTES {
            let before = rest.len();
            rest.reserve(CHUNK);
            match timeout_at(until, from.read_buf(&mut rest)).await {
                Ok(Ok(1..)) => kept.push(rest.get(before..).unwrap_or_default(), limit),
                _ => break,
            }
        }
        drop(from);
        let _ = done.send(kept);
        if !rest.is_empty()
            && let Some(writer) = to.as_mut().and_then(Writer::chunks)
        {
            let _ = writer.send(rest).await;
        }
    });
    Ok(recorded)
}

/// Writes to one of our own streams. In a thread, since the write may block for ever, and since it blocks a signal: it
/// writes to a terminal whose foreground CMD has. The thread starts with the first chunk: much of what is run says nothing.
struct Writer {
    name: &'static str,
    idle: Option<(OwnedFd, oneshot::Sender<()>)>,
    chunks: Option<mpsc::Sender<Vec<u8>>>,
}

impl Writer {
    fn new(to: BorrowedFd<'_>, name: &'static str) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (done, copied) = oneshot::channel();
        Ok((Self { name, idle: Some((to.try_clone_to_owned()?, done)), chunks: None }, copied))
    }

    /// Where chunks go. `None`: there can be no thread, and nothing is copied.
    fn chunks(&mut self) -> Option<&mpsc::Sender<Vec<u8>>> {
        if let Some((to, done)) = self.idle.take() {
            let (sender, chunks) = mpsc::channel(1);
            let name = self.name;
            let spawned = thread::Builder::new().name(name.into()).spawn(move || {
                let _done: oneshot::Sender<()> = done;
                copy(chunks, &to, name);
            });
            match spawned {
                Ok(_) => self.chunks = Some(sender),
                Err(error) => not_copied(name, &error),
            }
        }
        self.chunks.as_ref()
    }
}

fn copy(mut chunks: mpsc::Receiver<Vec<u8>>, to: &OwnedFd, name: &str) {
    let _ = terminal::mask_ttou();
    while let Some(chunk) = chunks.blocking_recv() {
        if let Err(error) = write_all(to, &chunk) {
            if error != Errno::PIPE {
                not_copied(name, &error.into());
            }
            return;
        }
    }
}

fn not_copied(name: &str, error: &io::Error) {
    tracing::warn!(%error, "{name} of the command can no longer be copied; it goes on");
}

fn write_all(to: &OwnedFd, mut chunk: &[u8]) -> Result<(), Errno> {
    while !chunk.is_empty() {
        match rustix::io::write(to, chunk) {
            Ok(n) => chunk = chunk.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Another process has set our stream to non-blocking.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(to, PollFlags::OUT)], None)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_keeps_the_head_and_counts_the_rest() {
        let mut kept = Recorded::default();
        kept.push(b"abc", 4);
        assert!(!kept.is_cut());
        kept.push(b"def", 4);
        assert_eq!(kept, Recorded { head: b"abcd".to_vec(), total: 6 });
        assert!(kept.is_cut());
    }
}
