//! A mail server that does as it is told: SMTP or LMTP, over TCP or within the test, with TLS and AUTH.
//!
//! It writes down every message at the moment its last dot is seen, so whatever it says or does not say afterwards, the test
//! knows what was delivered.

mod session;
mod tls;

pub use session::Wire;
pub(crate) use tls::acceptor;
pub use tls::authority;

use std::{
    collections::{HashMap, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    runtime::Builder,
    sync::{oneshot, watch},
    time::Instant,
};

/// Where a server does something else than usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The first line.
    Greeting,
    /// EHLO, LHLO, HELO.
    Hello,
    /// STARTTLS.
    StartTls,
    /// Each line of AUTH.
    Auth,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA.
    Data,
    /// The first bytes of the message.
    Body,
    /// The dot. The message counts as delivered unless a refusal is said.
    Dot,
    /// The reply of LMTP for each recipient, where nothing is said for the dot.
    Saved,
    /// RSET.
    Reset,
    /// QUIT.
    Quit,
}

impl Step {
    /// Those of one message over one connection without TLS and AUTH, in order.
    pub const OF_A_MESSAGE: [Self; 7] =
        [Self::Greeting, Self::Hello, Self::Mail, Self::Rcpt, Self::Data, Self::Body, Self::Dot];
}

/// What it does there, in place of the usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// The usual after all.
    Usual,
    /// Says something else, and goes on accordingly.
    Say(String),
    /// Says that and closes the connection.
    SayAndClose(String),
    /// Closes the connection.
    Close,
    /// Breaks the connection, so that the client gets an error and no end.
    Break,
    /// Says nothing any more.
    Stall,
    /// Says nothing and reads nothing any more.
    Deaf,
    /// The usual, after that time.
    Late(Duration),
    /// The usual, a byte at a time.
    Drip,
    /// The usual as several lines, each in two parts.
    Split,
    /// The usual with far more words than usual.
    Long,
    /// The usual, and more in the same breath.
    And(String),
}

impl Act {
    /// Says something else.
    pub fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }
}

/// A message that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What stood behind `MAIL FROM:`, parameters and all.
    pub from: String,
    /// The recipients that were accepted.
    pub to: Vec<String>,
    /// What came over the wire between DATA and the dot.
    pub raw: Vec<u8>,
    /// The same without the dots that the client put before others.
    pub bytes: Vec<u8>,
    /// When.
    pub at: Instant,
}

impl Delivery {
    /// The field of that name, on one line.
    pub fn field(&self, name: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes).replace("\r\n ", " ").replace("\r\n\t", " ");
        let start = format!("{}:", name.to_ascii_lowercase());
        let line = text
            .lines()
            .take_while(|line| !line.is_empty())
            .find(|line| line.to_ascii_lowercase().starts_with(&start));
        line.map(|line| line.get(start.len()..).unwrap_or_default().trim().to_owned())
    }
}

/// What a server is.
#[derive(Clone, Debug)]
struct Settings {
    lmtp: bool,
    starttls: bool,
    implicit: bool,
    extensions: Vec<String>,
    users: Vec<(String, String)>,
    max_recipients: usize,
}

#[derive(Debug, Default)]
struct State {
    next: HashMap<Step, VecDeque<Act>>,
    always: HashMap<Step, Act>,
    recipients: HashMap<String, String>,
    deliveries: Vec<Delivery>,
    commands: Vec<String>,
    connections: usize,
    open: usize,
    most_open: usize,
}

/// The server. Clones are one server.
#[derive(Clone, Debug)]
pub struct Sink {
    settings: Settings,
    state: Arc<Mutex<State>>,
    farewell: Arc<watch::Sender<Option<String>>>,
}

impl Default for Sink {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink {
    /// Takes everything; without TLS and users.
    pub fn new() -> Self {
        let extensions = ["SIZE 10485760", "8BITMIME", "SMTPUTF8", "PIPELINING", "ENHANCEDSTATUSCODES"];
        let settings = Settings {
            lmtp: false,
            starttls: false,
            implicit: false,
            extensions: extensions.map(str::to_owned).to_vec(),
            users: Vec::new(),
            max_recipients: usize::MAX,
        };
        Self { settings, state: Arc::default(), farewell: Arc::new(watch::Sender::new(None)) }
    }

