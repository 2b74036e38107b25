//! Requests and answers as they stand on the wire of HTTP/1.1.

use crate::support::within;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A connection, and what was read of it.
pub(crate) struct Client {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), seen: Vec::new() }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        within(self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    /// Reads until the text is there.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            let mut buffer = [0; 4096];
            let n = within(self.stream.read(&mut buffer)).await.unwrap();
            assert!(n > 0, "closed before {text:?}: {}", String::from_utf8_lossy(&self.seen));
            self.seen.extend_from_slice(&buffer[..n]);
        }
        String::from_utf8_lossy(&std::mem::take(&mut self.seen)).into_owned()
    }

    /// Reads until the server closes.
    pub(crate) async fn answer(&mut self) -> String {
        // A server that does not read to the end of a body may reset the connection after its answer.
        let _ = within(self.stream.read_to_end(&mut self.seen)).await;
        String::from_utf8_lossy(&std::mem::take(&mut self.seen)).into_owned()
    }
}

/// Writes all of it at once, and reads the answer.
pub(crate) async fn say(address: SocketAddr, text: &str) -> String {
    let mut client = Client::connect(address).await;
    client.write(text).await;
    client.answer().await
}

/// The head of a request that closes its connection.
pub(crate) fn head(fields: &str) -> String {
    format!(
        "POST /pay HTTP/1.1\r\nhost: x\r\nx-user: ada\r\nconnection: close\r\nidempotency-key: \"k\"\r\n{fields}\r\n"
    )
}

pub(crate) fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}
