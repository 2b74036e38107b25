//! One connection through the proxy.

use super::{Fault, Shared, State, lock};
use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// The client, and the server.
#[derive(Debug)]
pub(super) struct Line {
    shared: Arc<Shared>,
    client: TcpStream,
    server: TcpStream,
    open: Mutex<Open>,
    /// Set under the lock of [`Shared::state`], for those who wait.
    is_client_gone: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    /// No byte of an answer has come since the last request began.
    is_waiting: bool,
    fault: Option<Fault>,
    /// The request, where it is to be sent twice.
    sent: Vec<u8>,
}

impl Line {
    pub(super) fn begin(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.server))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (shared, open) = (Arc::clone(shared), Mutex::default());
        let line = Arc::new(Self { shared, client, server, open, is_client_gone: AtomicBool::new(false) });
        for direction in [Self::requests, Self::replies] {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                direction(&line);
                let _ = line.client.shutdown(Shutdown::Both);
                let _ = line.server.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }

    fn requests(&self) {
        each_part(&self.client, |part| {
            let mut open = lock(&self.open);
            if !open.is_waiting {
                *open = Open { is_waiting: true, fault: self.shared.take(), sent: Vec::new() };
            }
            if open.fault == Some(Fault::Twice) {
                open.sent.extend_from_slice(part);
            }
            let is_cut = open.fault == Some(Fault::CutBefore);
            // The replies need it.
            drop(open);
            !is_cut && (&self.server).write_all(part).is_ok()
        });
        let _state = self.shared.state();
        self.is_client_gone.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
    }

    fn replies(&self) {
        each_part(&self.server, |part| {
            // Before the client can begin its next request.
            let Open { fault, sent, .. } = std::mem::take(&mut *lock(&self.open));
            match fault {
                Some(Fault::CutBefore | Fault::CutAfter) => return false,
                Some(Fault::CutReply) => {
                    let half = part.get(..part.len() / 2).unwrap_or_default();
                    let _ = (&self.client).write_all(half);
                    return false;
                }
                Some(Fault::Late) => self.wait(),
                Some(Fault::Twice) => self.send_again(&sent),
                None => {}
            }
            (&self.client).write_all(part).is_ok()
        });
    }

    /// Until the client has gone, or the reply may go.
    fn wait(&self) {
        let state = self.shared.state();
        let before = state.let_go;
        let is_held = |state: &mut State| {
            state.let_go == before && !state.is_over && !self.is_client_gone.load(Ordering::SeqCst)
        };
        drop(self.shared.changed.wait_while(state, is_held));
    }

    /// Nobody reads the reply; that it begins tells that the server has done it.
    fn send_again(&self, request: &[u8]) {
        let again = || {
            let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.shared.server))?;
            server.write_all(request)?;
            server.read(&mut [0; 1024])
        };
        // A server that refuses the second one is none of the client's business.
        let _ = again();
    }
}

/// Reads until the other side ends, or `pass` says that it is over.
fn each_part(mut from: &TcpStream, mut pass: impl FnMut(&[u8]) -> bool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if !pass(bytes.get(..read).unwrap_or_default()) {
            break;
        }
    }
}
