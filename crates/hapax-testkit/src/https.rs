//! An HTTPS server that gives the answers it was told, with the certificate of [`smtp::authority`](crate::smtp::authority).

use crate::smtp::acceptor;
use std::{
    collections::VecDeque,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Builder,
};

/// A server on all addresses of this machine, on a thread of its own. It ends with the process.
#[derive(Debug)]
pub struct Https {
    port: u16,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    answers: VecDeque<String>,
    requests: Vec<String>,
}

impl Https {
    /// Answers each request with the next of these, head and body, and closes when there is none left.
    pub fn start(answers: impl IntoIterator<Item = String>) -> Self {
        let told = Arc::new(Mutex::new(Told { answers: answers.into_iter().collect(), ..Told::default() }));
        let (tell, hear) = mpsc::channel();
        let shared = Arc::clone(&told);
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
                tell.send(listener.local_addr().expect("a port").port()).expect("who started it");
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&shared)));
                }
            });
        });
        Self { port: hear.recv().expect("the server starts"), told }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The requests that came whole.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.told).requests.clone()
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that does not go on after the handshake has said what it thinks of the certificate.
async fn serve(stream: TcpStream, told: Arc<Mutex<Told>>) -> Option<()> {
    let mut stream = acceptor().accept(stream).await.ok()?;
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            body.len() >= length.map_or(0, |length| length.parse().expect("a length"))
        });
        if whole {
            let answer = {
                let mut told = lock(&told);
                told.requests.push(text);
                told.answers.pop_front()
            };
            stream.write_all(answer?.as_bytes()).await.ok()?;
            stream.flush().await.ok()?;
            bytes.clear();
        } else if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
