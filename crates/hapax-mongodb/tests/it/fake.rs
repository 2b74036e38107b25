//! A server that says what a test wants it to say, for what a real one says only on a bad day.
#![expect(clippy::indexing_slicing, reason = "tests")]

use mongodb::bson::{DateTime, Document, doc};
use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What becomes of a command.
pub(crate) enum Said {
    Reply(Document),
    /// The connection is closed.
    Nothing,
}

type Script = dyn Fn(&Document) -> Option<Said> + Send + Sync;

/// Runs in the runtime of the test.
pub(crate) struct Fake {
    port: u16,
    heard: Arc<Mutex<Vec<Document>>>,
}

impl Fake {
    /// `script` answers what it wants to; anything else is answered as a sound, empty server does.
    pub(crate) async fn start(script: impl Fn(&Document) -> Option<Said> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, script): (_, Arc<Script>) = (listener.local_addr().unwrap().port(), Arc::new(script));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                tokio::spawn(async move { serve(stream, &*script, &log).await });
            }
        });
        Self { port, heard }
    }

    pub(crate) fn url(&self, more: &str) -> String {
        format!("mongodb://127.0.0.1:{}/shop?{more}", self.port)
    }

    /// How often a command came.
    pub(crate) fn heard(&self, command: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| name(heard) == command).count()
    }
}

pub(crate) fn name(command: &Document) -> &str {
    command.keys().next().unwrap()
}

/// A command that the server refuses.
pub(crate) fn refusal(code: i32, name: &str) -> Said {
    Said::Reply(doc! { "ok": 0, "code": code, "codeName": name, "errmsg": "no: s3cr3t" })
}

async fn serve(mut stream: TcpStream, script: &Script, log: &Mutex<Vec<Document>>) -> Option<()> {
    const OP_QUERY: u32 = 2004;
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header).await.ok()?;
        // The greeting of TLS.
        if header.first() == Some(&22) {
            return None;
        }
        let field = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let mut rest = vec![0; field(0) as usize - 16];
        stream.read_exact(&mut rest).await.ok()?;
        let (id, is_old) = (field(4), field(12) == OP_QUERY);
        // Flags and the kind of the section; or flags, the collection, and how many to skip and to return.
        let start =
            if is_old { 4 + rest[4..].iter().position(|byte| *byte == 0).unwrap() + 1 + 8 } else { 5 };
        let command = Document::from_reader(&rest[start..]).unwrap();
        let said = script(&command).unwrap_or_else(|| Said::Reply(usual(&command)));
        log.lock().unwrap().push(command);
        let Said::Reply(reply) = said else { return None };
        let body = reply.to_vec().unwrap();
        let (kind, before) = if is_old {
            (1, vec![0; 16].into_iter().chain([1, 0, 0, 0]).collect())
        } else {
            (2013, vec![0; 5])
        };
        let length = u32::try_from(16 + before.len() + body.len()).unwrap();
        let head = [length, 7, id, kind].map(u32::to_le_bytes).concat();
        stream.write_all(&[head, before, body].concat()).await.ok()?;
    }
}

/// As a sound standalone answers.
pub(crate) fn usual(command: &Document) -> Document {
    let found = |batch: Vec<Document>| doc! { "ok": 1, "cursor": { "id": 0_i64, "ns": "shop.x", "firstBatch": batch } };
    match name(command) {
        "hello" | "isMaster" | "ismaster" => doc! {
            "ok": 1, "helloOk": true, "ismaster": true, "isWritablePrimary": true, "localTime": DateTime::now(),
            "minWireVersion": 0, "maxWireVersion": 21, "maxBsonObjectSize": 16_777_216,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
        },
        "find" if command.get_str("find").unwrap().ends_with("_meta") => {
            found(vec![doc! { "_id": "layout", "layout": 1, "min_reader": 1, "min_writer": 1 }])
        }
        "find" | "listCollections" | "listIndexes" => found(Vec::new()),
        _ => doc! { "ok": 1, "n": 1 },
    }
}
