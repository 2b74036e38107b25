//! One connection.

use super::{Act, Delivery, Sink, Step, tls};
use std::{fmt::Write as _, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream},
    net::TcpStream,
    sync::watch,
};
use tokio_rustls::server::TlsStream;

/// A connection that can be broken.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {
    /// The client will see an error and no end, where that can be had.
    fn break_off(&mut self) {}
}

impl Wire for DuplexStream {}

impl Wire for TcpStream {
    fn break_off(&mut self) {
        self.set_zero_linger().expect("a socket");
    }
}

impl Wire for TlsStream<Box<dyn Wire>> {
    fn break_off(&mut self) {
        self.get_mut().0.break_off();
    }
}

/// The connection is over.
struct Over;

struct Session<'a> {
    sink: &'a Sink,
    io: Box<dyn Wire>,
    input: Vec<u8>,
    farewell: watch::Receiver<Option<String>>,
    is_encrypted: bool,
    is_known: bool,
    from: Option<String>,
    to: Vec<String>,
}

pub(super) async fn run(sink: &Sink, io: Box<dyn Wire>) {
    let io = if sink.settings.implicit {
        match tls::accept(io).await {
            Some(io) => io,
            None => return,
        }
    } else {
        io
    };
    let session = Session {
        sink,
        io,
        input: Vec::new(),
        farewell: sink.farewell.subscribe(),
        is_encrypted: sink.settings.implicit,
        is_known: sink.settings.users.is_empty(),
        from: None,
        to: Vec::new(),
    };
    let _ = session.serve().await;
}

