//! Names of queues, groups, consumers and jobs.

use crate::{Namespace, StoreError, StoreErrorKind, StoreResult};
use std::{fmt, str::FromStr, sync::Arc};

/// The longest name of a queue, a group or a consumer.
const MAX_BYTES: usize = 200;

/// The text names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name of a {what} has 1 to {MAX_BYTES} bytes, not {bytes}")]
#[non_exhaustive]
pub struct InvalidQueueName {
    /// `queue`, `group`, `consumer` or `schedule`.
    pub what: &'static str,
    /// The length of the text.
    pub bytes: usize,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(Arc<str>);

        impl $name {
            /// 1 to 200 bytes of UTF-8. Any characters are fine: braces, colons, spaces, NUL.
            pub fn new(text: &str) -> Result<Self, InvalidQueueName> {
                if (1..=MAX_BYTES).contains(&text.len()) {
                    Ok(Self(Arc::from(text)))
                } else {
                    Err(InvalidQueueName { what: $what, bytes: text.len() })
                }
            }

            /// Its text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
name!(
    /// The name of a queue within its namespace.
    QueueName, "queue"
);
name!(
    /// Workers of one group share the jobs of a queue; each group has its own copy of every job.
    Group, "group"
);
name!(
    /// One worker in one process from its start to its end. A new start is a new consumer: the name that a user gives
    /// is followed by random characters.
    Consumer, "consumer"
);
name!(
    /// The name of a schedule within its namespace.
    ScheduleName, "schedule"
);

impl Group {
    /// What workers belong to that name no group.
    pub fn main() -> Self {
        Self(Arc::from("main"))
    }
}

impl Consumer {
    /// A consumer that was not there before. `label` is cut to what fits.
    pub fn start(label: &str) -> StoreResult<Self> {
        let mut end = label.len().min(MAX_BYTES - 17);
        while !label.is_char_boundary(end) {
            end -= 1;
        }
        let mut nonce = [0; 8];
        fill(&mut nonce, "name a consumer")?;
        let label = label.get(..end).unwrap_or_default();
        Ok(Self(Arc::from(format!("{label}.{}", hex::encode(nonce)))))
    }
}

/// The full name of a queue. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId {
    /// Whose queue it is.
    pub namespace: Namespace,
    /// Which one.
    pub name: QueueName,
}

impl QueueId {
    /// Joins the two.
    pub fn new(namespace: &Namespace, name: &QueueName) -> Self {
        Self { namespace: namespace.clone(), name: name.clone() }
    }
}

/// The id that hapax gives to a job: 128 bits, made once per logical `add`, outside any resend. As text, 32 hex digits.
///
/// It consists of the number of a producer, drawn at random when the producer starts, and of a count, so that a store
/// can remember the last ones of a producer in little room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid([u8; 16]);

impl Uid {
    /// From the number of its producer and the count there.
    pub fn new(producer: [u8; 10], count: u64) -> Self {
        let mut bytes = [0; 16];
        let (head, tail) = bytes.split_at_mut(10);
        head.copy_from_slice(&producer);
        tail.copy_from_slice(count.to_be_bytes().get(2..).unwrap_or(&[0; 6]));
        Self(bytes)
    }

    /// The number of a new producer.
    pub fn producer() -> StoreResult<[u8; 10]> {
        let mut producer = [0; 10];
        fill(&mut producer, "number a producer")?;
        Ok(producer)
    }

    /// As a store kept it.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// For stores.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

fn fill(bytes: &mut [u8], op: &'static str) -> StoreResult<()> {
    getrandom::fill(bytes).map_err(|e| {
        StoreError::new(StoreErrorKind::Internal, "hapax", op, "the system gave no random bytes")
            .with_source(e)
    })
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

/// The text is no id of a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id of a job is 32 hex digits, as `hapax queue list` prints it")]
#[non_exhaustive]
pub struct InvalidUid;

impl FromStr for Uid {
    type Err = InvalidUid;

    fn from_str(text: &str) -> Result<Self, InvalidUid> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidUid)?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_bounds_and_take_any_character() {
        assert!(QueueName::new("").is_err());
        assert!(QueueName::new(&"x".repeat(201)).is_err());
        assert_eq!(QueueName::new("a:{b} 🦀\0").unwrap().as_str(), "a:{b} 🦀\0");
    }

    #[test]
    fn every_start_is_another_consumer() {
        let label = "ü".repeat(150);
        let (a, b) = (Consumer::start(&label).unwrap(), Consumer::start(&label).unwrap());
        assert_ne!(a, b);
        assert!(a.as_str().len() <= MAX_BYTES);
    }

    #[test]
    fn ids_count_within_a_producer() {
        let producer = Uid::producer().unwrap();
        let (a, b) = (Uid::new(producer, 1), Uid::new(producer, 2));
        assert!(a < b);
        assert_eq!(a.to_string().parse::<Uid>().unwrap(), a);
        assert!("12".parse::<Uid>().is_err());
    }
}
