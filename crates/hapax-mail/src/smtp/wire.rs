//! Bytes to the server, replies from it.

use super::{
    dial::Io,
    reply::{MAX_REPLY, Parsed, Reply, parse},
};
use futures_util::task::noop_waker_ref;
use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::ReadBuf;

/// A connection, and what has come over it and was not yet looked at.
pub(super) struct Wire {
    io: Box<dyn Io>,
    input: Vec<u8>,
    /// The other side will say no more.
    ended: bool,
    /// How much of the last write was taken.
    taken: usize,
}

/// No reply can be had any more.
#[derive(Debug)]
pub(super) enum Broken {
    /// The other side closed the connection.
    Ended,
    Io(io::Error),
    /// What came is no reply.
    Garbled,
}

/// How a write ended.
#[derive(Debug)]
pub(super) enum Written {
    All,
    /// Something came meanwhile, if it was only the end.
    Interrupted,
    Failed(io::Error),
}

impl Wire {
    pub(super) fn new(io: Box<dyn Io>) -> Self {
        Self { io, input: Vec::new(), ended: false, taken: 0 }
    }

    /// The connection itself, where nothing that was read from it would be lost.
    pub(super) fn into_io(self) -> Option<Box<dyn Io>> {
        self.input.is_empty().then_some(self.io)
    }

    /// Whether a reply, or a part of one, is there already.
    pub(super) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// The next reply.
    pub(super) async fn reply(&mut self) -> Result<Reply, Broken> {
        loop {
            match parse(&self.input) {
                Parsed::Whole(reply, used) => {
                    self.input.drain(..used);
                    return Ok(reply);
                }
                Parsed::Garbled => return Err(Broken::Garbled),
                Parsed::Incomplete if self.ended => return Err(Broken::Ended),
                Parsed::Incomplete => {}
            }
            poll_fn(|cx| self.poll_fill(cx)).await.map_err(Broken::Io)?;
        }
    }

    /// Writes all of it, and keeps what comes meanwhile.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), io::Error> {
        match self.write_beside(bytes, false).await {
            Written::Failed(error) => Err(error),
            Written::All | Written::Interrupted => Ok(()),
        }
    }

    /// How much of the last write can have left, however it ended.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Writes until something comes, which before the end of a message can only be bad news.
    pub(super) async fn write_watching(&mut self, bytes: &[u8]) -> Written {
        self.write_beside(bytes, true).await
    }

    async fn write_beside(&mut self, mut bytes: &[u8], watching: bool) -> Written {
        self.taken = 0;
        poll_fn(|cx| {
            loop {
                while !self.ended && self.input.len() <= MAX_REPLY {
                    match self.poll_fill(cx) {
                        Poll::Ready(Ok(())) => {}
                        // What was sent before may still be taken: the write tells.
                        Poll::Ready(Err(_)) => self.ended = true,
                        Poll::Pending => break,
                    }
                }
                if watching && (self.ended || self.has_input()) {
                    return Poll::Ready(Written::Interrupted);
                }
                let io = Pin::new(&mut *self.io);
                if bytes.is_empty() {
                    return io.poll_flush(cx).map(|flushed| match flushed {
                        Ok(()) => Written::All,
                        Err(error) => Written::Failed(error),
                    });
                }
                match io.poll_write(cx, bytes) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Written::Failed(io::ErrorKind::WriteZero.into()));
                    }
                    Poll::Ready(Ok(written)) => {
                        self.taken += written;
                        bytes = bytes.get(written..).unwrap_or_default();
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Written::Failed(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Nothing has come that nobody asked for, not even the end.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(noop_waker_ref());
        self.input.is_empty() && !self.ended && self.poll_fill(&mut cx).is_pending()
    }

    /// Says good-bye, if that can be done at once.
    pub(super) fn quit(&mut self) {
        let mut cx = Context::from_waker(noop_waker_ref());
        let io = &mut *self.io;
        if let Poll::Ready(Ok(_)) = Pin::new(&mut *io).poll_write(&mut cx, b"QUIT\r\n") {
            let _ = Pin::new(io).poll_flush(&mut cx);
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut room = [const { MaybeUninit::uninit() }; 2048];
        let mut read = ReadBuf::uninit(&mut room);
        let polled = Pin::new(&mut *self.io).poll_read(cx, &mut read);
        if let Poll::Ready(Ok(())) = polled {
            self.ended |= read.filled().is_empty();
            self.input.extend_from_slice(read.filled());
        }
        polled
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire")
            .field("input", &self.input.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
