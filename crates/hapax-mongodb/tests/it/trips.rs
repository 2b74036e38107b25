//! How often a step goes to the server, and what it says there.

use crate::support::{Place, complete, is_yours, reserve};
use hapax_core::{
    Span, StoreResult,
    idempotency::{
        Completed, Dropped, Extended, IdempotencyStore, Kind, Reserve, Reserved, Retake, Retaken, Write,
    },
};
use hapax_mongodb::{MongoOptions, MongoStore};
use mongodb::{
    bson::Document,
    event::{EventHandler, command::CommandEvent},
    options::ClientOptions,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

crate::list!("trips";
    the_usual_steps_take_one_trip,
    batches_take_a_trip_or_two,
    what_an_earlier_call_did_is_confirmed_before_it_is_told,
    writes_wait_for_the_majority_and_reads_are_of_the_primary,
);

/// A store, and the commands that it sent.
pub(crate) struct Heard {
    pub(crate) store: MongoStore,
    commands: Arc<Mutex<Vec<Document>>>,
}

impl Heard {
    pub(crate) async fn new(place: &Place, more: &str) -> Self {
        let commands = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&commands);
        let mut options = ClientOptions::parse(place.url(more)).await.unwrap();
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(event) = event {
                log.lock().unwrap().push(event.command);
            }
        }));
        let store = MongoStore::connect(MongoOptions::new(options).unwrap()).await.unwrap();
        let heard = Self { store, commands };
        heard.take();
        heard
    }

    fn take(&self) -> Vec<Document> {
        std::mem::take(&mut *self.commands.lock().unwrap())
    }

    /// The commands since the last look, but for the question what time it is.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.take().into_iter().map(|command| command.keys().next().unwrap().clone());
        names.filter(|name| name != "hello").collect()
    }
}

async fn the_usual_steps_take_one_trip() {
    let place = Place::new();
    let heard = Heard::new(&place, "").await;
    let (store, one, two) = (&heard.store, reserve("one"), reserve("two"));
    assert!(is_yours(&store.reserve(&one).await.unwrap()));
    assert_eq!(heard.names(), ["insert"]);
    let longer = Span::new(Duration::from_hours(1)).unwrap();
    assert!(matches!(store.extend(&one.name, &one.token, longer).await.unwrap(), Extended::Until(_)));
    assert_eq!(heard.names(), ["update"]);
    assert_eq!(store.complete(&complete(&one)).await.unwrap(), Completed::Stored);
    assert_eq!(heard.names(), ["update"]);
    assert!(matches!(store.reserve(&reserve("one")).await.unwrap(), Reserved::Held(_)));
    assert_eq!(heard.names(), ["insert", "find"]);
    assert!(is_yours(&store.reserve(&two).await.unwrap()));
    assert_eq!(store.release(&two.name, &two.token).await.unwrap(), Write::Applied);
    assert_eq!(heard.names(), ["insert", "delete"]);
    assert_eq!(store.complete(&complete(&reserve("vacant"))).await.unwrap(), Completed::Stored);
    assert_eq!(heard.names(), ["update"]);
}

fn all<T>(answers: &[StoreResult<T>], holds: impl Fn(&T) -> bool) {
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(&holds)));
}

async fn batches_take_a_trip_or_two() {
    let place = Place::new();
    let heard = Heard::new(&place, "").await;
    let store = &heard.store;
    let reqs: Vec<Reserve> = (0..100).map(|n| reserve(&n.to_string())).collect();
    all(&store.reserve_many(&reqs).await, is_yours);
    assert_eq!(heard.names(), ["insert"]);
    all(&store.reserve_many(&reqs).await, is_yours);
    assert_eq!(heard.names(), ["insert", "find"]);
    let longer = Span::new(Duration::from_hours(1)).unwrap();
    let leases: Vec<_> = reqs.iter().map(|req| (req.name.clone(), req.token, longer)).collect();
    all(&store.extend_many(&leases).await, |answer| matches!(answer, Extended::Until(_)));
    assert_eq!(heard.names(), ["update"]);
    let (done, freed) = reqs.split_at(50);
    let results: Vec<_> = done.iter().map(complete).collect();
    all(&store.complete_many(&results).await, |answer| *answer == Completed::Stored);
    assert_eq!(heard.names(), ["update"]);
    let tokens: Vec<_> = freed.iter().map(|req| (req.name.clone(), req.token)).collect();
    all(&store.release_many(&tokens).await, |answer| *answer == Write::Applied);
    assert_eq!(heard.names(), ["find", "delete"]);
    all(&store.release_many(&tokens).await, |answer| *answer == Write::Fenced);
    assert_eq!(heard.names(), ["find"]);
}

/// Its write may have been done where the majority has not got it yet.
async fn what_an_earlier_call_did_is_confirmed_before_it_is_told() {
    let place = Place::new();
    let heard = Heard::new(&place, "").await;
    let (store, req) = (&heard.store, reserve("k"));
    for _ in 0..2 {
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
    }
    assert_eq!(heard.names(), ["insert", "insert", "find"]);
    let mut unknown = complete(&req);
    unknown.kind = Kind::Unknown;
    assert_eq!(store.complete(&unknown).await.unwrap(), Completed::Stored);
    assert_eq!(store.complete(&unknown).await.unwrap(), Completed::AlreadyDone);
    assert_eq!(heard.names(), ["update", "update", "find"]);
    let asker = reserve("k");
    let (token, fingerprint, lease) = (asker.token, asker.fingerprint, asker.lease);
    let retake = Retake { name: asker.name, token, fingerprint, lease };
    for _ in 0..2 {
        assert!(matches!(store.retake_unknown(&retake).await.unwrap(), Retaken::Yours { .. }));
    }
    assert_eq!(heard.names(), ["find", "update", "find", "update"]);
    for _ in 0..2 {
        assert_eq!(store.drop_unknown(&retake.name, &token).await.unwrap(), Dropped::Dropped);
    }
    assert_eq!(heard.names(), ["find", "update", "find", "update"]);
}

async fn writes_wait_for_the_majority_and_reads_are_of_the_primary() {
    let place = Place::new();
    let heard =
        Heard::new(&place, "w=1&journal=false&readPreference=secondaryPreferred&readConcernLevel=available")
            .await;
    let (store, req) = (&heard.store, reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert!(store.read(&req.name).await.unwrap().is_some());
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    let commands: Vec<_> =
        heard.take().into_iter().filter(|command| !command.contains_key("hello")).collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        let preference = command.get_document("$readPreference").ok();
        let is_primary =
            preference.is_none_or(|preference| preference.get_str("mode").unwrap().starts_with("primary"));
        assert!(is_primary, "{command}");
        if command.contains_key("find") {
            assert_eq!(command.get_document("readConcern").unwrap().get_str("level").unwrap(), "local");
            continue;
        }
        let concern = command.get_document("writeConcern").unwrap();
        assert_eq!(concern.get_str("w").unwrap(), "majority");
        assert!(concern.get_bool("j").unwrap() && concern.get_i64("wtimeout").unwrap() < 5_000);
    }
}
