//! A proxy before a server, which loses what it is told to lose.

mod line;

use line::Line;
use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// What may happen to a request. A reply cannot come twice over one connection of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The connection is closed, and the server never hears of the request.
    CutBefore,
    /// The server does what is asked; the connection is closed in place of its reply.
    CutAfter,
    /// The same, after half of the first bytes of the reply.
    CutReply,
    /// The reply is held back until the client has closed the connection, or until [`Proxy::let_go`]: its own deadline
    /// ends its wait.
    Late,
    /// Before the client gets its reply, the same bytes reach the server over another connection, whose reply is
    /// thrown away. For protocols that need no greeting.
    Twice,
}

/// Knows no protocol: what the client sends while no answer is outstanding is a request.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: u16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    armed: Option<Fault>,
    lasting: Option<Fault>,
    happened: usize,
    /// How often late replies were let go.
    let_go: usize,
    is_over: bool,
}

impl Proxy {
    /// Before the server that listens on this port of 127.0.0.1.
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared { server, state: Mutex::default(), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.state().is_over {
                    break;
                }
                // A server that is away is away for the client.
                let _ = Line::begin(&accepting, client);
            }
        });
        Self { port, shared }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Puts a fault on the next request.
    pub fn arm(&self, fault: Fault) {
        self.shared.state().armed = Some(fault);
    }

    /// Takes that fault away where no request came.
    pub fn disarm(&self) {
        self.shared.state().armed = None;
    }

    /// Puts a fault on every request from now on, or none.
    pub fn always(&self, fault: Option<Fault>) {
        self.shared.state().lasting = fault;
    }

    /// How many requests met a fault.
    pub fn happened(&self) -> usize {
        self.shared.state().happened
    }

    /// Passes the replies on that are late at this moment.
    pub fn let_go(&self) {
        self.shared.state().let_go += 1;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The fault of a request that begins.
    fn take(&self) -> Option<Fault> {
        let mut state = self.state();
        let fault = state.armed.take().or(state.lasting);
        state.happened += usize::from(fault.is_some());
        fault
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