    /// It speaks LMTP.
    #[must_use]
    pub fn lmtp(mut self) -> Self {
        self.settings.lmtp = true;
        self
    }

    /// It offers STARTTLS.
    #[must_use]
    pub fn starttls(mut self) -> Self {
        self.settings.starttls = true;
        self
    }

    /// It speaks TLS from the first byte on.
    #[must_use]
    pub fn implicit_tls(mut self) -> Self {
        self.settings.implicit = true;
        self
    }

    /// An extension less.
    #[must_use]
    pub fn without(mut self, extension: &str) -> Self {
        self.settings.extensions.retain(|line| !line.starts_with(extension));
        self
    }

    /// A line of EHLO more.
    #[must_use]
    pub fn with(mut self, extension: &str) -> Self {
        self.settings.extensions.push(extension.to_owned());
        self
    }

    /// Only whoever logs in may send. The mechanisms are those of an `AUTH` line given by [`with`](Self::with).
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.settings.users.push((name.to_owned(), password.to_owned()));
        self
    }

    /// No more recipients in one message.
    #[must_use]
    pub fn max_recipients(mut self, most: usize) -> Self {
        self.settings.max_recipients = most;
        self
    }

    /// What it does the next time it comes to this step for which nothing is said yet.
    pub fn then(&self, step: Step, act: Act) -> &Self {
        self.state().next.entry(step).or_default().push_back(act);
        self
    }

    /// What it does whenever it comes there.
    pub fn always(&self, step: Step, act: Act) -> &Self {
        self.state().always.insert(step, act);
        self
    }

    /// What it says of a recipient.
    pub fn recipient(&self, address: &str, reply: &str) -> &Self {
        self.state().recipients.insert(address.to_owned(), reply.to_owned());
        self
    }

    /// What was delivered, in order.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.state().deliveries.clone()
    }

    /// The command lines that came, in order.
    pub fn commands(&self) -> Vec<String> {
        self.state().commands.clone()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.state().open
    }

    /// How many there were at a time.
    pub fn most_open(&self) -> usize {
        self.state().most_open
    }

    /// Says that to every connection that waits for a command, and closes it.
    pub fn dismiss(&self, words: &str) {
        self.farewell.send_replace(Some(words.to_owned()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, step: Step) -> Act {
        let mut state = self.state();
        let next = state.next.get_mut(&step).and_then(VecDeque::pop_front);
        next.or_else(|| state.always.get(&step).cloned()).unwrap_or(Act::Usual)
    }

    /// Serves one connection to its end.
    pub async fn serve(&self, io: Box<dyn Wire>) {
        {
            let mut state = self.state();
            state.connections += 1;
            state.open += 1;
            state.most_open = state.most_open.max(state.open);
        }
        let _open = Open(self);
        session::run(self, io).await;
    }

    /// Serves on a port of this machine, on a thread of its own, until the answer is dropped.
    pub fn listen(&self) -> Listening {
        let (sink, (tell, hear), (end, ended)) = (self.clone(), mpsc::channel(), oneshot::channel::<()>());
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
                tell.send(listener.local_addr().expect("its address")).expect("somebody listens");
                let accept = async {
                    loop {
                        let (stream, _) = listener.accept().await.expect("a connection");
                        let _ = stream.set_nodelay(true);
                        let sink = sink.clone();
                        tokio::spawn(async move { sink.serve(Box::new(stream)).await });
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = ended => {}
                }
            });
        });
        Listening { address: hear.recv().expect("the address"), _end: end }
    }
}

struct Open<'a>(&'a Sink);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.state().open -= 1;
    }
}

/// A server on a port; it goes with this.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    _end: oneshot::Sender<()>,
}

impl Listening {
    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}
