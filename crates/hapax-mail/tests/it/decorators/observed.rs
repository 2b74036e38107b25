//! What is logged of a send, and what is not.

use super::{lost, scripted};
use crate::kit::{Kit, Logs};
use hapax_mail::{IdempotencyTransport, Message, Observed, Receipt};
use tracing::Level;

fn secret() -> Message {
    Message::builder()
        .from("Shop <shop@secret.example>")
        .to("Ada <ada@secret.example>")
        .cc("bob@secret.example")
        .subject("secret subject")
        .text("secret text")
        .header("X-Secret", "secret header")
        .idempotency_key("secret-key")
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_line_tells_how_a_send_went_and_nothing_of_who_wrote_what_to_whom() {
    let kit = Kit::new();
    let stub = scripted("smtp", [lost().with_response("timed out for <ada@secret.example> at mx")]);
    stub.then(Receipt::accepted().with_response("250 ada@secret.example queued"));
    let observed = IdempotencyTransport::new(Observed::new(stub)).with_idempotency(&kit.idem);
    let (logs, _guard) = Logs::collect();
    let _ = observed.send(&secret()).await;
    let _ = observed.send(&secret().with_idempotency_key("secret-key-2").unwrap()).await;
    let all = logs.everything();
    assert!(!all.contains("secret"), "{all}");
    let warned = logs.of(Level::WARN).join("\n");
    for word in ["smtp.reply_lost", "smtp", "unknown", "recipients=2", "attempts=1", "mail="] {
        assert!(warned.contains(word), "{word}: {warned}");
    }
    assert!(logs.of(Level::INFO).iter().any(|line| line.contains("accepted")), "{all}");
    assert!(logs.of(Level::DEBUG).iter().any(|line| line.contains("250 …@… queued")), "{all}");
}
