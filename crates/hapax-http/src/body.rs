//! A body that was read, or passes through, or both.

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

pin_project_lite::pin_project! {
    /// What a layer hands on, to the handler and to the client: what it has read, and then the rest of a body `B` that
    /// it has not. Data and trailers come as they came.
    pub struct Body<B: HttpBody> {
        read: VecDeque<Bytes>,
        #[pin]
        rest: Rest<B>,
    }
}

pin_project_lite::pin_project! {
    #[project = RestProj]
    enum Rest<B: HttpBody> {
        Ended { trailers: Option<HeaderMap>, error: Option<B::Error> },
        Plain { #[pin] body: B },
        /// It was polled before, so it cannot be moved any more.
        Begun { body: Pin<Box<B>> },
    }
}

impl<B: HttpBody> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

impl<B: HttpBody> Body<B> {
    /// All of a body.
    pub(crate) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        let read = if data.is_empty() { VecDeque::new() } else { VecDeque::from([data]) };
        Self { read, rest: Rest::Ended { trailers, error: None } }
    }

    /// One that nobody has looked into.
    pub(crate) fn passing(body: B) -> Self {
        Self { read: VecDeque::new(), rest: Rest::Plain { body } }
    }
}

impl<B: HttpBody> HttpBody for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.project();
        if let Some(data) = this.read.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let frame = match this.rest.project() {
            RestProj::Plain { body } => std::task::ready!(body.poll_frame(cx)),
            RestProj::Begun { body } => std::task::ready!(body.as_mut().poll_frame(cx)),
            RestProj::Ended { trailers, error } => {
                let error = error.take().map(Err);
                return Poll::Ready(
                    error.or_else(|| trailers.take().map(|fields| Ok(Frame::trailers(fields)))),
                );
            }
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(bytes_of))))
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty()
            && match &self.rest {
                Rest::Ended { trailers, error } => trailers.is_none() && error.is_none(),
                Rest::Plain { body } => body.is_end_stream(),
                Rest::Begun { body } => body.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.iter().map(|data| data.len() as u64).sum::<u64>();
        let rest = match &self.rest {
            // A body that breaks off has no size, and one with a size has no trailers on the wire of HTTP/1.1.
            Rest::Ended { error: Some(_), .. } | Rest::Ended { trailers: Some(_), .. } => SizeHint::default(),
            Rest::Ended { .. } => SizeHint::with_exact(0),
            Rest::Plain { body } => body.size_hint(),
            Rest::Begun { body } => body.size_hint(),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
            hint.set_upper(upper);
        }
        hint
    }
}

fn bytes_of(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

/// What came of reading a body.
pub(crate) enum Read<B: HttpBody> {
    Whole {
        data: Bytes,
        trailers: Option<HeaderMap>,
    },
    /// It has more bytes than were asked for: all of it, as it was.
    TooLarge(Body<B>),
    /// It broke off: what there was, and the error.
    Failed(Body<B>),
}

/// Reads a body of `most` bytes at most.
pub(crate) async fn read<B: HttpBody>(body: B, most: usize) -> Read<B> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    if body.size_hint().lower() > limit {
        return Read::TooLarge(Body::passing(body));
    }
    let mut body = Box::pin(body);
    let (mut read, mut size, mut trailers) = (VecDeque::new(), 0_usize, None);
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                let rest = Rest::Ended { trailers, error: Some(error) };
                return Read::Failed(Body { read, rest });
            }
        };
        match frame.map_data(bytes_of).into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => {
                size = size.saturating_add(data.len());
                read.push_back(data);
                if size > most {
                    return Read::TooLarge(Body { read, rest: Rest::Begun { body } });
                }
            }
            Err(other) => trailers = other.into_trailers().ok().or(trailers),
        }
    }
    let data = if read.len() > 1 {
        let mut joined = Vec::with_capacity(size);
        for data in &read {
            joined.extend_from_slice(data);
        }
        joined.into()
    } else {
        read.pop_front().unwrap_or_default()
    };
    Read::Whole { data, trailers }
}
