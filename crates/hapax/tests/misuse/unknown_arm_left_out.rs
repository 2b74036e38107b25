//! A message may have gone, and nobody thought of it.
use hapax::mail::{Mailer, Message, Outcome};

async fn send(mailer: Mailer, message: Message) -> bool {
    match mailer.send(&message).await.outcome {
        Outcome::Accepted => true,
        Outcome::Failed(_) => false,
    }
}

fn main() {
    let _ = send;
}
