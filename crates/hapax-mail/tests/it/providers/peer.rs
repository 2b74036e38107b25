//! A server that does what it is told: it answers, cuts or stalls at any moment of a request.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

/// What becomes of one request.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// It is read whole; the connection stays.
    Answer(Vec<u8>),
    /// It is read whole; the connection closes after the answer.
    AnswerAndClose(Vec<u8>),
    /// The connection is reset after so many bytes.
    ResetAfter(usize),
    /// It is read whole; the connection closes, or is reset.
    CloseUnanswered,
    ResetUnanswered,
    /// It is read whole, and never answered.
    Stall,
    /// So many bytes of it are read, and no more.
    StallAfter(usize),
}

impl Play {
    pub(crate) fn answer(status: u16, rest: &str) -> Self {
        Self::Answer(format!("HTTP/1.1 {status} Said\r\n{rest}").into_bytes())
    }
}

/// The rest of an answer in JSON.
pub(crate) fn json(body: &str) -> String {
    json_with(&[], body)
}

pub(crate) fn json_with(headers: &[(&str, &str)], body: &str) -> String {
    let headers =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    format!("content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

#[derive(Default)]
struct Seen {
    plays: VecDeque<Play>,
    requests: Vec<Vec<u8>>,
    connections: usize,
}

pub(crate) struct Peer {
    port: u16,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    /// What comes after the last play is accepted without an answer.
    pub(crate) fn start(plays: impl IntoIterator<Item = Play>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // So that what is not read is not buffered either.
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Seen { plays: plays.into_iter().collect(), ..Seen::default() }));
        let task = tokio::spawn(serve(listener, Arc::clone(&seen)));
        Self { port, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The requests that came whole, as they came.
    pub(crate) fn requests(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.requests.iter().map(|bytes| String::from_utf8(bytes.clone()).unwrap()).collect()
    }

    /// The bodies of these.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let body = |request: String| request.split_once("\r\n\r\n").unwrap().1.to_owned();
        self.requests().into_iter().map(body).collect()
    }

    /// How many of the requests that came may have been delivered, by what was played for each.
    pub(crate) fn delivered(&self, plays: &[(Play, bool)]) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let whole =
            plays.iter().filter(|(play, _)| !matches!(play, Play::ResetAfter(_) | Play::StallAfter(_)));
        whole.take(seen.requests.len()).filter(|(_, delivered)| *delivered).count()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).connections
    }
}

async fn serve(listener: TcpListener, seen: Arc<Mutex<Seen>>) {
    let mut all = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        seen.lock().unwrap_or_else(PoisonError::into_inner).connections += 1;
        all.spawn(connection(stream, Arc::clone(&seen)));
    }
}

async fn connection(mut stream: TcpStream, seen: Arc<Mutex<Seen>>) -> Option<()> {
    loop {
        let next = {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.plays.front().cloned().unwrap_or(Play::Stall)
        };
        let take = || seen.lock().unwrap_or_else(PoisonError::into_inner).plays.pop_front();
        match next {
            Play::ResetAfter(bytes) => {
                read_some(&mut stream, bytes).await?;
                take();
                // Closed with bytes unread, it is reset.
                return None;
            }
            Play::StallAfter(bytes) => {
                read_some(&mut stream, bytes).await?;
                take();
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        let request = read_request(&mut stream).await?;
        let play = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.requests.push(request);
            seen.plays.pop_front().unwrap_or(Play::Stall)
        };
        match play {
            Play::Answer(bytes) => stream.write_all(&bytes).await.ok()?,
            Play::AnswerAndClose(bytes) => {
                stream.write_all(&bytes).await.ok()?;
                return None;
            }
            Play::ResetUnanswered => {
                reset(&stream);
                return None;
            }
            Play::Stall => std::future::pending().await,
            _ => return None,
        }
    }
}

fn reset(stream: &TcpStream) {
    let socket = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
    socket.unwrap();
}

async fn read_some(stream: &mut TcpStream, bytes: usize) -> Option<()> {
    let mut some = vec![0; bytes];
    stream.read_exact(&mut some).await.ok()?;
    Some(())
}

/// One request, as far as its head says.
async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let whole = end + 4 + length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
            if bytes.len() >= whole {
                assert_eq!(bytes.len(), whole, "more than one request at a time");
                return Some(bytes);
            }
        }
        let mut more = vec![0; 16 * 1024];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&more[..n]),
        }
    }
}
