//! How the servers are: for whoever looks after them.

use crate::{
    error::Failure,
    layout::{self, INDEX},
    store::MongoStore,
    value::number,
};
use async_trait::async_trait;
use hapax_core::{
    StoreErrorKind, StoreResult,
    doctor::{Examination, Examine, Severity},
};
use mongodb::bson::{Bson, Document, doc};

const OP: &str = "look at the server";

#[async_trait]
impl Examine for MongoStore {
    async fn examine(&self) -> StoreResult<Examination> {
        self.examined().await.map_err(|failure| failure.error(OP))
    }
}

impl MongoStore {
    async fn examined(&self) -> Result<Examination, Failure> {
        let (sessions, deadline) = (&self.sessions, self.sessions.deadline());
        let build = sessions.call_in("admin", doc! { "buildInfo": 1 }, true, deadline).await;
        let build = build.map_err(Failure::undone)?;
        let (hello, moment) = sessions.hello(deadline).await?;
        let collections = sessions.collections(deadline).await?;
        let has_keys = collections.iter().any(|(name, _)| *name == sessions.options.collection);
        let indexes = if has_keys { self.indexes(deadline).await? } else { Some(Vec::new()) };
        let mut found = Examination::default();
        found.fact("place", sessions.place.clone());
        let version = build.get_str("version").unwrap_or("of an unknown version");
        found.fact("version", format!("MongoDB {version}"));
        found.store_time = Some(moment.now);
        let state = State {
            topology: Topology::of(&hello),
            members: hello.get_array("hosts").map_or(0, Vec::len),
            unfit: collections.iter().find_map(|(_, found)| layout::unfit(found)),
            indexes,
            overruled: sessions.options.overruled.clone(),
        };
        state.judge(&mut found);
        Ok(found)
    }

    /// The indexes of the collection; none where the user may not see them.
    async fn indexes(&self, deadline: tokio::time::Instant) -> Result<Option<Vec<Document>>, Failure> {
        let command = doc! { "listIndexes": &self.sessions.options.collection };
        let reply = match self.sessions.call(command, true, deadline).await {
            Ok(reply) => reply,
            Err(failure) if failure.kind == StoreErrorKind::Auth => return Ok(None),
            Err(failure) => return Err(failure.undone()),
        };
        let found = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let found = found.map_err(|_| Failure::nonsense(&self.sessions.place).undone())?;
        Ok(Some(found.iter().filter_map(Bson::as_document).cloned().collect()))
    }
}

/// How the servers stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topology {
    Standalone,
    ReplicaSet(String),
    Sharded,
}

impl Topology {
    fn of(hello: &Document) -> Self {
        match (hello.get_str("setName"), hello.get_str("msg")) {
            (Ok(name), _) => Self::ReplicaSet(name.to_owned()),
            (_, Ok("isdbgrid")) => Self::Sharded,
            _ => Self::Standalone,
        }
    }
}

/// What the servers say of themselves, and the URL of them.
struct State {
    topology: Topology,
    members: usize,
    unfit: Option<&'static str>,
    indexes: Option<Vec<Document>>,
    overruled: Vec<&'static str>,
}

impl State {
    fn judge(&self, found: &mut Examination) {
        found.fact(
            "topology",
            match &self.topology {
                Topology::Standalone => "standalone".to_owned(),
                Topology::ReplicaSet(name) => format!("replica set `{name}`, {} members", self.members),
                Topology::Sharded => "sharded".to_owned(),
            },
        );
        found.fact("write_concern", "majority, journaled");
        found.fact("read_preference", "primary");
        if self.topology == Topology::Standalone {
            found.find(
                "topology",
                Severity::Warning,
                "a standalone server keeps what it acknowledged on one machine: with its disk, keys and receipts are \
                 gone, and their effects run again",
                "run it as a replica set: three members, or one to begin with (`replSetInitiate`)",
            );
        }
        if matches!(self.topology, Topology::ReplicaSet(_)) && self.members < 3 {
            found.find(
                "replicas",
                Severity::Info,
                format!("a replica set of {} has no majority without each of its members", self.members),
                "three members go on when one of them is away",
            );
        }
        if self.topology == Topology::Sharded {
            found.find(
                "clock",
                Severity::Info,
                "the time is that of the routers, each of which has its own: one that is ahead by more than a second ends \
                 leases early",
                "let all of them set their clocks by NTP",
            );
        }
        if let Some(reason) = self.unfit {
            found.find(
                "collection",
                Severity::Error,
                format!("the collection {reason}"),
                "name another in the URL (`collection=`), which will be made as it must be",
            );
        }
        if !self.overruled.is_empty() {
            found.find(
                "url",
                Severity::Info,
                format!(
                    "the URL sets {}, which hapax does not follow: writes wait for the majority, reads are of the \
                     primary",
                    self.overruled.join(", ")
                ),
                "leave it out, so that nobody expects it",
            );
        }
        self.judge_indexes(found);
    }

