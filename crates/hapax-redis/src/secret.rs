//! The secret that the store keeps.

use crate::{ask::Ask, error::Failure, store::RedisStore};
use hapax_core::{StoreErrorKind, StoreResult, Token};
use redis::Value;

impl RedisStore {
    /// The first process to ask decides for all.
    pub(crate) async fn kept_secret(&self) -> Result<[u8; 32], Failure> {
        let place = &self.connector().place;
        let ours = new_secret()
            .map_err(|_| Failure::new(StoreErrorKind::Internal, "the system gave no random bytes"))?;
        let key = self.keys().meta("secret");
        let (mut set, mut get) = (redis::cmd("SET"), redis::cmd("GET"));
        set.arg(&key).arg(&ours).arg("NX");
        get.arg(&key);
        // In one go where there is one server; in a cluster one after the other.
        let mut replies = if self.connector().is_cluster() {
            let mut replies = self.lines.call(&[Ask::Plain(key.clone(), set)], true).await;
            replies.extend(self.lines.call(&[Ask::Plain(key, get)], true).await);
            replies
        } else {
            self.lines.call(&[Ask::Plain(key.clone(), set), Ask::Plain(key, get)], true).await
        }
        .into_iter();
        let mut next = || replies.next().unwrap_or_else(|| Err(Failure::nonsense(place)));
        let (set, found) = (next(), next()?);
        match found {
            Value::BulkString(bytes) => bytes.try_into().map_err(|_| {
                let reason = format!("what should be the store's secret on {place} is not");
                Failure::new(StoreErrorKind::Corrupt, reason)
            }),
            _ => Err(set.err().unwrap_or_else(|| Failure::nonsense(place))),
        }
    }
}

fn new_secret() -> StoreResult<[u8; 32]> {
    let (a, b) = (Token::random()?, Token::random()?);
    let mut secret = [0; 32];
    for (to, from) in secret.iter_mut().zip(a.as_bytes().iter().chain(b.as_bytes())) {
        *to = *from;
    }
    Ok(secret)
}
