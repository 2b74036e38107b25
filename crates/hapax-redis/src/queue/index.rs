//! Which queues there are: one sorted set for all, in a slot of its own, and so not in the step that makes a queue.

use super::{Queues, call, keys::Place};
use crate::{ask::Ask, error::Failure};
use hapax_core::{
    Namespace,
    queue::{QueueId, QueueName},
};
use redis::Cmd;

/// So many names are read at once.
const READ: usize = 1000;

fn member(id: &QueueId) -> String {
    format!("{}:{}{}", id.namespace.as_str().len(), id.namespace.as_str(), id.name)
}

fn split(member: &str) -> Option<QueueId> {
    let (length, rest) = member.split_once(':')?;
    let (namespace, name) = rest.split_at_checked(length.parse().ok()?)?;
    Some(QueueId::new(&Namespace::from_shown(namespace).ok()?, &QueueName::new(name).ok()?))
}

impl Queues {
    async fn plain(&self, key: &str, cmd: Cmd) -> Result<redis::Value, Failure> {
        self.lines().call_one(&Ask::Plain(key.to_owned(), cmd), true).await
    }

    /// Notes a queue, before it is there: one that is noted and not there is left out of lists.
    pub(super) async fn noted(&self, place: &Place) -> Result<(), Failure> {
        let key = self.store.keys().meta("queues");
        let mut add = redis::cmd("ZADD");
        add.arg(&key).arg(0).arg(member(&place.id));
        self.plain(&key, add).await.map(drop)
    }

    /// The queues of a namespace, or all.
    pub(super) async fn queues(&self, namespace: Option<&Namespace>) -> Result<Vec<QueueId>, Failure> {
        let key = self.store.keys().meta("queues");
        let prefix =
            namespace.map(|namespace| format!("{}:{}", namespace.as_str().len(), namespace.as_str()));
        let mut from = format!("[{}", prefix.as_deref().unwrap_or_default());
        let mut found = Vec::new();
        loop {
            let mut range = redis::cmd("ZRANGEBYLEX");
            range.arg(&key).arg(&from).arg("+").arg("LIMIT").arg(0).arg(READ);
            let reply = self.plain(&key, range).await?;
            let page = call::list(reply).ok_or_else(|| self.nonsense())?;
            let is_last = page.len() < READ;
            for value in page {
                let text = call::bytes(value).and_then(|bytes| String::from_utf8(bytes).ok());
                let Some(text) = text else { continue };
                if prefix.as_ref().is_some_and(|prefix| !text.starts_with(prefix.as_str())) {
                    return Ok(found);
                }
                from = format!("({text}");
                // Written by another program than hapax.
                found.extend(split(&text));
            }
            if is_last {
                return Ok(found);
            }
        }
    }
}
