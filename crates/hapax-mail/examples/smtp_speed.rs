//! Messages a second to a server that answers at once, beside a loop that writes the same bytes.
//!
//! `cargo run --release -p hapax-mail --example smtp_speed -- 20000`
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing, reason = "a measurement")]

use futures_util::{StreamExt as _, stream};
use hapax_mail::{Message, SendContext, Smtp, Transport};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::mpsc,
    thread,
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
async fn plain(address: SocketAddr, messages: usize, mail: &[u8]) {
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
        stream.write_all(mail).await.unwrap();
        stream.write_all(b".\r\n").await.unwrap();
        lines(&mut stream, &mut buffer, 1).await;
    }
}

fn main() {
    let messages: usize = std::env::args().nth(1).map_or(20_000, |text| text.parse().unwrap());
    let address = server();
    let text = "A line of a message of common length, as it may be.\n".repeat(20);
    let message = Message::builder().from("shop@example.com").to("ada@example.com").subject("x").text(text);
    let message = message.build().unwrap();
    let frozen = hapax_mail::Frozen::random(&message, hapax_core::Timestamp::from_millis(0)).unwrap();
    let mail = hapax_mail::render(&message, &frozen).unwrap();
    let transport =
        Smtp::new(&format!("smtp://{address}?tls=none&connections={POOL}&messages=1000000")).unwrap();
    let context = SendContext::default().with_frozen(frozen);
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        for round in 0..4 {
            let begun = Instant::now();
            let loops = (0..POOL).map(|_| plain(address, messages / POOL, &mail));
            futures_util::future::join_all(loops).await;
            let by_loop = rate(messages, begun);
            let begun = Instant::now();
            let sends = stream::iter(0..messages).map(|_| async {
                assert!(transport.send(&message, &context.clone().with_attempt(1)).await.is_accepted());
            });
            sends.buffer_unordered(POOL).for_each(|()| std::future::ready(())).await;
            let by_smtp = rate(messages, begun);
            println!("round {round}: loop {by_loop:.0}/s, Smtp {by_smtp:.0}/s, {:.2}", by_smtp / by_loop);
        }
    });
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate(messages: usize, begun: Instant) -> f64 {
    messages as f64 / begun.elapsed().as_secs_f64()
}