impl Session<'_> {
    async fn serve(mut self) -> Result<(), Over> {
        self.answer(Step::Greeting, "220 mail.example ESMTP").await?;
        loop {
            let line = self.command().await?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match verb.to_ascii_uppercase().as_str() {
                "EHLO" | "LHLO" => self.hello(verb).await?,
                "HELO" => drop(self.answer(Step::Hello, "250 mail.example").await?),
                "STARTTLS" => self = self.starttls().await?,
                "AUTH" => self.auth(rest).await?,
                "MAIL" => self.mail(rest).await?,
                "RCPT" => self.rcpt(rest).await?,
                "DATA" => self.data().await?,
                "RSET" => {
                    (self.from, self.to) = (None, Vec::new());
                    self.answer(Step::Reset, "250 2.0.0 ok").await?;
                }
                "QUIT" => {
                    self.answer(Step::Quit, "221 2.0.0 bye").await?;
                    return Ok(());
                }
                _ => self.write("500 5.5.2 what?\r\n").await?,
            }
        }
    }

    async fn hello(&mut self, verb: &str) -> Result<(), Over> {
        if verb.eq_ignore_ascii_case("LHLO") != self.sink.settings.lmtp {
            return self.write("500 5.5.1 wrong protocol\r\n").await;
        }
        let mut lines = vec!["mail.example".to_owned()];
        lines.extend(self.sink.settings.extensions.iter().cloned());
        if self.sink.settings.starttls && !self.is_encrypted {
            lines.push("STARTTLS".to_owned());
        }
        let last = lines.pop().unwrap_or_default();
        let mut usual = String::new();
        for line in lines {
            let _ = write!(usual, "250-{line}\r\n");
        }
        let _ = write!(usual, "250 {last}");
        self.answer(Step::Hello, &usual).await.map(drop)
    }

    async fn starttls(mut self) -> Result<Self, Over> {
        if self.answer(Step::StartTls, "220 2.0.0 go").await? != 220 {
            return Ok(self);
        }
        self.io = tls::accept(self.io).await.ok_or(Over)?;
        self.is_encrypted = true;
        self.input.clear();
        Ok(self)
    }

    /// The user and what proves it are looked for in whatever is said, in base64 or in the clear of it.
    async fn auth(&mut self, rest: &str) -> Result<(), Over> {
        let (mechanism, first) = rest.split_once(' ').unwrap_or((rest, ""));
        let wanted = match mechanism.to_ascii_uppercase().as_str() {
            "LOGIN" => 2,
            _ => 1,
        };
        let mut said: Vec<String> = if first.is_empty() { Vec::new() } else { vec![first.to_owned()] };
        while said.len() < wanted {
            if self.answer(Step::Auth, "334 ").await? != 334 {
                return Ok(());
            }
            said.push(self.command().await?);
        }
        let said: Vec<String> = said.iter().map(|text| decode(text)).collect();
        let whole = said.join("\0");
        let proves = |password: &str| {
            let bearer = format!("auth=Bearer {password}");
            whole.split(['\0', '\x01']).any(|part| part == password || part == bearer)
        };
        if self.sink.settings.users.iter().any(|(user, password)| whole.contains(user) && proves(password)) {
            self.is_known = self.answer(Step::Auth, "235 2.7.0 welcome").await? == 235;
            return Ok(());
        }
        if mechanism.to_ascii_uppercase().contains("AUTH") {
            // Those that take tokens say why first, and want a word.
            self.write("334 eyJzdGF0dXMiOiI0MDEifQ==\r\n").await?;
            self.command().await?;
        }
        self.write("535 5.7.8 no\r\n").await
    }

    async fn mail(&mut self, rest: &str) -> Result<(), Over> {
        if !self.is_known {
            return self.write("530 5.7.0 who are you?\r\n").await;
        }
        let code = self.answer(Step::Mail, "250 2.1.0 ok").await?;
        if code / 100 == 2 {
            self.from = Some(rest.get(5..).unwrap_or_default().to_owned());
            self.to.clear();
        }
        Ok(())
    }

    async fn rcpt(&mut self, rest: &str) -> Result<(), Over> {
        if self.from.is_none() {
            return self.write("503 5.5.1 MAIL first\r\n").await;
        }
        let address = rest.get(3..).unwrap_or_default().trim_matches(['<', '>']).to_owned();
        let own = self.sink.state().recipients.get(&address).cloned();
        let full = self.to.len() >= self.sink.settings.max_recipients;
        let usual = match own {
            Some(reply) => reply,
            None if full => "452 4.5.3 too many recipients".to_owned(),
            None => "250 2.1.5 ok".to_owned(),
        };
        if self.answer(Step::Rcpt, &usual).await? / 100 == 2 {
            self.to.push(address);
        }
        Ok(())
    }

    async fn data(&mut self) -> Result<(), Over> {
        if self.to.is_empty() {
            return self.write("503 5.5.1 RCPT first\r\n").await;
        }
        if self.answer(Step::Data, "354 go").await? != 354 {
            return Ok(());
        }
        let message = self.message().await?;
        let from = self.from.take().unwrap_or_default();
        let to = std::mem::take(&mut self.to);
        let Some(raw) = message else { return Ok(()) };
        let bytes = unstuffed(&raw);
        let act = self.sink.act(Step::Dot);
        let is_refused = |reply: &str| matches!(reply.as_bytes().first(), Some(b'4' | b'5'));
        let refusal = matches!(&act, Act::Say(reply) | Act::SayAndClose(reply) if is_refused(reply));
        if !refusal {
            let at = tokio::time::Instant::now();
            self.sink.state().deliveries.push(Delivery { from, to: to.clone(), raw, bytes, at });
        }
        if self.sink.settings.lmtp {
            for recipient in &to {
                let usual = format!("250 2.0.0 {recipient} saved");
                let own = if act == Act::Usual { self.sink.act(Step::Saved) } else { act.clone() };
                self.perform(own, &usual).await?;
            }
            return Ok(());
        }
        self.perform(act, "250 2.0.0 Ok: queued as 4SINK").await.map(drop)
    }

    /// What comes up to the dot; none where it was refused before.
    async fn message(&mut self) -> Result<Option<Vec<u8>>, Over> {
        let (mut looked_at, mut is_refused) = (false, false);
        loop {
            let end = if self.input.starts_with(b".\r\n") {
                Some((0, 3))
            } else {
                self.input.windows(5).position(|five| five == b"\r\n.\r\n").map(|at| (at + 2, at + 5))
            };
            if let Some((end, next)) = end {
                let raw = self.input.get(..end).unwrap_or_default().to_vec();
                self.input.drain(..next);
                return Ok((!is_refused).then_some(raw));
            }
            if !self.input.is_empty() && !looked_at {
                looked_at = true;
                match self.sink.act(Step::Body) {
                    Act::Usual | Act::Drip | Act::Split | Act::Long | Act::And(_) => {}
                    Act::Late(time) => tokio::time::sleep(time).await,
                    act => is_refused = matches!(self.perform(act, "").await? / 100, 4 | 5),
                }
            }
            self.fill().await?;
        }
    }

    async fn answer(&mut self, step: Step, usual: &str) -> Result<u16, Over> {
        let act = self.sink.act(step);
        self.perform(act, usual).await
    }

    /// Does it; the code that was said.
    async fn perform(&mut self, act: Act, usual: &str) -> Result<u16, Over> {
        let code = |text: &str| text.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        match act {
            Act::Usual => self.write(&format!("{usual}\r\n")).await?,
            Act::Say(text) => {
                self.write(&format!("{text}\r\n")).await?;
                return Ok(code(&text));
            }
            Act::SayAndClose(text) => {
                self.write(&format!("{text}\r\n")).await?;
                return self.close().await;
            }
            Act::Close => return self.close().await,
            Act::Break => {
                self.io.break_off();
                return Err(Over);
            }
            Act::Deaf => return std::future::pending().await,
            Act::Stall => loop {
                self.fill().await?;
                self.input.clear();
            },
            Act::Late(time) => {
                tokio::time::sleep(time).await;
                self.write(&format!("{usual}\r\n")).await?;
            }
            Act::Drip => {
                for byte in format!("{usual}\r\n").bytes() {
                    self.bytes(&[byte]).await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Act::Split => {
                let several = several(usual);
                for line in several.split_inclusive("\r\n") {
                    let (start, end) = line.split_at(line.len() / 2);
                    self.bytes(start.as_bytes()).await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    self.bytes(end.as_bytes()).await?;
                }
            }
            Act::Long => {
                let words = "and that is not all that could be said ".repeat(60);
                self.write(&format!("{usual} {}\r\n", words.trim_end())).await?;
            }
            Act::And(more) => self.write(&format!("{usual}\r\n{more}")).await?,
        }
        Ok(code(usual))
    }

    /// In order, so that what was said is heard.
    async fn close(&mut self) -> Result<u16, Over> {
        let _ = self.io.shutdown().await;
        // What is not read would break the connection instead.
        while self.fill().await.is_ok() {
            self.input.clear();
        }
        Err(Over)
    }

    async fn command(&mut self) -> Result<String, Over> {
        loop {
            if let Some(end) = self.input.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).take(end).collect();
                let line = String::from_utf8_lossy(&line).into_owned();
                self.sink.state().commands.push(line.clone());
                return Ok(line);
            }
            let mut farewell = self.farewell.clone();
            tokio::select! {
                filled = self.fill() => filled?,
                changed = farewell.changed() => {
                    changed.map_err(|_| Over)?;
                    let words = farewell.borrow().clone().unwrap_or_default();
                    self.write(&format!("{words}\r\n")).await?;
                    return Err(Over);
                }
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Over> {
        match self.io.read_buf(&mut self.input).await {
            Ok(0) | Err(_) => Err(Over),
            Ok(_) => Ok(()),
        }
    }

    async fn write(&mut self, text: &str) -> Result<(), Over> {
        self.bytes(text.as_bytes()).await
    }

    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), Over> {
        self.io.write_all(bytes).await.map_err(|_| Over)?;
        self.io.flush().await.map_err(|_| Over)
    }
}

/// The same reply with a line before each.
fn several(reply: &str) -> String {
    let code = reply.get(..3).unwrap_or_default();
    format!("{code}-one line\r\n{code}-and another\r\n{reply}\r\n")
}

fn unstuffed(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at_start = true;
    for byte in raw {
        if !(at_start && *byte == b'.') {
            out.push(*byte);
        }
        at_start = *byte == b'\n';
    }
    out
}

/// Base64, or what it is if it is none.
fn decode(text: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD
        .decode(text)
        .map_or_else(|_| text.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}
