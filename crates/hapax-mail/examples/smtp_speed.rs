//! Messages a second to a server that answers at once, beside a loop that writes the same bytes.
//!
//! `cargo run --release -p hapax-mail --example smtp_speed -- 20000 5`, which is messages and rounds; a third word, `loop`,
//! `joined` or `smtp`, runs one of the three alone, for profiles.
//!
//! Each has eight connections, a task for each, on one thread; the server has another. The loop says EHLO once, then
//! for each message MAIL, RCPT and DATA in one write (the server offers PIPELINING), waits for the three replies, writes the
//! message and then the dot, and waits for the last reply. The joined loop writes message and dot at once, as `Smtp` does with
//! small messages. What they write was rendered once, and they look at no reply: `Smtp` renders and checks each message
//! anew, reads each reply, minds the time, and makes a receipt.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing, reason = "a measurement")]

use bytes::Bytes;
use futures_util::future::join_all;
use hapax_mail::{Frozen, Message, SendContext, Smtp, Transport};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Builder,
    time::Instant,
};

const POOL: usize = 8;

/// Answers each command at once, and remembers nothing.
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(b"220 x\r\n").await?;
    let (mut input, mut is_message) = (Vec::with_capacity(65_536), false);
    while stream.read_buf(&mut input).await? > 0 {
        let mut out = String::new();
        let mut used = 0;
        while let Some(end) = input[used..].windows(2).position(|two| two == b"\r\n") {
            let line = &input[used..used + end];
            used += end + 2;
            let reply = match line {
                b"." => "250 2.0.0 Ok: queued as 1\r\n",
                _ if is_message => continue,
                b"DATA" => "354 go\r\n",
                line if line.starts_with(b"EHLO") => "250-x\r\n250 PIPELINING\r\n",
                _ => "250 2.0.0 ok\r\n",
            };
            is_message = reply.starts_with("354");
            out.push_str(reply);
        }
        input.drain(..used);
        stream.write_all(out.as_bytes()).await?;
    }
    Ok(())
}

fn server() -> SocketAddr {
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    hear.recv().unwrap()
}

/// Reads so many lines.
async fn lines(stream: &mut TcpStream, buffer: &mut Vec<u8>, count: usize) {
    buffer.clear();
    while buffer.split(|byte| *byte == b'\n').count() <= count {
        assert!(stream.read_buf(buffer).await.unwrap() > 0);
    }
}

/// The same bytes in the same order, and no more.
async fn plain(address: SocketAddr, messages: usize, mail: Bytes, is_joined: bool) {
    let mail = if is_joined { [&mail[..], b".\r\n"].concat().into() } else { mail };
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    lines(&mut stream, &mut buffer, 1).await;
    stream.write_all(b"EHLO [127.0.0.1]\r\n").await.unwrap();
    lines(&mut stream, &mut buffer, 2).await;
    for _ in 0..messages {
        stream
            .write_all(b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<ada@example.com>\r\nDATA\r\n")
            .await
            .unwrap();
        lines(&mut stream, &mut buffer, 3).await;
        stream.write_all(&mail).await.unwrap();
        if !is_joined {
            stream.write_all(b".\r\n").await.unwrap();
        }
        lines(&mut stream, &mut buffer, 1).await;
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let messages: usize = arguments.next().map_or(20_000, |text| text.parse().unwrap());
    let rounds: usize = arguments.next().map_or(5, |text| text.parse().unwrap());
    let only = arguments.next();
    let runs = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let address = server();
    let text = "A line of a message of common length, as it may be.\n".repeat(20);
    let message = Message::builder().from("shop@example.com").to("ada@example.com").subject("x").text(text);
    let message = message.build().unwrap();
    let frozen = Frozen::random(&message, hapax_core::Timestamp::from_millis(0)).unwrap();
    let mail = hapax_mail::render(&message, &frozen).unwrap();
    let frozen = Arc::new(frozen);
    let transport =
        Smtp::new(&format!("smtp://{address}?tls=none&connections={POOL}&messages=1000000")).unwrap();
    let (mut loops, mut joined, mut sends, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        for _ in 0..rounds {
            for (name, rates) in [("loop", &mut loops), ("joined", &mut joined)] {
                if runs(name) {
                    let begun = Instant::now();
                    let is_joined = name == "joined";
                    let lane = || plain(address, messages / POOL, mail.clone(), is_joined);
                    join_all((0..POOL).map(|_| tokio::spawn(lane()))).await;
                    rates.push(rate(messages, begun));
                }
            }
            if runs("smtp") {
                let begun = Instant::now();
                let lanes = (0..POOL).map(|_| {
                    tokio::spawn(ours(
                        transport.clone(),
                        messages / POOL,
                        message.clone(),
                        Arc::clone(&frozen),
                    ))
                });
                times.extend(join_all(lanes).await.into_iter().flat_map(Result::unwrap));
                sends.push(rate(messages, begun));
            }
        }
    });
    println!("loop {loops:.0?}/s");
    println!("joined {joined:.0?}/s");
    println!("Smtp {sends:.0?}/s");
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    println!("Smtp p50 {:?}, p99 {:?}", at(50), at(99));
    let by_smtp = median(&mut sends);
    for (name, rates) in [("loop", &mut loops), ("joined loop", &mut joined)] {
        let rate = median(rates);
        println!("medians: {name} {rate:.0}/s, Smtp {by_smtp:.0}/s, {:.2}", by_smtp / rate);
    }
}

/// One caller after the other on each of the lanes, as many lanes as the pool has connections.
async fn ours(transport: Smtp, messages: usize, message: Message, frozen: Arc<Frozen>) -> Vec<Duration> {
    let mut times = Vec::with_capacity(messages);
    for _ in 0..messages {
        let begun = Instant::now();
        let mut context = SendContext::default();
        context.frozen = Some(Arc::clone(&frozen));
        assert!(transport.send(&message, &context).await.is_accepted());
        times.push(begun.elapsed());
    }
    times
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate(messages: usize, begun: Instant) -> f64 {
    messages as f64 / begun.elapsed().as_secs_f64()
}
