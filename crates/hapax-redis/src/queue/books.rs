//! A look at the records themselves, for `hapax doctor`.

use super::{
    Queues,
    call::{self, Args, Op},
    form, script,
};
use crate::{doctor::Probe, error::Failure};
use hapax_core::{
    StoreErrorKind,
    queue::{
        Books, GroupBooks, QueueId,
        books::{MOST_QUEUES, OVERDUE},
    },
};
use redis::Value;

/// So many entries of each kind are looked at in one call of a script, which has the server for itself: two milliseconds.
const LOOKED: u64 = 400;

/// What the scripts and waits of queues call beyond the commands of keys, in a form that changes nothing.
const PROBES: &[Probe] = &[
    ("HGET", &["KEY", "x"]),
    // Names a field without a value.
    ("HSET", &["KEY", "x", "", "y"]),
    ("HDEL", &["KEY", "x"]),
    ("HLEN", &["KEY"]),
    ("HMGET", &["KEY", "x"]),
    ("HEXISTS", &["KEY", "x"]),
    // By no number.
    ("HINCRBY", &["KEY", "x", "none"]),
    ("HGETALL", &["KEY"]),
    ("HSCAN", &["KEY", "0"]),
    ("ZREM", &["KEY", "x"]),
    ("ZRANGE", &["KEY", "0", "0"]),
    ("ZRANGEBYSCORE", &["KEY", "0", "0"]),
    ("ZRANGEBYLEX", &["KEY", "[x", "[x"]),
    ("ZREMRANGEBYRANK", &["KEY", "0", "0"]),
    ("ZMSCORE", &["KEY", "x"]),
    ("ZSCORE", &["KEY", "x"]),
    ("ZCARD", &["KEY"]),
    ("ZCOUNT", &["KEY", "0", "0"]),
    // Not `RPUSH`, which has no such form.
    ("LLEN", &["KEY"]),
    ("LRANGE", &["KEY", "0", "0"]),
    ("LTRIM", &["KEY", "0", "-1"]),
    ("BITFIELD", &["KEY", "GET", "u1", "0"]),
    ("EXISTS", &["KEY"]),
    ("UNLINK", &["KEY"]),
    ("RENAME", &["KEY", "KEY"]),
    // For a time that is none.
    ("BZPOPMIN", &["KEY", "-1"]),
];

impl Queues {
    pub(super) async fn looked(&self, queue: Option<&QueueId>) -> Result<Books, Failure> {
        let mut found = Books::default();
        let mut queues = match queue {
            Some(queue) => vec![queue.clone()],
            None => {
                found.missing_rights = self.store.missing_of(PROBES).await;
                match self.queues(None).await {
                    Ok(queues) => queues,
                    Err(failure) if failure.kind == StoreErrorKind::Auth => Vec::new(),
                    Err(failure) => return Err(failure),
                }
            }
        };
        found.are_used = !queues.is_empty();
        if !found.missing_rights.is_empty() {
            return Ok(found);
        }
        if queues.len() > MOST_QUEUES {
            found.is_more = true;
            queues.truncate(MOST_QUEUES);
        }
        for queue in &queues {
            found.groups.extend(self.of_queue(queue).await?);
        }
        Ok(found)
    }

    /// The figures are of one instant, and the records of another.
    async fn of_queue(&self, queue: &QueueId) -> Result<Vec<GroupBooks>, Failure> {
        let place = self.place(queue);
        let stats = self.counted(&queue.namespace, Some(&queue.name)).await?;
        let args = || Args::new().arg(LOOKED).arg(OVERDUE.as_millis().to_string());
        let Some(mut said) = self.on_all(&place, Op::again(&script::BOOKS), args).await? else {
            return Ok(Vec::new());
        };
        let now = said.now;
        let (groups, dangling) = (|| Some((said.list()?, said.count()?)))().ok_or_else(|| self.nonsense())?;
        let mut found = Vec::new();
        // A group that came in between has nothing to tell yet.
        for (stats, group) in stats.into_iter().zip(groups) {
            let sound = GroupBooks::sound(queue.clone(), stats, now);
            let dangling = if found.is_empty() { dangling } else { 0 };
            found.push(read(GroupBooks { dangling, ..sound }, group).ok_or_else(|| self.nonsense())?);
        }
        Ok(found)
    }
}

fn read(sound: GroupBooks, group: Value) -> Option<GroupBooks> {
    let mut parts = call::list(group)?.into_iter();
    let mut count = || parts.next().as_ref().and_then(call::number).and_then(|n| u64::try_from(n).ok());
    let (placed, bodies, bodiless) = (count()?, count()?, count()?);
    let (are_all, overdue) = (count()? == 1, count()?);
    let consumer = call::bytes(parts.next()?)?;
    Some(GroupBooks {
        // Both are counted exactly, so that one that was not looked at shows in the difference.
        bodiless: bodiless.max(placed.saturating_sub(bodies)),
        homeless: bodies.saturating_sub(placed.saturating_sub(bodiless)),
        overdue,
        overdue_of: form::consumer(&consumer),
        looked_at: (!are_all).then_some(LOOKED),
        ..sound
    })
}
