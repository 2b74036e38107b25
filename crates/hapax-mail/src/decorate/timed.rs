//! A time limit for each attempt of a transport.

use super::{
    Mail,
    around::{self, Around, transport_around},
};
use crate::{
    Message, RawMessage, Receipt,
    transport::{Commit, SendContext, Stack, Transport},
};
use futures_core::stream::BoxStream;
use std::time::Duration;
use tokio::time::Instant;

/// Gives each attempt up after a time, counted from when the transport is asked.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    inner: T,
    limit: Duration,
}

impl<T: Transport> Timed<T> {
    pub(crate) fn new(inner: T, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl<T: Transport> Around for Timed<T> {
    type Pass = ();

    async fn admit<'a>(&'a self, _: Mail<'a>, context: &'a mut SendContext) -> Result<(), Box<Receipt>> {
        let own = Instant::now().checked_add(self.limit);
        context.deadline = own.into_iter().chain(context.deadline).min();
        Ok(())
    }

    fn settle(&self, (): (), _: &Receipt) {}
}

transport_around!(Timed, |this| Stack { longest: Some(this.limit), ..this.inner.stack() });
