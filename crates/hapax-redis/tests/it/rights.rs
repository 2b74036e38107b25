//! Users and their rights.

use crate::support::{
    at, complete, is_held_done, is_yours, name, open, raw, refusal, reserve, run, span, try_open,
};
use hapax_core::{
    Applied, Coded as _, Namespace, StoreErrorKind, Token,
    doctor::Examine as _,
    idempotency::{
        Complete, Completed, Dropped, IdempotencyStore, Kind, List, Resolution, Resolve, Resolved, Retake,
        Retaken, StateFilter, Write,
    },
};
use hapax_testkit::redis::{Redis, SharedCluster};
use std::time::Duration;

crate::list!("rights", &["flock"];
    a_wrong_password_is_told,
    a_password_that_is_missing_is_told,
    a_right_password_works,
    the_listed_commands_are_enough,
    a_command_that_is_not_allowed_is_told,
    each_missing_right_is_told_by_the_doctor,
    each_primary_of_a_cluster_is_looked_at,
);

fn with_password() -> Redis {
    Redis::with(&["--requirepass", "s3cret"])
}

async fn a_wrong_password_is_told() {
    let server = with_password();
    for login in [":wr0ng", "default:wr0ng", "ada:s3cret"] {
        let error = refusal(&at(&server, login)).await;
        assert_eq!((error.code(), error.applied()), ("store.auth", Applied::No), "{error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("wr0ng") && !shown.contains("s3cret"), "{shown}");
    }
}

async fn a_password_that_is_missing_is_told() {
    let server = with_password();
    assert_eq!(refusal(&server.url()).await.code(), "store.auth");
    assert_eq!(refusal(&format!("redis+unix:{}", server.socket().display())).await.code(), "store.auth");
}

async fn a_right_password_works() {
    let server = with_password();
    for url in [
        at(&server, ":s3cret"),
        at(&server, "default:s3cret"),
        format!("{}?password=s3cret", server.url()),
        format!("redis+unix:{}?user=default&password=s3cret", server.socket().display()),
    ] {
        let store = open(&url).await;
        assert!(store.read(&name("k")).await.unwrap().is_none());
    }
}

/// As the documentation of the crate lists them.
const COMMANDS: &str =
    "+get +set +del +time +pttl +evalsha +eval +scan +zadd +zscan +zremrangebyscore +pexpire";

async fn the_listed_commands_are_enough() {
    let server = Redis::start();
    let user = format!("ACL SETUSER ada on >pw resetkeys ~hapax{{}}* resetchannels -@all {COMMANDS}");
    assert!(server.ask(&user).starts_with("+OK"));
    for more in ["", "?protocol=3", "?commands=6.2"] {
        assert!(server.ask("FLUSHALL").starts_with("+OK"));
        assert!(server.ask("SCRIPT FLUSH").starts_with("+OK"));
        let store = open(&format!("{}{more}", at(&server, "ada:pw"))).await;
        assert!(store.secret().await.unwrap().is_some());
        let (req, lost, freed) = (reserve("k"), reserve("lost"), reserve("freed"));
        for req in [&req, &lost, &freed] {
            assert!(is_yours(&store.reserve(req).await.unwrap()));
            assert!(is_yours(&store.reserve(req).await.unwrap()));
            let _ = store.extend(&req.name, &req.token, span(Duration::from_mins(2))).await.unwrap();
        }
        assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
        assert!(is_held_done(&store.reserve(&reserve("k")).await.unwrap()));
        assert_eq!(store.release(&freed.name, &freed.token).await.unwrap(), Write::Applied);
        assert_eq!(store.force_release(&freed.name).await.unwrap(), Write::Fenced);
        let unknown = Complete { kind: Kind::Unknown, ..complete(&lost) };
        assert_eq!(store.complete(&unknown).await.unwrap(), Completed::Stored);
        let token = Token::random().unwrap();
        let retake =
            Retake { name: lost.name.clone(), token, fingerprint: lost.fingerprint, lease: lost.lease };
        assert!(matches!(store.retake_unknown(&retake).await.unwrap(), Retaken::Yours { .. }));
        assert_eq!(store.release(&lost.name, &token).await.unwrap(), Write::Applied);
        assert_eq!(store.drop_unknown(&lost.name, &token).await.unwrap(), Dropped::Fenced);
        for state in [None, Some(StateFilter::Unknown)] {
            let page = store.list(&List { state, ..List::new(Namespace::default()) }).await.unwrap();
            assert_eq!(page.records.len(), if state.is_some() { 1 } else { 2 });
        }
        let token = Token::random().unwrap();
        let did_not =
            Resolve { name: lost.name.clone(), token, version: None, resolution: Resolution::DidNot };
        assert_eq!(store.resolve(&did_not).await.unwrap(), Resolved::Applied);
    }
    // And none of them reaches what is not hapax's.
    let error = try_open(&format!("{}?prefix=other", at(&server, "ada:pw"))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Auth);
}

async fn a_command_that_is_not_allowed_is_told() {
    let server = Redis::start();
    assert!(server.ask("ACL SETUSER ada on >pw allkeys +@all").starts_with("+OK"));
    let store = open(&at(&server, "ada:pw")).await;
    let req = reserve("k");
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert!(server.ask("ACL SETUSER ada -evalsha").starts_with("+OK"));
    let error = store.complete(&complete(&req)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("store.auth", Applied::No), "{error}");
    // From then on nothing begins whose receipt could not be kept.
    let error = try_open(&at(&server, "ada:pw")).await.unwrap_err();
    assert!(error.code() == "store.auth" && error.to_string().contains("+evalsha"), "{error}");
}

async fn each_missing_right_is_told_by_the_doctor() {
    let server = Redis::start();
    assert!(server.ask("ACL SETUSER ada on >pw allkeys +@all").starts_with("+OK"));
    let store = open(&at(&server, "ada:pw")).await;
    let rights = async || -> Vec<String> {
        let found = store.examine().await.unwrap().findings.into_iter();
        found.filter(|finding| finding.check == "rights").map(|finding| finding.remedy).collect()
    };
    assert_eq!(rights().await, Vec::<String>::new());
    assert!(server.ask("ACL SETUSER ada -zadd -evalsha -pttl").starts_with("+OK"));
    let told = ["pttl", "evalsha", "zadd"].map(|right| format!("ACL SETUSER <user> +{right}"));
    assert_eq!(rights().await, told);
    assert!(server.ask("ACL SETUSER ada +@all -bzpopmin -lset").starts_with("+OK"));
    let others = [("bzpopmin", "locks"), ("lset", "rate limits")];
    let told = others.map(|(right, what)| format!("ACL SETUSER <user> +{right}, where {what} are used"));
    assert_eq!(rights().await, told);
    // And looking left nothing behind.
    assert_eq!(server.ask("DBSIZE"), ":1\r\n");
}

async fn each_primary_of_a_cluster_is_looked_at() {
    let cluster = SharedCluster::join();
    let store = open(&cluster.url()).await;
    let told = async || -> Vec<String> {
        let found = store.examine().await.unwrap().findings.into_iter();
        found.filter(|finding| finding.check == "eviction").map(|finding| finding.reason).collect()
    };
    assert_eq!(told().await, Vec::<String>::new());
    // No other test looks at the policy, and with so much memory it decides nothing.
    let mut primary = None;
    for port in cluster.ports() {
        let mut node = raw(&format!("redis://127.0.0.1:{port}")).await;
        let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut node).await.unwrap();
        if role.first() == Some(&redis::Value::BulkString(b"master".to_vec())) {
            primary = Some((port, node));
        }
    }
    let (port, mut node) = primary.unwrap();
    let () = run(&mut node, "CONFIG SET maxmemory 10gb maxmemory-policy allkeys-lru").await;
    let told = told().await;
    let () = run(&mut node, "CONFIG SET maxmemory 0 maxmemory-policy noeviction").await;
    let place = format!("on 127.0.0.1:{port}: ");
    assert!(told.len() == 1 && told.iter().all(|reason| reason.starts_with(&place)), "{told:?}");
}
