//! Mail that is sent once: here into a folder, a file a message. `cargo run -p hapax --example mailer [FOLDER]`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use hapax::{
    Backoff, Quota,
    mail::{
        IdempotencyTransport, InvalidMessage, Mailer, Member, Message, Outbox, Outcome, RawMessage, Receipt,
        Strategy, Stub,
    },
};
use std::time::Duration;

struct User {
    id: u64,
    email: String,
}

fn welcome(user: &User) -> Result<Message, InvalidMessage> {
    Message::builder()
        .from("Shop <shop@example.com>")
        .to(&user.email)
        .subject("Welcome")
        .html("<p>Welcome aboard.</p>")
        .idempotency_key(format!("welcome:{}", user.id))
        .build()
}

fn show(receipt: &Receipt) {
    let again = if receipt.replayed { " (answered from before)" } else { "" };
    // Leaving out the third arm does not compile.
    match &receipt.outcome {
        Outcome::Accepted => println!("sent{again}"),
        Outcome::Failed(failure) => println!("not sent: {failure}{again}"),
        Outcome::Unknown(failure) => println!("may have gone: {failure}; do not send it again{again}"),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "outbox".into());
    let users: Vec<_> = (1..=5).map(|id| User { id, email: format!("user{id}@example.com") }).collect();
    let messages: Vec<_> = users.iter().map(welcome).collect::<Result<_, _>>()?;
    let [first, second, ..] = messages.as_slice() else { anyhow::bail!("no messages") };

    // One decorator around one transport, with the keys in this process.
    let transport = IdempotencyTransport::new(Outbox::new(&folder));
    show(&transport.send(first).await);
    show(&transport.send(first).await);

    // The whole stack, with the keys in a store that other processes share: a provider, and a folder for when it is down. Here
    // the provider's reply gets lost once: nothing goes to the folder, as the mail may have gone.
    let hapax = hapax::connect("memory:").await?;
    let provider = Stub::new();
    provider.then(Receipt::unknown("smtp.reply_lost"));
    let first = Member::new(provider.clone())
        .retry(3, Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)))
        .breaker(5, Duration::from_secs(30))
        .limit(Quota::token_bucket(14, Duration::from_secs(1)))
        .attempt_timeout(Duration::from_mins(2));
    let mailer = Mailer::via(first)
        .or_via(Outbox::new(&folder))
        .strategy(Strategy::Priority)
        .named("shop")
        .idempotent(&hapax.idempotency("shop"))
        .build()?;
    show(&mailer.send(second).await);
    show(&mailer.send(second).await);

    // Many: one receipt each, in order.
    let mut receipts = mailer.send_many(messages).concurrency(3);
    while let Some(receipt) = receipts.next().await {
        show(&receipt);
    }

    // Bytes that are ready, and `?` where anything but a sent mail is an error.
    let raw = RawMessage::new("shop@example.com", ["ada@example.com"], "Subject: hi\r\n\r\nhi\r\n");
    let sent = mailer.send_raw(&raw.with_idempotency_key("raw:1")).await.into_result()?;
    println!("{sent:?}");

    println!("the provider was given {} messages", provider.handed());
    anyhow::ensure!(hapax.close().await.is_clean(), "a receipt could not be stored");
    Ok(())
}
