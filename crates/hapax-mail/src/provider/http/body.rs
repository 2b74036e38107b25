//! The body of a request, piece by piece.

use super::OnCommit;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

/// Small enough that an attachment is well on its way before its last piece is asked for.
const PIECE: usize = 16 * 1024;

/// Tells, before its last piece is handed out, that the request may be whole from then on.
pub(super) struct Pieces {
    rest: Bytes,
    over: bool,
    on_commit: OnCommit,
    committed: Committed,
}

/// Whether the last piece has left.
#[derive(Clone, Default)]
pub(super) struct Committed(Arc<AtomicBool>);

impl Committed {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Pieces {
    pub(super) fn new(body: Bytes, on_commit: OnCommit) -> (Self, Committed) {
        let committed = Committed::default();
        let over = body.is_empty();
        (Self { rest: body, over, on_commit, committed: committed.clone() }, committed)
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        if this.rest.is_empty() {
            this.over = true;
            this.committed.0.store(true, Ordering::Release);
            (this.on_commit)();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