    fn judge_indexes(&self, found: &mut Examination) {
        let Some(indexes) = &self.indexes else { return };
        let on = |index: &Document, field: &str| {
            index.get_document("key").is_ok_and(|key| key.len() == 1 && key.contains_key(field))
        };
        let removes = |index: &Document| on(index, INDEX) && number(index, "expireAfterSeconds").is_some();
        if !indexes.iter().any(removes) {
            found.find(
                "index",
                Severity::Warning,
                "the index is missing by which the server removes old records: the collection grows",
                format!(
                    "db.COLLECTION.createIndex({{{INDEX}: 1}}, {{expireAfterSeconds: 0}}), or `hapax keys prune` now and \
                     then"
                ),
            );
        }
        if indexes.iter().any(|index| !on(index, "_id") && index.get_bool("unique").unwrap_or(false)) {
            found.find(
                "index",
                Severity::Error,
                "the collection has a unique index beside `_id`, which may refuse records",
                "drop it, or name another collection (`collection=`)",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found when some of it is otherwise.
    fn judged(change: impl FnOnce(&mut State)) -> Vec<(&'static str, Severity)> {
        let mut state = State {
            topology: Topology::ReplicaSet("rs".into()),
            members: 3,
            unfit: None,
            indexes: Some(vec![
                doc! { "key": { "_id": 1 } },
                doc! { "key": { INDEX: 1 }, "expireAfterSeconds": 0 },
            ]),
            overruled: Vec::new(),
        };
        change(&mut state);
        let mut found = Examination::default();
        state.judge(&mut found);
        found.findings.iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    #[test]
    fn a_sound_replica_set_has_no_findings() {
        assert_eq!(judged(|_| {}), []);
        assert_eq!(judged(|state| state.indexes = None), []);
    }

    #[test]
    fn what_may_forget_or_refuse_a_key_is_found() {
        let standalone = judged(|state| state.topology = Topology::Standalone);
        assert_eq!(standalone, [("topology", Severity::Warning)]);
        let sharded = judged(|state| state.topology = Topology::Sharded);
        assert_eq!(sharded, [("clock", Severity::Info)]);
        assert_eq!(judged(|state| state.members = 1), [("replicas", Severity::Info)]);
        assert_eq!(judged(|state| state.unfit = Some("is capped")), [("collection", Severity::Error)]);
        assert_eq!(judged(|state| state.overruled = vec!["w"]), [("url", Severity::Info)]);
        let no_index = judged(|state| state.indexes.as_mut().unwrap().truncate(1));
        assert_eq!(no_index, [("index", Severity::Warning)]);
        let unique = doc! { "key": { "result.token": 1 }, "unique": true };
        assert_eq!(
            judged(|state| state.indexes.as_mut().unwrap().push(unique)),
            [("index", Severity::Error)]
        );
    }

    #[test]
    fn servers_say_how_they_stand() {
        assert_eq!(Topology::of(&doc! { "isWritablePrimary": true }), Topology::Standalone);
        assert_eq!(Topology::of(&doc! { "setName": "rs" }), Topology::ReplicaSet("rs".into()));
        assert_eq!(Topology::of(&doc! { "msg": "isdbgrid" }), Topology::Sharded);
    }
}
