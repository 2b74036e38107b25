//! What a script says about one key: a word, the server's time, and what belongs to the word. Numbers alone stand for the
//! usual, which is what most answers are.

use crate::value;
use hapax_core::{Timestamp, idempotency::Record};
use redis::{ServerError, Value};

/// The answer for one key.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Empty for the usual.
    pub(crate) word: Vec<u8>,
    /// Of the usual: the first of its numbers.
    pub(crate) number: i64,
    /// Milliseconds since 1970; the usual does not say.
    pub(crate) now: Option<i64>,
    rest: std::vec::IntoIter<Value>,
}

impl Answer {
    /// None where it is not what a script says; the error of this key where there was one.
    pub(crate) fn read(value: Value) -> Option<Result<Self, ServerError>> {
        let mut parts = match value {
            Value::ServerError(error) => return Some(Err(error)),
            Value::Int(number) => {
                let (word, rest) = (Vec::new(), Vec::new().into_iter());
                return Some(Ok(Self { word, number, now: None, rest }));
            }
            Value::Array(parts) => parts.into_iter(),
            _ => return None,
        };
        let word = match parts.next()? {
            Value::BulkString(word) => word,
            Value::Int(number) => return Some(Ok(Self { word: Vec::new(), number, now: None, rest: parts })),
            _ => return None,
        };
        let now = Some(redis::from_redis_value(parts.next()?).ok()?);
        Some(Ok(Self { word, number: 0, now, rest: parts }))
    }

    /// An instant.
    pub(crate) fn instant(&self, at: usize) -> Option<Timestamp> {
        redis::from_redis_value_ref(self.rest.as_slice().get(at)?).ok().map(Timestamp::from_millis)
    }

    /// A number.
    pub(crate) fn count(&self, at: usize) -> Option<u64> {
        redis::from_redis_value_ref(self.rest.as_slice().get(at)?).ok()
    }

    /// How many parts belong to the word.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Bytes.
    pub(crate) fn bytes(&self, at: usize) -> Option<&[u8]> {
        match self.rest.as_slice().get(at)? {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The record that is shown, where one is.
    pub(crate) fn record(mut self) -> Option<Record> {
        let now = self.now?;
        let Some(Value::BulkString(bytes)) = self.rest.next() else { return None };
        Some(Record::of(&value::decode(bytes), &value::moment(now)))
    }
}
