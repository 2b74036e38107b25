//! What leaves in one write, and what is known of a message when its connection takes only a part of it.

use super::{Within, large, message, send, told};
use hapax_mail::{
    Message, Receipt, SendContext, Smtp, SmtpOptions, Transport,
    smtp::{Dial, Io, Security},
};
use hapax_testkit::smtp::Sink;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a client wrote, and whether its message counted as gone when it began to.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<(String, bool)>>>);

impl Log {
    /// Whether the message counted as gone, and the text, of each write from the message on.
    fn of_the_message(&self) -> Vec<(String, bool)> {
        let log = self.0.lock().unwrap();
        let begin = log.iter().position(|(text, _)| text.ends_with("DATA\r\n")).unwrap();
        log[begin + 1..].iter().filter(|(text, _)| text != "QUIT\r\n").cloned().collect()
    }
}

/// A connection that takes so many bytes after DATA, then breaks; all that it was given is in the log.
struct Narrow {
    io: Box<dyn Io>,
    log: Log,
    committed: Arc<AtomicBool>,
    left: Option<usize>,
    in_message: bool,
}

impl AsyncRead for Narrow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Narrow {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let entry = (String::from_utf8_lossy(bytes).into_owned(), self.committed.load(Ordering::Acquire));
        self.log.0.lock().unwrap().push(entry);
        let room = match self.left {
            Some(left) if self.in_message => left.min(bytes.len()),
            _ => bytes.len(),
        };
        if room == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = std::task::ready!(Pin::new(&mut *self.io).poll_write(cx, &bytes[..room]))?;
        if self.in_message {
            self.left = self.left.map(|left| left - written);
        }
        self.in_message |= bytes.ends_with(b"DATA\r\n");
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_shutdown(cx)
    }
}

#[derive(Clone, Debug)]
struct Through {
    within: Within,
    log: Log,
    committed: Arc<AtomicBool>,
    takes: Option<usize>,
}

#[hapax_core::async_trait]
impl Dial for Through {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Io>> {
        let io = self.within.dial(host, port).await?;
        let (log, committed) = (self.log.clone(), Arc::clone(&self.committed));
        Ok(Box::new(Narrow { io, log, committed, left: self.takes, in_message: false }))
    }
}

/// Sends over a connection that takes so much of the message.
async fn sent(sink: &Sink, message: &Message, takes: Option<usize>) -> (Receipt, Log) {
    let (context, log) = (SendContext::default(), Log::default());
    let dial =
        Through { within: Within(sink.clone()), log: log.clone(), committed: context.commit_flag(), takes };
    let options = SmtpOptions::new("mail.example").security(Security::None).dial(dial);
    (Smtp::with_options(options).unwrap().send(message, &context).await, log)
}

#[tokio::test(start_paused = true)]
async fn a_small_message_leaves_with_its_dot_and_counts_as_gone_before() {
    let sink = Sink::new();
    let (receipt, log) = sent(&sink, &message(), None).await;
    assert_eq!((told(&receipt).as_str(), sink.deliveries().len()), ("accepted", 1));
    let writes = log.of_the_message();
    assert_eq!(writes.len(), 1);
    assert!(writes[0].0.ends_with("\r\n.\r\n") && writes[0].1);
}

#[tokio::test(start_paused = true)]
async fn a_large_message_counts_as_gone_only_before_its_dot() {
    let sink = Sink::new();
    let (receipt, log) = sent(&sink, &large(), None).await;
    assert_eq!((told(&receipt).as_str(), sink.deliveries().len()), ("accepted", 1));
    let mut writes = log.of_the_message();
    assert_eq!(writes.pop(), Some((".\r\n".to_owned(), true)));
    assert!(writes.len() > 1 && writes.iter().all(|(_, is_gone)| !is_gone));
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_dot_was_not_taken_is_certainly_not_sent() {
    let sink = Sink::new();
    let (_, log) = sent(&sink, &message(), None).await;
    let bytes = log.of_the_message()[0].0.len();
    let dot = bytes - ".\r\n".len();
    for takes in [0, 1, dot / 2, dot - 1, dot, dot + 1, bytes - 1] {
        let sink = Sink::new();
        let (receipt, _) = sent(&sink, &message(), Some(takes)).await;
        let expected = if takes <= dot {
            "failed network smtp.connection_lost body"
        } else {
            "unknown network smtp.dot_write dot"
        };
        assert_eq!(told(&receipt), expected, "{takes} of {bytes}");
        assert_eq!(sink.deliveries().len(), 0);
    }
}

/// What was said of one message stands in the way of no other.
#[tokio::test(start_paused = true)]
async fn dots_are_doubled_in_small_messages_too() {
    let sink = Sink::new();
    let message = super::plain().text(".\n..\nx\n.").build().unwrap();
    for _ in 0..2 {
        assert_eq!(told(&send(&super::smtp(&sink), &message).await), "accepted");
    }
    let deliveries = sink.deliveries();
    assert_eq!(deliveries.len(), 2);
    assert!(deliveries.iter().all(|one| one.bytes.ends_with(b"\r\n.\r\n..\r\nx\r\n.\r\n")));
}
