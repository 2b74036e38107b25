//! Whatever the peer does and whenever the caller goes away: at most one delivery a key, and none that is only claimed.

use super::{Peer, Play, json};
use crate::kit::{Kit, keyed};
use hapax_engine::queue::Backoff;
use hapax_mail::{Mailer, Member, Outcome, SendGrid};
use std::time::Duration;

/// A small generator, so that a round can be run again by its number.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What the peer does, and whether the mail may have been delivered then.
fn play(chance: &mut Chance) -> (Play, bool) {
    let refused = "{\"errors\":[]}";
    match chance.below(10) {
        0 => (Play::ResetAfter(10), false),
        1 => (Play::answer(503, &json(refused)), false),
        2 => (Play::answer(429, &json(refused)), false),
        3 => (Play::answer(500, &json(refused)), true),
        4 => (Play::Answer(b"garbage\r\n\r\n".to_vec()), true),
        5 => (Play::CloseUnanswered, true),
        6 => (Play::ResetUnanswered, true),
        7 => (Play::Stall, true),
        8 => (Play::AnswerAndClose(b"HTTP/1.1 202 Accepted\r\ncontent-le".to_vec()), true),
        _ => (Play::answer(202, "x-message-id: a\r\ncontent-length: 0\r\n\r\n"), true),
    }
}

async fn round(number: u64) {
    let mut chance = Chance(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let plays: Vec<_> = (0..40).map(|_| play(&mut chance)).collect();
    let peer = Peer::start(plays.iter().map(|(play, _)| play.clone()));
    let kit = Kit::new();
    let member = || {
        let sendgrid = SendGrid::new("x").unwrap().with_endpoint(&peer.url()).unwrap();
        let sendgrid = sendgrid.with_times(Duration::from_secs(5), Duration::from_millis(60));
        Member::new(sendgrid)
            .retry(3, Backoff::fixed(Duration::from_millis(5)))
            .breaker(5, Duration::from_millis(1))
    };
    let mailer = Mailer::via(member()).or_via(member()).named("p").idempotent(&kit.idem).build().unwrap();
    let message = keyed("k");
    let mut accepted = 0;
    for _ in 0..3 {
        let patience = Duration::from_millis(chance.below(120));
        if let Ok(receipt) = tokio::time::timeout(patience, mailer.send(&message)).await {
            accepted += usize::from(receipt.is_accepted() && !receipt.replayed);
        }
    }
    let last = mailer.send(&message).await;
    accepted += usize::from(last.is_accepted() && !last.replayed);
    let delivered = peer.delivered(&plays);
    assert!(delivered <= 1, "round {number}: {delivered} deliveries");
    assert!(accepted <= 1, "round {number}: accepted {accepted} times");
    match last.outcome {
        Outcome::Accepted => assert_eq!(delivered, 1, "round {number}: nothing was delivered"),
        Outcome::Failed(failure) => assert_eq!(delivered, 0, "round {number}: {failure}"),
        Outcome::Unknown(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_delivery_a_key_under_any_cut_and_any_drop() {
    let rounds = if std::env::var_os("HAPAX_TEST_LONG").is_some() { 5000 } else { 120 };
    for first in (1..=rounds).step_by(20) {
        futures_util::future::join_all((first..(first + 20).min(rounds + 1)).map(round)).await;
    }
}
