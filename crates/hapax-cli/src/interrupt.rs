//! Being asked to stop, in order.

use crate::child::ignored;
use futures_util::FutureExt;
use std::{future::poll_fn, io, task::Poll};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From here to the end of the process SIGINT, SIGTERM and SIGHUP no longer end it.
///
/// Those that were ignored when the process began stay ignored, for it and for what it starts: that is what `nohup`, and
/// a shell that starts a job with `&`, want.
#[derive(Debug)]
pub(crate) struct Interrupts(Vec<(i32, Signal)>);

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let heard = kinds.into_iter().filter(|kind| !ignored.contains(kind.as_raw_value()));
        heard.map(|kind| Ok((kind.as_raw_value(), signal(kind)?))).collect::<io::Result<_>>().map(Self)
    }

    /// The number of the next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> i32 {
        poll_fn(|cx| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// One that has come already.
    pub(crate) fn arrived(&mut self) -> Option<i32> {
        self.next().now_or_never()
    }

    /// Forgets those that have come: another has answered them.
    pub(crate) fn forget(&mut self) {
        while self.arrived().is_some() {}
    }
}
