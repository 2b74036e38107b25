//! Schedules: one hash for a namespace.
//!
//! A value: next(8) revision(8), whether there is an owner(1) and its name with its length(2), the queue with its
//! length(2), and what the engine makes of it.

use super::{Queues, call, script};
use crate::{
    ask::Ask,
    error::Failure,
    script::{Eval, Script},
};
use bytes::Bytes;
use hapax_core::{
    Namespace, Timestamp,
    queue::{Put, QueueName, Schedule, ScheduleName, Schedules},
};
use redis::Cmd;

fn with_length(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let kept = text.as_bytes().get(..usize::from(length)).unwrap_or_default();
    [&length.to_be_bytes()[..], kept].concat()
}

fn owner(owner: Option<&str>) -> Vec<u8> {
    match owner {
        Some(name) => [vec![1], with_length(name)].concat(),
        None => vec![0, 0, 0],
    }
}

fn print(schedule: &Schedule) -> Vec<u8> {
    let mut value = schedule.next.as_millis().to_be_bytes().to_vec();
    value.extend(schedule.revision.to_be_bytes());
    value.extend(owner(schedule.owner.as_deref()));
    value.extend(with_length(schedule.queue.as_str()));
    value.extend(&schedule.what[..]);
    value
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

fn read(name: &[u8], value: &[u8]) -> Option<Schedule> {
    let (next, rest) = value.split_first_chunk()?;
    let (revision, rest) = rest.split_first_chunk()?;
    let (is_owned, rest) = rest.split_first()?;
    let (owner, rest) = text(rest)?;
    let (queue, what) = text(rest)?;
    Some(Schedule {
        name: ScheduleName::new(std::str::from_utf8(name).ok()?).ok()?,
        queue: QueueName::new(queue).ok()?,
        owner: (*is_owned == 1).then(|| owner.to_owned()),
        revision: u64::from_be_bytes(*revision),
        what: Bytes::copy_from_slice(what),
        next: Timestamp::from_millis(i64::from_be_bytes(*next)),
    })
}

impl Queues {
    fn schedules_key(&self, namespace: &Namespace) -> String {
        self.store.keys().meta(&format!("schedules:{}", namespace.as_str()))
    }

    async fn on_schedules(
        &self,
        namespace: &Namespace,
        script: &'static Script,
        args: Cmd,
        resend: bool,
    ) -> Result<bool, Failure> {
        let mut eval = Eval::new(script, &self.lines().connector.only_6_2);
        let bytes = args.get_packed_command().len();
        eval.add(self.schedules_key(namespace), Vec::new(), args, bytes);
        let reply = self.lines().call_one(&Ask::Eval(eval), resend).await?;
        call::number(&reply).map(|answer| answer == 1).ok_or_else(|| self.nonsense())
    }

    pub(super) async fn scheduled(&self, namespace: &Namespace, schedule: &Schedule) -> Result<Put, Failure> {
        let mut args = Cmd::new();
        args.arg(schedule.name.as_str()).arg(owner(schedule.owner.as_deref()));
        args.arg(&schedule.revision.to_be_bytes()[..]).arg(print(schedule));
        let is_there = self.on_schedules(namespace, &script::PUT_SCHEDULE, args, true).await?;
        Ok(if is_there { Put::Stored } else { Put::Refused })
    }

    pub(super) async fn all_schedules(&self, req: &Schedules) -> Result<Vec<Schedule>, Failure> {
        let key = self.schedules_key(&req.namespace);
        let mut get = redis::cmd("HGETALL");
        get.arg(&key);
        let reply = self.lines().call_one(&Ask::Plain(key, get), true).await?;
        let all: Vec<(Vec<u8>, Vec<u8>)> = redis::from_redis_value(reply).map_err(|_| self.nonsense())?;
        // Written by a newer version, or by another program than hapax.
        let all = all.iter().filter_map(|(name, value)| read(name, value));
        let mut due: Vec<_> = all.filter(|schedule| req.by.is_none_or(|by| schedule.next <= by)).collect();
        due.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(due)
    }

    pub(super) async fn unscheduled(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> Result<bool, Failure> {
        if let Some(seen) = seen {
            let mut args = Cmd::new();
            args.arg(name.as_str()).arg(owner(seen.owner.as_deref())).arg(&seen.revision.to_be_bytes()[..]);
            return self.on_schedules(namespace, &script::REMOVE_SCHEDULE, args, true).await;
        }
        let key = self.schedules_key(namespace);
        let mut delete = redis::cmd("HDEL");
        delete.arg(&key).arg(name.as_str());
        let reply = self.lines().call_one(&Ask::Plain(key, delete), true).await?;
        call::number(&reply).map(|gone| gone == 1).ok_or_else(|| self.nonsense())
    }

    /// Not sent again by itself: whoever hears that somebody moved it would not know that it was himself.
    pub(super) async fn advanced(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<bool, Failure> {
        let mut args = Cmd::new();
        args.arg(name.as_str()).arg(&from.as_millis().to_be_bytes()[..]);
        args.arg(&to.as_millis().to_be_bytes()[..]);
        self.on_schedules(namespace, &script::ADVANCE_SCHEDULE, args, false).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_comes_back() {
        for owner in [None, Some(String::new()), Some("ops".to_owned())] {
            let schedule = Schedule {
                name: ScheduleName::new("nightly").unwrap(),
                queue: QueueName::new("q").unwrap(),
                owner,
                revision: u64::MAX,
                what: Bytes::from_static(b"\0what"),
                next: Timestamp::from_millis(-5),
            };
            assert_eq!(read(b"nightly", &print(&schedule)), Some(schedule));
        }
    }
}
