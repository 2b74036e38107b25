//! moto, a stand-in for the services of AWS, from an environment of Python that `scripts/servers` makes.
//!
//! It knows who may send, refuses who may not, and keeps what was sent. It checks no signature, and adds the recipients in the
//! header to those of the request, which the service itself does not.

use super::{in_cache, is_open, missing};
use crate::{
    supervised::{Life, Supervised, folder, free_port},
    wait,
};
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    time::Duration,
};
use tempfile::TempDir;

/// A moto. It goes with the value.
#[derive(Debug)]
pub struct Moto {
    _server: Supervised,
    _home: TempDir,
    port: u16,
}

impl Moto {
    /// Why it cannot be had here.
    pub fn missing() -> Option<String> {
        missing("moto", program().is_some(), false)
    }

    /// Starts it; nobody may send yet.
    pub fn start() -> Self {
        let (home, port) = (folder(), free_port());
        let program = program().expect("moto").display().to_string();
        let args = ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
        let mut server = Supervised::start(home.path(), "moto", &program, &args, Life::Test);
        let is_up = || is_open(port).then_some(());
        wait::for_value("moto listens", is_up, || server.has_ended()).unwrap_or_else(|why| panic!("{why}"));
        Self { _server: server, _home: home, port }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets an address send, in a region.
    pub fn let_send(&self, region: &str, address: &str) {
        // The service that is meant is told by what is signed for.
        let credential = format!("Credential=test/20300101/{region}/ses/aws4_request");
        let signed =
            format!("authorization: AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=none\r\n");
        let answer = self.ask(
            "POST",
            "/v2/email/identities",
            &signed,
            &format!("{{\"EmailIdentity\":\"{address}\"}}"),
        );
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// All that it knows, as JSON: what was sent is in `ses.RawMessage`.
    pub fn data(&self) -> String {
        let answer = self.ask("GET", "/moto-api/data.json", "", "");
        answer.split_once("\r\n\r\n").expect("an answer").1.to_owned()
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("moto listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
             {headers}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("moto reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("moto answers");
        answer
    }
}

fn program() -> Option<PathBuf> {
    in_cache("moto/bin/moto_server")
}
